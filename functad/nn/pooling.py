"""The pooling layers: the maximum or the mean of each window of each channel.

Knows layouts; the windows slide in `lax.reduce_window`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functad import dtypes, lax
from functad import numpy as jnp
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.nn.layer import Layer, without_params
from functad.nn.layout import (
    PaddingArgument,
    check_input,
    check_window,
    checked_padding,
    per_axis,
    spread,
    window_and_layout,
)
from functad.numpy.promotion import widened
from functad.records import NamedTuple


def MaxPool(
    window: int | Sequence[int] | None,
    strides: int | Sequence[int] | None = None,
    padding: PaddingArgument = "VALID",
    layout: str | None = None,
    axes: Sequence[int] | None = None,
) -> Layer:
    """The largest element of each window, for each channel.

    Args:
        window: its size along each spatial axis; its length tells the rank. An integer needs a `layout` or `axes`.
            None: all of each axis.
        strides: how far it moves; by default its own size, so that windows do not overlap.
        padding: as in `Conv`; what is padded never wins.
        layout: as in `Conv`.
        axes: the axes that the window slides over, of an input of any rank, in place of a layout.

    Raises:
        ArgumentError: arguments that do not fit together.
        ShapeError: an input of the wrong rank, or smaller than the window.

    >>> import functad.numpy as jnp
    >>> MaxPool((2, 2)).apply((), jnp.arange(16.).reshape(1, 1, 4, 4))
    Array([[[[ 5.,  7.],
             [13., 15.]]]], dtype=float32)
    >>> MaxPool((2,), axes=(0,)).apply((), jnp.array([3., 1., 4., 1.]))
    Array([3., 4.], dtype=float32)
    """
    name = f"MaxPool({window})"
    slide = _Slide(window, strides, padding, layout, axes, name)

    def pool(x: Any) -> Any:
        x = jnp.asarray(x)
        return slide(x, _lowest(x.dtype), lax.max)

    return without_params(pool, name)


def AvgPool(
    window: int | Sequence[int] | None,
    strides: int | Sequence[int] | None = None,
    padding: PaddingArgument = "VALID",
    layout: str | None = None,
    axes: Sequence[int] | None = None,
) -> Layer:
    """The mean of each window, for each channel; padded elements are not counted, and a mean of them alone is 0.

    Args:
        window: its size along each spatial axis; its length tells the rank. An integer needs a `layout` or `axes`.
            None: all of each axis.
        strides: how far it moves; by default its own size, so that windows do not overlap.
        padding: as in `Conv`.
        layout: as in `Conv`.
        axes: the axes that the window slides over, of an input of any rank, in place of a layout.

    Raises:
        ArgumentError: arguments that do not fit together.
        ShapeError: an input of the wrong rank, or smaller than the window.
        DTypeError: the input holds no floats.

    >>> import functad.numpy as jnp
    >>> AvgPool((2, 2)).apply((), jnp.arange(16.).reshape(1, 1, 4, 4))
    Array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]], dtype=float32)
    >>> AvgPool(None, axes=(2, 3)).apply((), jnp.arange(16.).reshape(1, 1, 4, 4))
    Array([[[[7.5]]]], dtype=float32)
    """
    name = f"AvgPool({window})"
    slide = _Slide(window, strides, padding, layout, axes, name)

    def pool(x: Any) -> Any:
        x = jnp.asarray(x)
        if kind_of(x.dtype) != "f":
            raise DTypeError(
                f"{name}: the input has dtype {x.dtype.name}; the mean needs floats, use x.astype('float32')"
            )
        total, windows = slide(widened(x), 0.0, lax.add), slide.over(x.shape)
        if windows.padding == "VALID":
            return (total / math.prod(windows.window)).astype(x.dtype)
        places = windows.places()
        counted = jnp.ones(tuple(n if i in places else 1 for i, n in enumerate(x.shape)), total.dtype)
        return (total / jnp.maximum(slide(counted, 0.0, lax.add), 1)).astype(x.dtype)

    return without_params(pool, name)


class _WindowsOver(NamedTuple):
    """The windows over an input of some rank: where its spatial axes are, and the arguments for each in turn."""

    layout: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | tuple[tuple[int, int], ...]

    def places(self) -> tuple[int, ...]:
        return tuple(i for i, axis in enumerate(self.layout) if axis not in "NC")


class _Slide:
    """Checked window arguments, applied to an input."""

    def __init__(
        self,
        window: int | Sequence[int] | None,
        strides: int | Sequence[int] | None,
        padding: PaddingArgument,
        layout: str | None,
        axes: Sequence[int] | None,
        name: str,
    ) -> None:
        self.name = name
        self.axes = None if axes is None else tuple(axes)
        if self.axes is not None and layout is not None:
            raise ArgumentError(f"{name}: layout={layout!r} tells the axes already; leave out it or axes={self.axes}")
        if window is None and (strides is not None or padding != "VALID" or (self.axes is None and layout is None)):
            raise ArgumentError(
                f"{name}: a window of None, all of each axis, takes axes or a layout, no strides or padding"
            )
        # A window of None tells no rank; 1 stands in until the input is there.
        given = 1 if window is None else window
        if self.axes is None:
            sizes, self.layout = window_and_layout(given, layout, name)
        else:
            sizes, self.layout = per_axis(given, len(self.axes), "window", name), ""
        self.window = None if window is None else sizes
        self.strides = sizes if strides is None else per_axis(strides, len(sizes), "strides", name)
        self.padding = checked_padding(padding, len(sizes), name)

    def over(self, shape: tuple[int, ...]) -> _WindowsOver:
        """The windows over an input of this shape."""
        layout, order = self._places(shape)
        padding = self.padding if isinstance(self.padding, str) else tuple(self.padding[i] for i in order)
        if self.window is None:
            window = tuple(n for n, axis in zip(shape, layout, strict=True) if axis not in "NC")
            return _WindowsOver(layout, window, (1,) * len(window), padding)
        window, strides = (tuple(each[i] for i in order) for each in (self.window, self.strides))
        where = None if self.axes is None else f"axes {self.axes}"
        check_window(shape, layout, window, (1,) * len(window), padding, self.name, where)
        return _WindowsOver(layout, window, strides, padding)

    def _places(self, shape: tuple[int, ...]) -> tuple[str, list[int]]:
        """Which axes of an input are spatial, as a layout, and in which order the arguments name them."""
        if self.axes is None:
            check_input(shape, self.layout, self.name)
            return self.layout, list(range(len(self.strides)))
        ndim = len(shape)
        places = [axis % ndim if -ndim <= axis < ndim else None for axis in self.axes]
        if None in places or len(set(places)) < len(places):
            raise ShapeError(f"{self.name}: axes={self.axes} must be different axes of the input of shape {shape}")
        layout = "".join("W" if i in places else "N" for i in range(ndim))
        return layout, [i for _, i in sorted((place, i) for i, place in enumerate(places) if place is not None)]

    def __call__(self, x: Any, start: Any, combine: Any) -> Any:
        windows = self.over(x.shape)
        if self.window is None and 0 not in windows.window:
            return _WHOLE[combine](x, axis=windows.places(), keepdims=True)
        layout, padding = windows.layout, windows.padding
        return lax.reduce_window(
            x,
            jnp.asarray(start, x.dtype),
            combine,
            window_dimensions=spread(windows.window, layout, 1),
            window_strides=spread(windows.strides, layout, 1),
            padding=padding if isinstance(padding, str) else spread(padding, layout, (0, 0)),
        )


_WHOLE: dict[Any, Any] = {lax.max: jnp.max, lax.add: jnp.sum}


def _lowest(dtype: Any) -> Any:
    if kind_of(dtype) == "f":
        return -math.inf
    return False if kind_of(dtype) == "b" else int(dtypes.iinfo(dtype).min)
