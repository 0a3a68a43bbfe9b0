"""`python -m functad train cnn` and `train rnn`: the networks for handwritten digits.

Knows their flags and data; nothing of how a run goes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from functad import nn
from functad.api import ShapeDtypeStruct
from functad.data import MNIST, MissingDataError, mnist, synthetic_digits
from functad.errors import ArgumentError
from functad.train.cnn import cnn
from functad.train.digit_findings import digit_findings
from functad.train.digits import digit_sets, on_pixels
from functad.train.options import (
    Wording,
    add_flags,
    add_network,
    choice_flag,
    complete,
    flags,
    positive_float,
    positive_int,
)
from functad.train.rnn import CELLS, NONLINEARITIES, RECURRENT_INITS, rnn
from functad.train.running import TrainingJob, check_files, run
from functad.train.tasks import classifier

_DRAWN_TRAIN, _DRAWN_TEST = 20_000, 4_000
_WORDING = Wording(
    "images",
    "mnist, synthetic, or a folder with four idx files of MNIST's names, such as Fashion-MNIST's; auto (the default) "
    "draws digits if MNIST is neither here nor to be downloaded",
    None,
)

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
  python -m functad train text
  python -m functad train cnn --help
docs/training.md shows how such a step is written; functad/train/loop.py is this one."""


def add_parsers(networks: Any) -> None:
    """Add `cnn` and `rnn` to the networks of a parser."""
    kind = "network for handwritten digits"
    convolutional = add_network(networks, "cnn", f"a small convolutional {kind}", _CNN_EXAMPLES)
    add_flags(convolutional, _WORDING, _CNN_DEFAULTS, _CNN_RATES)
    convolutional.set_defaults(run=train_cnn)
    recurrent = add_network(networks, "rnn", f"a recurrent {kind}", _RNN_EXAMPLES)
    _add_rnn_flags(recurrent)
    add_flags(recurrent, _WORDING, _PUBLISHED, _RNN_RATES)
    recurrent.set_defaults(run=train_rnn)


def train_cnn(options: argparse.Namespace) -> int:
    """Train the convolutional network as the command line says; returns the exit code of the program."""
    complete(options, _CNN_DEFAULTS, _CNN_RATES)
    return _train(options, cnn(), "cnn")


def train_rnn(options: argparse.Namespace) -> int:
    """Train the recurrent network as the command line says; returns the exit code of the program."""
    complete(options, _PRESETS[options.preset], _RNN_RATES)
    with flags(options, "cell", "nonlinearity", "steps"):
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


def _train(options: argparse.Namespace, network: nn.Layer, title: str) -> int:
    check_files(options)
    data, name = _digits(options.data, options.limit)
    train, test = digit_sets(data, options.limit)
    network = on_pixels(network)
    example = ShapeDtypeStruct((options.batch, *train.inputs.shape[1:]), "uint8")
    job = TrainingJob(
        title,
        f"{name}: {len(train.labels):,} images to train on, {len(test.labels):,} to test with",
        lambda key: network.init(key, example),
        lambda: nn.summary(network, example),
        classifier(network),
        train,
        test,
        "accuracy",
        _NEXT,
        lambda params: digit_findings(network, params, test),
    )
    return run(options, job)


def _add_rnn_flags(parser: argparse.ArgumentParser) -> None:
    for flag, help_text, settings in (
        ("--preset", "settings to begin with, see below (default: published)", choice_flag("published", *_PRESETS)),
        ("--cell", f"default: {_PUBLISHED['cell']}", {"choices": tuple(CELLS)}),
        ("--nonlinearity", "of the cell rnn (default: tanh)", choice_flag("tanh", *NONLINEARITIES)),
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
        ("--init", "of the weights from state to state (default: glorot)", choice_flag("glorot", *RECURRENT_INITS)),
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


def _digits(chosen: str, limit: int | None) -> tuple[MNIST, str]:
    if chosen not in ("auto", "mnist", "synthetic"):
        if not Path(chosen).is_dir():
            raise ArgumentError(
                f"--data {chosen}: it is no folder (seen from {Path.cwd()}), nor auto, mnist or synthetic"
            )
        return _of_digits(mnist(chosen, pixels=True), chosen), chosen
    if chosen != "synthetic":
        print("Looking for MNIST; where it is not there yet, it is downloaded ...", flush=True)
        try:
            return mnist(pixels=True), "MNIST"
        except MissingDataError as problem:
            if chosen == "mnist":
                raise
            print(f"{problem}\n\nSo this trains on drawn digits instead.\n", flush=True)
    print("Drawing digits ...", flush=True)
    count = _DRAWN_TRAIN if limit is None else min(limit, _DRAWN_TRAIN)
    return MNIST(*synthetic_digits(count, seed=0), *synthetic_digits(_DRAWN_TEST, seed=1)), "drawn digits"


def _of_digits(data: MNIST, folder: str) -> MNIST:
    """Images of other things, if they are like MNIST's."""
    for images, labels in (data[:2], data[2:]):
        classes = int(labels.max(initial=0)) + 1
        if images.shape[1:] != (28, 28) or classes > 10 or not len(images):
            raise ArgumentError(
                f"--data {folder}: there are {len(images):,} images of {' × '.join(map(str, images.shape[1:]))} pixels "
                f"in {classes} classes; the networks take those of 28 × 28 in 10"
            )
    return data
