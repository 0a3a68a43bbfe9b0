"""`python -m functad train …`: the networks it trains, the table it prints, and how it ends.

Knows which networks can be trained from the command line; trains none itself.
"""

from __future__ import annotations

import argparse
from typing import Any

from functad import io, nn, random
from functad.api import ShapeDtypeStruct
from functad.data import MNIST, MissingDataError, mnist, synthetic_digits
from functad.train.cnn import cnn
from functad.train.digits import digit_sets, on_pixels
from functad.train.loop import Dataset, Epoch, fit
from functad.train.options import add_flags, complete, describe, optimizer_of, positive_float, positive_int
from functad.train.rnn import CELLS, NONLINEARITIES, RECURRENT_INITS, rnn
from functad.tree_util import tree_leaves

_DRAWN_TRAIN, _DRAWN_TEST = 20_000, 4_000

_CNN_DEFAULTS = {"epochs": 3, "batch": 32, "optimizer": "nesterov", "schedule": "linear"}
_CNN_RATES = {"sgd": 0.05, "momentum": 0.02, "nesterov": 0.02, "adam": 0.002}
_CNN_EXAMPLES = """examples:
  python -m functad train cnn
  python -m functad train cnn --optimizer sgd --schedule constant --batch 20 --lr 0.05
  python -m functad train cnn --data synthetic --limit 2000 --epochs 1 --save digits.npz
"""

_RNN_RATES = {"sgd": 0.015, "momentum": 0.015, "nesterov": 0.015, "adam": 0.003}
_PUBLISHED = {
    "cell": "rnn",
    "steps": 4,
    "hidden": 64,
    "input_scale": 1.0,
    "output_scale": 1.0,
    "epochs": 5,
    "batch": 100,
    "optimizer": "sgd",
    "schedule": "constant",
}
# What each name stands for. A flag that is given goes before it.
_PRESETS: dict[str, dict[str, Any]] = {
    "published": _PUBLISHED,
    "scaled": {**_PUBLISHED, "input_scale": 0.5, "output_scale": 6.0},
    "best": {**_PUBLISHED, "cell": "gru", "steps": 28, "hidden": 128, "optimizer": "adam", "schedule": "linear"},
}
_RNN_EXAMPLES = """presets:
  published  4 strips of 7 rows, 64 tanh units, plain gradient descent at a rate of 0.015, Glorot's weights
  scaled     the same, the first weights of the inputs half as large, those of the output layer 6 times
  best       row by row, 128 GRU units, Adam

examples:
  python -m functad train rnn
  python -m functad train rnn --preset scaled
  python -m functad train rnn --preset best --cell lstm
  python -m functad train rnn --cell gru --steps 28 --layers 2 --bidirectional --optimizer adam --init orthogonal
"""

_NEXT = """
To try next:
  python -m functad train cnn --optimizer adam --save digits.npz
  python -m functad train rnn --preset best
  python -m functad train cnn --help
README.md shows in five minutes how such a step is written; functad/train/loop.py is this one."""

INTERRUPTED = 130  # the shell's exit code for a program that was stopped by Ctrl-C


def add_parser(commands: Any) -> None:
    """Add `train` to the sub-commands of a parser."""
    parser = commands.add_parser("train", help="train a network and show how it does")
    networks = parser.add_subparsers(metavar="NETWORK", required=True)
    kind = "network for handwritten digits"
    convolutional = _network(networks, "cnn", f"a small convolutional {kind}", _CNN_EXAMPLES)
    add_flags(convolutional, _CNN_DEFAULTS, _CNN_RATES)
    convolutional.set_defaults(run=train_cnn)
    recurrent = _network(networks, "rnn", f"a recurrent {kind}", _RNN_EXAMPLES)
    _add_rnn_flags(recurrent)
    add_flags(recurrent, _PUBLISHED, _RNN_RATES)
    recurrent.set_defaults(run=train_rnn)


def train_cnn(options: argparse.Namespace) -> int:
    """Train the convolutional network as the command line says; returns the exit code of the program."""
    complete(options, _CNN_DEFAULTS, _CNN_RATES)
    return _train(options, cnn(), "cnn")


def train_rnn(options: argparse.Namespace) -> int:
    """Train the recurrent network as the command line says; returns the exit code of the program."""
    complete(options, _PRESETS[options.preset], _RNN_RATES)
    network = rnn(
        options.cell,
        options.steps,
        options.hidden,
        options.layers,
        options.bidirectional,
        options.nonlinearity,
        options.init,
        options.input_scale,
        options.output_scale,
    )
    layers = f"{options.layers} layers of " if options.layers > 1 else ""
    ends = " from both ends" if options.bidirectional else ""
    return _train(options, network, f"{options.cell}: {layers}{options.hidden} units, {options.steps} steps{ends}")


# --- settings -----------------------------------------------------------------------------------------


