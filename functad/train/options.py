"""What all training runs of the command line can be told: flags, and the optimizer that they ask for.

Knows no network.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad import optim
from functad.errors import ArgumentError, DeviceError, ShapeError
from functad.layouts import device_named
from functad.records import NamedTuple

_MOMENTUM = 0.9
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adam")


def add_network(networks: Any, name: str, what: str, epilog: str) -> argparse.ArgumentParser:
    """The parser of one network, `what` in words."""
    parser: argparse.ArgumentParser = networks.add_parser(
        name,
        help=what,
        description=f"Train {what}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)
    return parser


class Wording(NamedTuple):
    """What the help of a network calls its data: items such as "images", and the choices of --data with their help."""

    items: str
    data: str
    choices: tuple[str, ...] | None


def add_flags(
    parser: argparse.ArgumentParser, wording: Wording, defaults: Mapping[str, Any], rates: Mapping[str, float]
) -> None:
    """Add the flags of a training run.

    Args:
        parser: of one network.
        wording: of its data.
        defaults: for "epochs", "batch", "optimizer" and "schedule".
        rates: the learning rate that goes with each optimizer.
    """
    items = wording.items
    parser.set_defaults(items=items)
    shown_rates = ", ".join(f"{rate:g} for {name}" for name, rate in rates.items())
    number = {"type": positive_int, "metavar": "N"}
    for flag, help_text, settings in (
        ("--epochs", f"times to go over the {items} (default: {defaults['epochs']})", number),
        ("--batch", f"{items} in a step (default: {defaults['batch']})", number),
        ("--optimizer", f"default: {defaults['optimizer']}", {"choices": OPTIMIZERS}),
        ("--lr", f"learning rate at the start (default: {shown_rates})", {"type": positive_float, "metavar": "RATE"}),
        (
            "--schedule",
            f"of the learning rate, linear: to 0 (default: {defaults['schedule']})",
            {"choices": ("linear", "constant")},
        ),
        ("--data", wording.data, {"choices": wording.choices, "default": "auto"}),
        (
            "--device",
            "where to train: cpu, or cuda or cuda:1 for a GPU (default: cpu)",
            {"type": _device, "metavar": "DEVICE"},
        ),
        ("--limit", f"train on the first N {items} only", number),
        ("--seed", "of the parameters and the order (default: 0)", {"type": _seed, "metavar": "N", "default": 0}),
        ("--patience", "end after N epochs without a better one", number),
        ("--save", "write the parameters to this .npz or .safetensors file after every epoch", {"metavar": "FILE"}),
        ("--save-best", "write them to this file after every epoch that is the best so far", {"metavar": "FILE"}),
        (
            "--checkpoint",
            "write all that training goes on from to this file after every epoch",
            {"metavar": "FILE"},
        ),
        ("--checkpoint-every", "write it after N steps of an epoch, too, again and again", number),
        (
            "--checkpoint-keep",
            "keep the N newest: FILE.npz, and FILE.1.npz, FILE.2.npz, … before it (default: 1)",
            number,
        ),
        ("--report", "write an HTML page about the run to this file at its end", {"metavar": "FILE"}),
        (
            "--resume",
            "go on from such a file, with the flags of the first run to the same bits as without a stop; other "
            "--epochs give a linear schedule another slope",
            {"metavar": "FILE"},
        ),
    ):
        parser.add_argument(flag, help=help_text, **settings)


def complete(options: argparse.Namespace, defaults: Mapping[str, Any], rates: Mapping[str, float]) -> None:
    """Fill in what was not given: from the defaults, and the learning rate that goes with the optimizer."""
    if options.optimizer not in (None, defaults["optimizer"]) and options.lr is None:
        options.lr = rates[options.optimizer]
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.lr is None:
        options.lr = rates[options.optimizer]


def optimizer_of(options: argparse.Namespace, steps: int) -> optim.Optimizer:
    """The optimizer that complete options ask for, over so many steps."""
    rate = optim.linear_schedule(options.lr, 0.0, max(1, steps)) if options.schedule == "linear" else options.lr
    if options.optimizer == "adam":
        return optim.adam(rate)
    if options.optimizer == "sgd":
        return optim.sgd(rate)
    return optim.sgd(rate, _MOMENTUM, nesterov=options.optimizer == "nesterov")


def options_in_words(options: argparse.Namespace) -> str:
    """One line about how complete options train."""
    rate = f"{options.lr:g}" + (" falling to 0" if options.schedule == "linear" else "")
    return f"{options.optimizer}: batch {options.batch}, learning rate {rate}"


@contextmanager
def flags(options: argparse.Namespace, *names: str) -> Iterator[None]:
    """An error in the block names the flags that it comes from, with their values.

    >>> with flags(argparse.Namespace(word_size=3), "word_size"):
    ...     raise ArgumentError("3 is too few")
    Traceback (most recent call last):
    functad.errors.ArgumentError: --word-size 3: 3 is too few
    """
    try:
        yield
    except (ArgumentError, ShapeError) as error:
        given = " ".join(f"--{name.replace('_', '-')} {getattr(options, name)!s}" for name in names)
        raise ArgumentError(f"{given}: {error}") from error


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """All settings of complete options, by the names of their flags."""
    inner = ("run", "parser", "items")
    return {f"--{name.replace('_', '-')}": value for name, value in vars(options).items() if name not in inner}


def choice_flag(default: str, *choices: str) -> dict[str, Any]:
    """The settings of a flag that is one of these."""
    return {"choices": choices, "default": default}


def positive_int(text: str) -> int:
    """An argument that is a whole number of at least 1."""
    return _checked(text, int, lambda value: value >= 1, "a whole number of at least 1")


def positive_float(text: str) -> float:
    """An argument that is a number more than 0."""
    return _checked(text, float, lambda value: 0 < value < np.inf, "a number more than 0")


def probability(text: str) -> float:
    """An argument that is a number of at least 0 and less than 1."""
    return _checked(text, float, lambda value: 0 <= value < 1, "a number of at least 0 and less than 1")


def some_text(text: str) -> str:
    """An argument that is not empty."""
    return _checked(text, str, len, "a text of at least one character")


def whole_number(text: str) -> int:
    """An argument that is a whole number of at least 0."""
    return _checked(text, int, lambda value: value >= 0, "a whole number of at least 0")


def _seed(text: str) -> int:
    return _checked(text, int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")


def _device(text: str) -> str:
    try:
        device_named(text, where="")
    except DeviceError as problem:
        raise argparse.ArgumentTypeError(str(problem).removeprefix(": ")) from None
    return text


def _checked(text: str, kind: Any, fits: Any, what: str) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value
