"""`python -m functad train …`: its arguments, the table it prints, and how it ends.

Knows which networks can be trained from the command line; trains none itself.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from functad import io, optim, random
from functad.api import ShapeDtypeStruct
from functad.data import MNIST, MissingMNISTError, mnist, synthetic_digits
from functad.train.cnn import cnn, digit_sets, on_pixels
from functad.train.loop import Dataset, Epoch, fit
from functad.tree_util import tree_leaves

_MOMENTUM = 0.9
_LEARNING_RATES = {"sgd": 0.05, "momentum": 0.02, "nesterov": 0.02}
_DRAWN_TRAIN, _DRAWN_TEST = 20_000, 4_000

_EPILOG = """examples:
  python -m functad train cnn
  python -m functad train cnn --optimizer sgd --schedule constant --batch 20 --lr 0.05
  python -m functad train cnn --data synthetic --limit 2000 --epochs 1 --save digits.npz
"""

INTERRUPTED = 130  # the shell's exit code for a program that was stopped by Ctrl-C


def add_parser(commands: Any) -> None:
    """Add `train` to the sub-commands of a parser."""
    parser = commands.add_parser("train", help="train a network and show how it does")
    networks = parser.add_subparsers(metavar="NETWORK", required=True)
    network = networks.add_parser(
        "cnn",
        help="a small convolutional network for handwritten digits",
        description="Train a small convolutional network on handwritten digits.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rates = ", ".join(f"{rate} for {name}" for name, rate in _LEARNING_RATES.items())
    number = {"type": _positive_int, "metavar": "N"}
    for flag, help_text, settings in (
        ("--epochs", "times to go over the images (default: 3)", {**number, "default": 3}),
        ("--batch", "images in a step (default: 32)", {**number, "default": 32}),
        ("--optimizer", "default: nesterov", {"choices": list(_LEARNING_RATES), "default": "nesterov"}),
        (
            "--lr",
            f"learning rate at the start (default: {rates})",
            {"type": _positive_float, "metavar": "RATE"},
        ),
        ("--schedule", "of the learning rate (default: linear, to 0)", _choice("linear", "constant")),
        (
            "--data",
            "auto (the default) draws digits if MNIST is neither here nor to be downloaded",
            _choice("auto", "mnist", "synthetic"),
        ),
        ("--limit", "train on the first N images only", number),
        (
            "--seed",
            "of the parameters and the order (default: 0)",
            {"type": _seed, "metavar": "N", "default": 0},
        ),
        ("--save", "write the parameters to this .npz file after every epoch", {"metavar": "FILE"}),
    ):
        network.add_argument(flag, help=help_text, **settings)
    network.set_defaults(run=train_cnn)


def train_cnn(options: argparse.Namespace) -> int:
    """Train as the command line says; returns the exit code of the program."""
    if options.save is not None:
        io.check_writable(options.save)
    data, name = _digits(options.data, options.limit)
    train, test = digit_sets(data, options.limit)
    network = on_pixels(cnn())
    init_key, order_key = random.split(random.key(options.seed))
    params = network.init(init_key, ShapeDtypeStruct((options.batch, *train.inputs.shape[1:]), "uint8"))
    _print_header(options, name, train, test, params)
    epochs = fit(
        network,
        params,
        _optimizer(options, steps=options.epochs * (len(train.labels) // options.batch)),
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
    return 0


# --- settings -----------------------------------------------------------------------------------------


def _digits(choice: str, limit: int | None) -> tuple[MNIST, str]:
    if choice != "synthetic":
        try:
            return mnist(pixels=True), "MNIST"
        except MissingMNISTError as problem:
            if choice == "mnist":
                raise
            print(f"{problem}\n\nSo this trains on drawn digits instead.\n", flush=True)
    count = _DRAWN_TRAIN if limit is None else min(limit, _DRAWN_TRAIN)
    return MNIST(*synthetic_digits(count, seed=0), *synthetic_digits(_DRAWN_TEST, seed=1)), "drawn digits"


def _optimizer(options: argparse.Namespace, steps: int) -> optim.Optimizer:
    rate = _rate(options)
    schedule = optim.linear_schedule(rate, 0.0, max(1, steps)) if options.schedule == "linear" else rate
    if options.optimizer == "sgd":
        return optim.sgd(schedule)
    return optim.sgd(schedule, _MOMENTUM, nesterov=options.optimizer == "nesterov")


def _rate(options: argparse.Namespace) -> float:
    return _LEARNING_RATES[options.optimizer] if options.lr is None else options.lr


def _choice(default: str, *others: str) -> dict[str, Any]:
    return {"choices": [default, *others], "default": default}


def _positive_int(text: str) -> int:
    return _checked(text, int, lambda value: value >= 1, "a whole number of at least 1")


def _positive_float(text: str) -> float:
    return _checked(text, float, lambda value: 0 < value < np.inf, "a number more than 0")


def _seed(text: str) -> int:
    return _checked(text, int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")


def _checked(text: str, kind: Any, fits: Any, what: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


# --- what is printed ----------------------------------------------------------------------------------


def _print_header(options: argparse.Namespace, name: str, train: Dataset, test: Dataset, params: Any) -> None:
    count = sum(leaf.size for leaf in tree_leaves(params))
    rate = f"{_rate(options):g}" + (" falling to 0" if options.schedule == "linear" else "")
    print(f"cnn, {count:,} parameters, seed {options.seed}")
    print(f"{name}: {len(train.labels):,} images to train on, {len(test.labels):,} to test with")
    print(f"{options.optimizer}: batch {options.batch}, learning rate {rate}\n")
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