def _network(networks: Any, name: str, what: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = networks.add_parser(
        name,
        help=what,
        description=f"Train {what}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)
    return parser


def _add_rnn_flags(parser: argparse.ArgumentParser) -> None:
    for flag, help_text, settings in (
        ("--preset", "settings to begin with, see below (default: published)", _choice("published", *_PRESETS)),
        ("--cell", f"default: {_PUBLISHED['cell']}", {"choices": tuple(CELLS)}),
        ("--nonlinearity", "of the cell rnn (default: tanh)", _choice("tanh", *NONLINEARITIES)),
        (
            "--steps",
            f"strips that an image is cut into; 28: row by row (default: {_PUBLISHED['steps']})",
            {"type": positive_int, "metavar": "N"},
        ),
        ("--hidden", f"size of the state (default: {_PUBLISHED['hidden']})", {"type": positive_int, "metavar": "N"}),
        (
            "--layers",
            "recurrent layers one after another (default: 1)",
            {"type": positive_int, "metavar": "N", "default": 1},
        ),
        ("--bidirectional", "read the image from both ends", {"action": "store_true"}),
        ("--init", "of the weights from state to state (default: glorot)", _choice("glorot", *RECURRENT_INITS)),
        (
            "--input-scale",
            "factor on the first weights of the inputs (default: 1)",
            {"type": positive_float, "metavar": "X"},
        ),
        (
            "--output-scale",
            "factor on the first weights of the output layer (default: 1)",
            {"type": positive_float, "metavar": "X"},
        ),
    ):
        parser.add_argument(flag, help=help_text, **settings)


def _choice(default: str, *choices: str) -> dict[str, Any]:
    return {"choices": choices, "default": default}


def _digits(choice: str, limit: int | None) -> tuple[MNIST, str]:
    if choice != "synthetic":
        print("Looking for MNIST; where it is not there yet, it is downloaded ...", flush=True)
        try:
            return mnist(pixels=True), "MNIST"
        except MissingDataError as problem:
            if choice == "mnist":
                raise
            print(f"{problem}\n\nSo this trains on drawn digits instead.\n", flush=True)
    print("Drawing digits ...", flush=True)
    count = _DRAWN_TRAIN if limit is None else min(limit, _DRAWN_TRAIN)
    return MNIST(*synthetic_digits(count, seed=0), *synthetic_digits(_DRAWN_TEST, seed=1)), "drawn digits"


# --- a run and what it prints -------------------------------------------------------------------------


def _train(options: argparse.Namespace, network: nn.Layer, title: str) -> int:
    if options.save is not None:
        io.check_writable(options.save)
    data, name = _digits(options.data, options.limit)
    train, test = digit_sets(data, options.limit)
    network = on_pixels(network)
    init_key, order_key = random.split(random.key(options.seed))
    params = network.init(init_key, ShapeDtypeStruct((options.batch, *train.inputs.shape[1:]), "uint8"))
    _print_header(options, title, name, train, test, params)
    epochs = fit(
        network,
        params,
        optimizer_of(options, steps=options.epochs * (len(train.labels) // options.batch)),
        train,
        test,
        epochs=options.epochs,
        batch_size=options.batch,
        key=order_key,
        show_progress=True,
    )
    finished = 0
    try:
        for epoch in epochs:
            if options.save is not None:
                io.save(options.save, epoch.params)
            finished = epoch.number
            _print_row(epoch)
    except KeyboardInterrupt:
        print(_ending(finished, options.save), flush=True)
        return INTERRUPTED
    if options.save is not None:
        print(f"The parameters are in {options.save}; functad.io.load reads them.", flush=True)
    print(_NEXT, flush=True)
    return 0


def _print_header(
    options: argparse.Namespace, title: str, name: str, train: Dataset, test: Dataset, params: Any
) -> None:
    count = sum(leaf.size for leaf in tree_leaves(params))
    print(f"{title}, {count:,} parameters, seed {options.seed}")
    print(f"{name}: {len(train.labels):,} images to train on, {len(test.labels):,} to test with")
    print(f"{describe(options)}\n")
    print("epoch     time     loss   train acc.   test acc.", flush=True)


def _print_row(epoch: Epoch) -> None:
    accuracies = f"{epoch.train_accuracy:12.4f} {epoch.test_accuracy:11.4f}"
    print(f"{epoch.number:5d} {epoch.seconds:6.1f} s {epoch.loss:8.4f} {accuracies}", flush=True)


def _ending(finished: int, path: str | None) -> str:
    where = f"Stopped in epoch {finished + 1}."
    if not finished:
        return f"{where} No epoch was finished, so there is nothing to save."
    if path is None:
        return f"{where} Nothing was saved; --save FILE keeps the parameters of the last finished epoch."
    return f"{where} The parameters after epoch {finished} are in {path}."
