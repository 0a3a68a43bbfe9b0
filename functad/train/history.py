"""What a training run gave: one row an epoch, as a table and as arrays.

Knows epochs; nothing of how they were made.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from functad.errors import ArgumentError
from functad.train.loop import Epoch


class History:
    """The epochs of a run, which prints as a table.

    Attributes:
        epochs: in their order.
        monitor: the metric that `best` looks at, of the data to validate with if there are any.

    >>> from functad.train.loop import Run
    >>> run = Run((), (), None, None, 1)
    >>> first = Epoch(1, 0.5, {"loss": 0.7}, {"loss": 0.9}, run)
    >>> history = History([first, Epoch(2, 0.5, {"loss": 0.5}, {"loss": 1.0}, run)])
    >>> history
    epoch     time     loss  test loss
        1    0.5 s   0.7000     0.9000
        2    0.5 s   0.5000     1.0000
    >>> history.best.number, history["test loss"]
    (1, array([0.9, 1. ]))
    """

    def __init__(self, epochs: Iterable[Epoch] = (), monitor: str = "loss") -> None:
        self.epochs = list(epochs)
        self.monitor = monitor

    @property
    def last(self) -> Epoch:
        """The last epoch."""
        if not self.epochs:
            raise ArgumentError("History: there is no epoch yet")
        return self.epochs[-1]

    @property
    def best(self) -> Epoch:
        """The first epoch of the least loss, or of the greatest of another metric; NaN is worse than any."""
        values = np.array([score(epoch, self.monitor) for epoch in self.epochs])
        return self.epochs[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))] if len(values) else self.last

    @property
    def params(self) -> Any:
        """The parameters after the best epoch."""
        return self.best.run.params

    def __getitem__(self, name: str) -> np.ndarray:
        """A column: "time", a metric of the epochs such as "loss", or one of the data to validate with, "test loss"."""
        columns = dict(zip(headings(self.last), zip(*map(values_of, self.epochs))))
        if name not in columns:
            raise ArgumentError(f"History has no column {name!r}; it has {', '.join(map(repr, columns))}")
        return np.array(columns[name])

    def __len__(self) -> int:
        return len(self.epochs)

    def __repr__(self) -> str:
        return "\n".join([heading(self.last), *map(row, self.epochs)]) if self.epochs else "<History without epochs>"

    def _repr_html_(self) -> str:
        if not self.epochs:
            return escape(repr(self))
        cells = [headings(self.last), *([_figure(name, v) for name, v in _named(epoch)] for epoch in self.epochs)]
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in cells]
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in rows)}</table>"


def score(epoch: Epoch, monitor: str) -> float:
    """How good an epoch was, more is better: less of the loss, or more of another metric."""
    metrics = epoch.test or epoch.train
    if monitor not in metrics:
        raise ArgumentError(f"there is no metric {monitor!r} to watch; the loss gives {', '.join(map(repr, metrics))}")
    return -metrics[monitor] if monitor == "loss" else metrics[monitor]


def headings(epoch: Epoch) -> list[str]:
    """The names of the columns of a table of epochs like this one."""
    return ["epoch", "time", *epoch.train, *(f"test {name}" for name in epoch.test)]


def values_of(epoch: Epoch) -> list[float]:
    """The figures in them."""
    return [epoch.number, epoch.seconds, *epoch.train.values(), *epoch.test.values()]


def heading(epoch: Epoch) -> str:
    """The first line of a table of epochs like this one."""
    return " ".join(name.rjust(_width(name)) for name in headings(epoch))


def row(epoch: Epoch) -> str:
    """A line of the table."""
    return " ".join(_figure(name, value).rjust(_width(name)) for name, value in _named(epoch))


def _named(epoch: Epoch) -> list[tuple[str, float]]:
    return list(zip(headings(epoch), values_of(epoch), strict=True))


def _width(name: str) -> int:
    return 5 if name == "epoch" else max(8, len(name) + 1)


def _figure(name: str, value: float) -> str:
    if name == "epoch":
        return str(int(value))
    return f"{value:.1f} s" if name == "time" else f"{value:.4f}"
