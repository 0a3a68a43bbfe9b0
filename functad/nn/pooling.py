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
from functad.errors import DTypeError
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


def MaxPool(
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: PaddingArgument = "VALID",
    layout: str | None = None,
) -> Layer:
    """The largest element of each window, for each channel.

    Args:
        window: its size along each spatial axis; its length tells the rank. An integer needs a `layout`.
        strides: how far it moves; by default its own size, so that windows do not overlap.
        padding: as in `Conv`; what is padded never wins.
        layout: as in `Conv`.

    Raises:
        ArgumentError: arguments that do not fit together. ShapeError: an input of the wrong rank, or
            smaller than the window.

    >>> import functad.numpy as jnp
    >>> MaxPool((2, 2)).apply((), jnp.arange(16.).reshape(1, 1, 4, 4))
    Array([[[[ 5.,  7.],
             [13., 15.]]]], dtype=float32)
    """
    name = f"MaxPool({window})"
    slide = _Slide(window, strides, padding, layout, name)

    def pool(x: Any) -> Any:
        x = jnp.asarray(x)
        return slide(x, _lowest(x.dtype), lax.max)

    return without_params(pool, name)


def AvgPool(
    window: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: PaddingArgument = "VALID",
    layout: str | None = None,
) -> Layer:
    """The mean of each window, for each channel; padded elements are not counted.

    Args:
        window: its size along each spatial axis; its length tells the rank. An integer needs a `layout`.
        strides: how far it moves; by default its own size, so that windows do not overlap.
        padding: as in `Conv`.
        layout: as in `Conv`.

    Raises:
        ArgumentError: arguments that do not fit together. ShapeError: an input of the wrong rank, or
            smaller than the window.
        DTypeError: the input holds no floats.

    >>> import functad.numpy as jnp
    >>> AvgPool((2, 2)).apply((), jnp.arange(16.).reshape(1, 1, 4, 4))
    Array([[[[ 2.5,  4.5],
             [10.5, 12.5]]]], dtype=float32)
    """
    name = f"AvgPool({window})"
    slide = _Slide(window, strides, padding, layout, name)

    def pool(x: Any) -> Any:
        x = jnp.asarray(x)
        if kind_of(x.dtype) != "f":
            raise DTypeError(
                f"{name}: the input has dtype {x.dtype.name}; the mean needs floats, use x.astype('float32')"
            )
        total = slide(x, 0.0, lax.add)
        if slide.padding == "VALID":
            return total / math.prod(slide.window)
        counted = jnp.ones(
            tuple(1 if axis in "NC" else n for n, axis in zip(x.shape, slide.layout, strict=True)), x.dtype
        )
        return total / slide(counted, 0.0, lax.add)

    return without_params(pool, name)


class _Slide:
    """Checked window arguments, applied to an input."""

    def __init__(
        self,
        window: int | Sequence[int],
        strides: int | Sequence[int] | None,
        padding: PaddingArgument,
        layout: str | None,
        name: str,
    ) -> None:
        self.name = name
        self.window, self.layout = window_and_layout(window, layout, name)
        rank = len(self.window)
        self.strides = self.window if strides is None else per_axis(strides, rank, "strides", name)
        self.padding = checked_padding(padding, rank, name)

    def __call__(self, x: Any, start: Any, combine: Any) -> Any:
        check_input(x.shape, self.layout, self.name)
        check_window(x.shape, self.layout, self.window, (1,) * len(self.window), self.padding, self.name)
        pads = self.padding if isinstance(self.padding, str) else spread(self.padding, self.layout, (0, 0))
        return lax.reduce_window(
            x,
            jnp.asarray(start, x.dtype),
            combine,
            window_dimensions=spread(self.window, self.layout, 1),
            window_strides=spread(self.strides, self.layout, 1),
            padding=pads,
        )


def _lowest(dtype: Any) -> Any:
    if kind_of(dtype) == "f":
        return -math.inf
    return False if kind_of(dtype) == "b" else int(dtypes.iinfo(dtype).min)
