"""Progress in a terminal or a notebook: one line that is rewritten; elsewhere a plain line now and then.

This file must not know what progresses: it is told counts and a text, and prints them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from functad.errors import ArgumentError
from functad.system.notebook import NotebookLine, notebook_line
from functad.system.once import imported

_REWRITE_INTERVAL = 0.1
_BAR_CELLS, _FEWEST_CELLS = 24, 6
_shown: list[Progress] = []  # those whose line stands in a terminal now, the last one last


def say(text: str) -> None:
    """Print a line on standard error, above a bar that stands there."""
    if sys.stderr is None:
        return
    bar = next((bar for bar in reversed(_shown) if bar.is_on(sys.stderr)), None)
    print(text if bar is None else bar.wiped() + text, file=sys.stderr, flush=True)
    if bar is not None:
        bar.show_again()


class Progress:
    """Shows how far a loop is: share done, rate, time left, and a text of the caller's.

    In a terminal or a notebook one line is rewritten at most ten times a second; a pipe or a file gets a plain line at
    most every `plain_interval` seconds. Used as a context manager, it leaves the cursor on a fresh line also when
    the block raises (Ctrl-C included). The exception goes on.

    Args:
        total: how many steps there are, at least 0.
        label: what stands before the figures.
        unit: `""` for steps, `"B"` for bytes (which are shown as kB, MB, ...).
        leave: whether the last state stays visible after the end; if not, the line that is rewritten is wiped.
        stream: where to print; by default the notebook that runs this, or standard error.
        plain_interval: seconds between two plain lines.
        clock: gives the time in seconds.

    Attributes:
        rewrites: whether one line is rewritten, as in a terminal or a notebook.

    Raises:
        ArgumentError: `total` is negative.

    >>> ticks = iter([0.0, 2.0])
    >>> with Progress(4, "epoch 1", stream=sys.stdout, clock=lambda: next(ticks)) as progress:
    ...     progress.update(4, "loss 0.25")
    epoch 1: 100 % 4/4, 2/s, took 0:02, loss 0.25
    """

    def __init__(
        self,
        total: int,
        label: str = "",
        *,
        unit: str = "",
        leave: bool = True,
        stream: TextIO | NotebookLine | None = None,
        plain_interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if total < 0:
            raise ArgumentError(f"Progress: total is {total}; it is the number of steps, so at least 0.")
        self.total = total
        self.count = 0
        self.text: str | Callable[[], str] = ""
        self._label = label
        self._unit = unit
        self._leave = leave
        where = (notebook_line() or sys.stderr) if stream is None else stream
        self._notebook = where if isinstance(where, NotebookLine) else None
        self._stream = sys.stderr if isinstance(where, NotebookLine) else where
        is_terminal = self._stream is not None and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self.rewrites = self._notebook is not None or is_terminal
        self._interval = _REWRITE_INTERVAL if self.rewrites else plain_interval
        self._clock = clock
        self._start = self._shown_at = self._now = clock()
        self._counted_from = (0, self._start)  # the rate is that of what came after
        self._shown_count = -1
        self._width = 0
        self._on_screen = ""

    def __enter__(self) -> Progress:
        if self.rewrites:
            _shown.append(self)
        return self

    def is_on(self, stream: TextIO) -> bool:
        """Whether the bar's line stands on a stream now."""
        return self._stream is stream and bool(self._on_screen)

    def wiped(self) -> str:
        """What wipes the bar's line."""
        return "\r" + " " * self._width + "\r"

    def show_again(self) -> None:
        """Show what was wiped."""
        self._write(self._on_screen)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(finished=kind is None)

    def update(self, count: int = 1, text: str | Callable[[], str] | None = None, *, setup: bool = False) -> None:
        """Note that `count` more steps are done, and show it if the last showing is old enough.

        Args:
            count: the number of steps done since the last call.
            text: what to show behind the figures, such as the loss, or what makes it where it is shown; None keeps
                the last text.
            setup: leave what is done so far, and its time, out of the rate; so begins a loop that is compiled.
        """
        self.count += count
        if text is not None:
            self.text = text
        self._now = self._clock()
        if setup:
            self._counted_from = self.count, self._now
        complete = self.count >= self.total and self._leave
        if complete or self._now - self._shown_at >= self._interval:
            self._show(ended=self.count >= self.total)

    def announce(self, text: str) -> None:
        """Show at once what is done before the first step, such as compiling."""
        line = f"{self._label}: {text}" if self._label else text
        self._put(line) if self.rewrites else self._write(line + "\n")

    def _close(self, *, finished: bool) -> None:
        if self in _shown:
            _shown.remove(self)
        if self.rewrites and finished and not self._leave:
            self._write(self.wiped()) if self._notebook is None else self._notebook.show("")
            return
        if self._shown_count != self.count and (self._leave or not finished):
            self._show(ended=True)
        if self.rewrites and self._width:
            self._write("\n")

    def _show(self, *, ended: bool) -> None:
        self._shown_at = self._now
        self._shown_count = self.count
        line = self._line(ended)
        if not self.rewrites:
            self._write(line + "\n")
            return
        self._put(line)

    def _put(self, line: str) -> None:
        """Rewrite the line."""
        if self._notebook is not None:
            self._notebook.show(line, self._share())
            return
        line = line[: self._columns()]
        padding = " " * max(self._width - len(line), 0)
        self._width, self._on_screen = len(line), line
        self._write("\r" + line + padding)

    def _columns(self) -> int:
        columns: int = imported("shutil").get_terminal_size().columns
        return columns - 1

    def _line(self, ended: bool) -> str:
        elapsed = self._now - self._start
        share = self._share()
        first, since = self._counted_from
        rate = (self.count - first) / (self._now - since) if self._now > since else 0.0
        if ended:
            timing = f"took {_clock_text(elapsed)}"
        else:
            timing = f"{_clock_text((self.total - self.count) / rate)} left" if rate else "? left"
        text = self.text() if callable(self.text) else self.text
        label = f"{self._label}: " if self._label else ""
        front, amounts = f"{label}{share * 100:3.0f} %", f" {self._amounts()}"
        speed, text = f", {_amount(rate, self._unit)}/s" if rate else "", f", {text}" if text else ""
        if not self.rewrites or self._notebook is not None:
            return f"{front}{amounts}{speed}, {timing}{text}"
        # What a narrow terminal has no room for is left out, the least important first.
        for parts in ((amounts, speed, f", {timing}", text), (amounts, f", {timing}", text), (f" {timing}", text)):
            behind = "".join(parts)
            room = self._columns() - len(front) - len(behind)
            if room >= 0:
                return front + _bar(share, min(room - 3, _BAR_CELLS)) + behind
        return f"{front} {timing}{text}" if len(f"{front} {timing}") <= self._columns() else front

    def _share(self) -> float:
        return min(self.count / self.total, 1.0) if self.total else 1.0

    def _amounts(self) -> str:
        return f"{_amount(self.count, self._unit)}/{_amount(self.total, self._unit)}"

    def _write(self, text: str) -> None:
        if self._stream is not None:  # as in a program without a console
            self._stream.write(text)
            self._stream.flush()


def _bar(share: float, cells: int) -> str:
    """A bar of some cells; nothing where there is room for a few only."""
    if cells < _FEWEST_CELLS:
        return ""
    full = round(share * cells)
    return f" [{'#' * full}{'.' * (cells - full)}]"


def _amount(value: float, unit: str) -> str:
    if unit == "B":
        for prefix in ("", "k", "M", "G"):
            if value < 1000 or prefix == "G":
                return f"{value:.3g} {prefix}B"
            value /= 1000
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
