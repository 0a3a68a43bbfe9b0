"""Where windows lie in memory: the axes of an array as planes, axes along which windows slide, and inner elements.

Knows sizes only: no kernels, no operations on windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from functad.records import NamedTuple


class WindowAxis(NamedTuple):
    """An axis of the array and the windows along it: window i has its k-th element at `i stride + k dilation - low`.

    That position counts in the array with `base - 1` holes after each of its `size` elements.
    """

    size: int
    window: int
    stride: int
    low: int
    base: int
    dilation: int
    windows: int

    @property
    def is_plain(self) -> bool:
        """Whether every element is a window of its own."""
        return self.window == self.stride == self.base == 1 and self.low == 0 and self.windows == self.size

    @property
    def is_whole(self) -> bool:
        """Whether the only window is the axis itself."""
        return self.window == self.size and self.windows == self.base == self.dilation == 1 and self.low == 0

    @property
    def is_tiled(self) -> bool:
        """Whether every element lies in exactly one window."""
        fits = self.window == self.stride and self.size == self.window * self.windows and self.low == 0
        return fits and self.base == self.dilation == 1

    @property
    def overlaps(self) -> bool:
        return self.windows > 1 and self.stride < (self.window - 1) * self.dilation + 1

    @property
    def interior(self) -> tuple[int, int]:
        """From which window to which (exclusive) they lie wholly in the array."""
        if self.base > 1:
            return 0, 0
        first = max(0, -(-self.low // self.stride))
        room = self.size - 1 + self.low - (self.window - 1) * self.dilation
        last = min(self.windows, room // self.stride + 1)
        return (first, last) if first < last else (0, 0)

    @property
    def is_interior(self) -> bool:
        return self.interior == (0, self.windows)


class WindowLayout(NamedTuple):
    """An array of shape (planes, *sizes of the axes, inner), whose windows slide along the axes only."""

    planes: int
    axes: tuple[WindowAxis, ...]
    inner: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.planes, *(a.size for a in self.axes), self.inner)

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.planes, *(a.windows for a in self.axes), self.inner)

    @property
    def window_size(self) -> int:
        return math.prod(a.window for a in self.axes)

    @property
    def steps(self) -> list[int]:
        """How far apart in memory neighbours along each axis lie in the array."""
        return _steps(self.shape)[1:-1]

    @property
    def plane_size(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def count_steps(self) -> list[int]:
        """How far apart in memory neighbours along each axis lie among the windows."""
        return _steps(self.counts)[1:-1]

    @property
    def plane_count(self) -> int:
        return math.prod(self.counts[1:])

    def offsets(self) -> list[int]:
        """How far from a window's first element its elements lie, in row-major order; for base dilation 1."""
        offsets = [0]
        for axis, step in zip(self.axes, self.steps, strict=True):
            offsets = [offset + k * axis.dilation * step for offset in offsets for k in range(axis.window)]
        return offsets


def window_layout(
    shape: Sequence[int],
    counts: Sequence[int],
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> WindowLayout:
    """The layout with as few axes as possible, at least one, of an array of this shape with so many windows."""
    lows = [low for low, _ in padding]
    each = zip(shape, window_dimensions, window_strides, lows, base_dilation, window_dilation, counts, strict=True)
    axes = [_axis(*sizes) for sizes in each]
    merged: list[WindowAxis] = []
    for axis in axes:
        if merged and axis.is_plain and merged[-1].is_plain:
            merged[-1] = _plain(merged[-1].size * axis.size)
        elif merged and axis.is_whole and not merged[-1].is_plain and merged[-1].dilation == merged[-1].base == 1:
            merged[-1] = _times(merged[-1], axis.size)
        elif not (axis.is_plain and axis.size == 1):
            merged.append(axis)
    planes = merged.pop(0).size if merged and merged[0].is_plain and len(merged) > 1 else 1
    inner = merged.pop().size if len(merged) > 1 and merged[-1].is_plain else 1
    return WindowLayout(planes, tuple(merged) or (_plain(1),), inner)


def transposed_windows(layout: WindowLayout) -> WindowLayout:
    """The windows that gather, for every element of the array, the windows that hold it; tap k becomes w - 1 - k.

    Strides and base dilation swap, and so do sizes and counts.
    """
    axes = []
    for axis in layout.axes:
        low = (axis.window - 1) * axis.dilation - axis.low
        base = 1 if axis.windows == 1 else axis.stride
        axes.append(WindowAxis(axis.windows, axis.window, axis.base, low, base, axis.dilation, axis.size))
    return WindowLayout(layout.planes, tuple(axes), layout.inner)


def _axis(size: int, window: int, stride: int, low: int, base: int, dilation: int, windows: int) -> WindowAxis:
    return WindowAxis(
        size,
        window,
        window if windows == 1 else stride,
        low,
        1 if size == 1 else base,
        1 if window == 1 else dilation,
        windows,
    )


def _plain(size: int) -> WindowAxis:
    return WindowAxis(size, 1, 1, 0, 1, 1, size)


def _times(axis: WindowAxis, size: int) -> WindowAxis:
    """An axis together with the one after it, of which every window takes all."""
    return WindowAxis(axis.size * size, axis.window * size, axis.stride * size, axis.low * size, 1, 1, axis.windows)


def _steps(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
