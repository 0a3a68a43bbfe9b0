"""Arrays written as an index: `r_[1:4, 0, x]` and `c_[x, y]` join ranges, scalars and arrays.

Knows other functions of this namespace; nothing of how arrays are joined.
"""

from __future__ import annotations

from typing import Any

from functad.array import Array
from functad.errors import ArgumentError
from functad.numpy.concatenation import concatenate
from functad.numpy.creation import arange, linspace
from functad.numpy.manipulation import reshape
from functad.numpy.promotion import asarray
from functad.records import NamedTuple

__all__ = ["c_", "r_"]


class _Layout(NamedTuple):
    """Along which axis parts are joined, how many axes they have at least, and at which one their own begin."""

    axis: int
    least: int
    start: int

    def place(self, part: Any) -> Any:
        """A part with axes of size 1 before its own ones and, where these begin earlier, behind them."""
        array = asarray(part)
        if array.ndim >= self.least:
            return array
        new = self.least - array.ndim
        before = new if not array.ndim else self.start + (new + 1) * (self.start < 0)
        if not 0 <= before <= new:
            raise ArgumentError(
                f"r_[…]: the axes of a part of shape {array.shape} cannot begin at {self.start} of {self.least}"
            )
        return reshape(array, (1,) * before + array.shape + (1,) * (new - before))


class _Joined:
    """What `r_` and `c_` are: an index of slices, scalars and arrays is an array of them all."""

    def __init__(self, name: str, layout: _Layout) -> None:
        self.name, self.layout = name, layout

    def __repr__(self) -> str:
        return f"functad.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Array:
        parts = list(key) if isinstance(key, tuple) else [key]
        layout, matrix = self.layout, ""
        if parts and isinstance(parts[0], str):
            matrix = parts[0] if parts[0] in ("r", "c") else ""
            layout = layout if matrix else _read(self.name, parts[0], layout)
            parts = parts[1:]
        if not parts:
            raise ArgumentError(f"{self.name}[…] joins slices, scalars and arrays, but was given none")
        if any(isinstance(part, str) for part in parts):
            raise ArgumentError(f"{self.name}[…]: a text says how the parts are joined, and must be the first of them")
        placed = [layout.place(_range(p) if isinstance(p, slice) else p) for p in parts]
        joined = concatenate(placed, layout.axis)
        if not matrix or joined.ndim != 1:
            return joined
        return reshape(joined, (1, -1) if matrix == "r" else (-1, 1))


def _read(name: str, text: str, layout: _Layout) -> _Layout:
    """The layout that a text of up to three integers says."""
    try:
        return _Layout(*(int(n) for n in text.split(",")), *layout[len(text.split(",")) :])
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{name}[…]: {text!r} must be 'r', 'c', or up to three integers: the axis along which parts are joined, "
            "the least number of their axes, and at which one the axes begin that they have already"
        ) from None


def _range(part: slice) -> Array:
    """The numbers of a slice; an imaginary step is how many there are, the end included."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, part.step)


r_ = _Joined("r_", _Layout(axis=0, least=1, start=-1))
c_ = _Joined("c_", _Layout(axis=-1, least=2, start=0))
