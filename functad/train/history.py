"""What a training run gave: one row an epoch, as a table and as arrays.

Knows epochs; nothing of how they were made.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from functad.errors import ArgumentError
from functad.train.runs import Epoch, Run
from functad.views.charts import Chart, Panel


class History:
    """The epochs of a run, which prints as a table.

    Attributes:
        epochs: in their order.
        monitor: the metric that `best` looks at, of the data to validate with if there are any.

    >>> from functad.train.runs import Run
    >>> run = Run((), (), None, None, 1)
    >>> first = Epoch(1, 0.5, {"loss": 0.7}, {"loss": 0.9}, run)
    >>> history = History([first, Epoch(2, 0.5, {"loss": 0.5}, {"loss": 1.0}, run)])
    >>> history
    epoch     time     loss  test loss
        1   0.50 s   0.7000     0.9000
        2   0.50 s   0.5000     1.0000
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
        if (best := self.best).run is None:
            raise ArgumentError(
                f"History: the parameters after epoch {best.number}, the best by {self.monitor!r}, were not kept: the "
                "run was resumed after it, and another metric was watched before; resume with the same monitor"
            )
        return best.run.params

    def add(self, epoch: Epoch) -> None:
        """Put in an epoch; of those before, only the params and the state of the best one stay in memory.

        Those of a resumed run have NaN where they lack its metrics, and lose those it lacks.

        Raises:
            ArgumentError: it does not have the metric to watch.
        """
        score(epoch, self.monitor)
        if self.epochs and (self.last.train.keys(), self.last.test.keys()) != (epoch.train.keys(), epoch.test.keys()):
            self.epochs = [
                old._replace(train=_like(epoch.train, old.train), test=_like(epoch.test, old.test))
                for old in self.epochs
            ]
        self.epochs.append(epoch)
        best = self.best
        for i, old in enumerate(self.epochs[:-1]):
            if old.run is not None:
                kept = Run(old.run.params, None, old.run.state, None, old.number) if old is best else None
                self.epochs[i] = old._replace(run=kept)

    def waited(self) -> int:
        """How many epochs there have been since the best one."""
        if not self.epochs or self.monitor not in (self.last.test or self.last.train):
            return 0
        return self.last.number - self.best.number

    def kept_in(self, run: Run) -> Run:
        """A run of which `resumed` makes this history: with the figures of all epochs, and the best parameters."""
        if not self.epochs:
            return run
        past = {
            "seconds": np.array([epoch.seconds for epoch in self.epochs]),
            "train": {name: np.array([epoch.train[name] for epoch in self.epochs]) for name in self.last.train},
            "test": {name: np.array([epoch.test[name] for epoch in self.epochs]) for name in self.last.test},
        }
        number, kept = self.best.number, self.best.run
        is_here = kept is None or (number == run.epoch and run.step == 0)
        best = None if is_here else {"number": np.int32(number), "params": kept.params, "state": kept.state}
        return run._replace(past=past, best=best)

    @classmethod
    def resumed(cls, run: Run, monitor: str) -> History:
        """The history that `kept_in` kept in a run.

        >>> from functad.train.runs import Run
        >>> run = Run(0, (), None, None, 1)
        >>> history = History([Epoch(1, 0.5, {"loss": 0.7}, {}, run), Epoch(2, 0.5, {"loss": 0.9}, {}, run)])
        >>> again = History.resumed(history.kept_in(Run(1, (), None, None, 2)), "loss")
        >>> again["loss"], again.params
        (array([0.7, 0.9]), 0)
        """
        if run.past is None:
            return cls(monitor=monitor)
        seconds, train, test = (run.past[name] for name in ("seconds", "train", "test"))
        runs: dict[int, Run] = {} if run.step else {int(run.epoch): run}
        if run.best is not None:
            number = int(run.best["number"])
            runs[number] = Run(run.best["params"], None, run.best["state"], None, number)
        epochs = [
            Epoch(i, float(seconds[i - 1]), _row(train, i - 1), _row(test, i - 1), runs.get(i))
            for i in range(1, len(seconds) + 1)
        ]
        return cls(epochs, monitor)

    def __getitem__(self, name: str) -> np.ndarray:
        """A column: "time", a metric of the epochs such as "loss", or one of the data to validate with, "test loss"."""
        columns = dict(zip(headings(self.last), zip(*map(figures_of, self.epochs))))
        if name not in columns:
            raise ArgumentError(f"History has no column {name!r}; it has {', '.join(map(repr, columns))}")
        return np.array(columns[name])

    def __len__(self) -> int:
        return len(self.epochs)

    def __repr__(self) -> str:
        return "\n".join([heading(self.last), *map(row, self.epochs)]) if self.epochs else "<History without epochs>"

    def plot(self, *metrics: str) -> Chart:
        """Curves of metrics over the epochs, those of training beside those of the data to validate with.

        Args:
            metrics: which, such as "loss"; all of them if none is named. Each has a panel of its own.

        Returns:
            A `Chart`, which a notebook shows; `chart.save("loss.svg")` writes it to a file.

        Raises:
            ArgumentError: there is no epoch yet, or no such metric.

        >>> from functad.train.runs import Run
        >>> History([Epoch(i, 0.5, {"loss": 1 / i}, {}, Run((), (), None, None, i)) for i in (1, 2, 4)]).plot("loss")
        <Chart of loss by epoch: train 1 to 0.25>
        """
        known = self.last.train
        for name in metrics:
            if name not in known:
                raise ArgumentError(f"History has no metric {name!r} to plot; it has {', '.join(map(repr, known))}")
        places, best = [epoch.number for epoch in self.epochs], self.best.number
        return Chart([Panel(name, "epoch", places, self._series(name), (best, "best")) for name in metrics or known])

    def _series(self, name: str) -> dict[str, list[float]]:
        series = {"train": [epoch.train[name] for epoch in self.epochs]}
        return {**series, "test": [epoch.test[name] for epoch in self.epochs]} if name in self.last.test else series

    def _repr_html_(self) -> str:
        if not self.epochs:
            return escape(repr(self))
        head, body = cells(self)
        top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in body]
        return f"<table><tr>{top}</tr>{''.join(f'<tr>{line}</tr>' for line in rows)}</table>"


