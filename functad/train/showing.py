"""What is shown while training: a bar for the epoch that runs, and a row of the table for each that is over.

Knows nothing of how epochs come about.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from functad.system.notebook import NotebookLine, notebook_line
from functad.system.progress import Progress
from functad.train.history import heading, row
from functad.train.runs import Epoch
from functad.train.steps import StepMetrics

# Over how many steps the loss beside the progress bar is a mean.
_SHOWN_LOSSES = 100
# Seconds between two lines about a long epoch where no line can be rewritten.
_PLAIN_INTERVAL = 60.0


class Display:
    """Bars on standard error, or above the rows in a notebook; rows on standard output; nothing at all unless `shows`.

    >>> display = Display(1, True)
    >>> with display.bar(1, 20) as shown:
    ...     shown(1, StepMetrics({"loss": [0.5]}))
    >>> display.row(Epoch(1, 0.25, {"loss": 0.5}, {}, None))
    epoch     time     loss
        1   0.25 s   0.5000
    """

    def __init__(self, until: int, shows: bool) -> None:
        self._until, self._shows, self._is_first = until, shows, True
        self._line = notebook_line() if shows else None  # one for all epochs, so that it stays where it is

    @contextmanager
    def bar(self, number: int, steps: int) -> Iterator[Callable[[int, StepMetrics], Any]]:
        """A bar for an epoch. What it gives is called after each step, with how many there were and their metrics."""
        if not self._shows:
            yield lambda done, found: None
            return
        with _bar(steps, f"epoch {number}/{self._until}", self._line) as bar:
            if bar.rewrites and self._is_first:
                bar.announce("compiling ...")

            def shown(done: int, found: StepMetrics) -> None:
                bar.update(done - bar.count, partial(_recent_loss, found), setup=bar.count == 0)

            yield shown

    def row(self, epoch: Epoch) -> None:
        """A line of the table, below the headings where it is the first."""
        if not self._shows:
            return
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(*([heading(epoch, width)] if self._is_first else []), row(epoch, width), sep="\n", flush=True)
        self._is_first = False


def _bar(steps: int, label: str, line: NotebookLine | None) -> Progress:
    return Progress(steps, label, leave=False, stream=line, plain_interval=_PLAIN_INTERVAL)


def _recent_loss(found: StepMetrics) -> str:
    return f"loss {found.means(last=_SHOWN_LOSSES)['loss']:.4f}"