def _row(columns: dict[str, Any], i: int) -> dict[str, float]:
    names = sorted(columns, key=lambda name: name != "loss")  # files sort names
    return {name: float(columns[name][i]) for name in names}


def _like(names: Iterable[str], figures: dict[str, float]) -> dict[str, float]:
    return {name: figures.get(name, np.nan) for name in names}


def score(epoch: Epoch, monitor: str) -> float:
    """How good an epoch was, more is better: less of the loss, or more of another metric."""
    metrics = epoch.test or epoch.train
    if monitor not in metrics:
        raise ArgumentError(f"there is no metric {monitor!r} to watch; the loss gives {', '.join(map(repr, metrics))}")
    return -metrics[monitor] if monitor == "loss" else metrics[monitor]


def headings(epoch: Epoch) -> list[str]:
    """The names of the columns of a table of epochs like this one."""
    return ["epoch", "time", *epoch.train, *(f"test {name}" for name in epoch.test)]


def figures_of(epoch: Epoch) -> list[float]:
    """The figures in them."""
    return [epoch.number, epoch.seconds, *epoch.train.values(), *epoch.test.values()]


def cells(history: History) -> tuple[list[str], list[list[str]]]:
    """The table as texts: the headings, and a row an epoch."""
    return headings(history.last), [[_figure(name, v) for name, v in _named(epoch)] for epoch in history.epochs]


def heading(epoch: Epoch, width: int | None = None) -> str:
    """The first line of a table of epochs like this one.

    Args:
        epoch: any of them.
        width: of the terminal; columns that it has no room for are left out, those that tell least first.

    >>> from functad.train.runs import Run
    >>> metrics, run = {"loss": 0.7, "accuracy": 0.8}, Run((), (), None, None, 1)
    >>> epoch = Epoch(1, 0.5, metrics, metrics, run)
    >>> heading(epoch)
    'epoch     time     loss  accuracy  test loss  test accuracy'
    >>> heading(epoch, 40)
    'epoch     loss  test accuracy'
    """
    return " ".join(name.rjust(_width(name)) for name in _fitting(epoch, width))


def row(epoch: Epoch, width: int | None = None) -> str:
    """A line of the table, with the columns of `heading`."""
    figures = dict(_named(epoch))
    return " ".join(_figure(name, figures[name]).rjust(_width(name)) for name in _fitting(epoch, width))


def _fitting(epoch: Epoch, width: int | None) -> list[str]:
    names = headings(epoch)
    if width is None:
        return names
    tested = [f"test {name}" for name in epoch.test]
    # What is tested tells more than training; but the loss of training tells whether it learns at all.
    least_first = ["time", *(name for name in epoch.train if name != "loss" and tested), *tested[:-1], "loss"]
    for name in least_first:
        if sum(_width(n) + 1 for n in names) - 1 >= width and len(names) > 2:
            names.remove(name)
    return names


def _named(epoch: Epoch) -> list[tuple[str, float]]:
    return list(zip(headings(epoch), figures_of(epoch), strict=True))


def _width(name: str) -> int:
    return 5 if name == "epoch" else max(8, len(name) + 1)


def _figure(name: str, value: float) -> str:
    if name == "epoch":
        return str(int(value))
    if name == "time":
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    return f"{value:.4f}"
