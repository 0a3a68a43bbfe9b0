"""The geometry of windows: how many fit where, and what paddings they need.

Knows sizes only; nothing of arrays, layouts or what is done with a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from functad.errors import ArgumentError
from functad.primitives.kernels.convolution import Padding


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements that lie `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def window_count(
    size: int, window: int, stride: int, pads: tuple[int, int], base_dilation: int, window_dilation: int
) -> int:
    """How many windows fit along an axis."""
    padded = max(0, dilated(size, base_dilation) + sum(pads))
    return max(0, (padded - dilated(window, window_dilation)) // stride + 1)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis that "VALID", "SAME" or "SAME_LOWER" means.

    Sizes are those after dilation. With "SAME" the result has the size of the input over the stride, rounded
    up; an odd rest is padded at the high end, with "SAME_LOWER" at the low one.

    Raises:
        ArgumentError: there is no such padding, or strides that do not fit.

    >>> padtype_to_pads((5,), (2,), (1,), "SAME")
    [(0, 1)]
    """
    if padding.upper() not in _PADDINGS:
        raise ArgumentError(
            f"padding={padding!r} is unknown: use {', '.join(_PADDINGS)}, or a (low, high) pair an axis"
        )
    if len(window_strides) != len(in_shape) or any(not hasattr(s, "__index__") or s < 1 for s in window_strides):
        raise ArgumentError(
            f"window_strides={tuple(window_strides)} must be at least 1, in whole numbers, one for each of the "
            f"{len(in_shape)} axes that windows move along"
        )
    split = _PADDINGS[padding.upper()]
    totals = [
        max(0, (math.ceil(size / stride) - 1) * stride + window - size)
        for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True)
    ]
    return [split(total) for total in totals]


_PADDINGS: dict[str, Callable[[int], tuple[int, int]]] = {
    "VALID": lambda total: (0, 0),
    "SAME": lambda total: (total // 2, total - total // 2),
    "SAME_LOWER": lambda total: (total - total // 2, total // 2),
}


def window_parameters(
    ndim: int,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding | None = None,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The parameters of a window primitive on an operand of rank `ndim`, trivial ones filled in."""
    ones = (1,) * ndim
    return {
        "window_dimensions": tuple(window_dimensions),
        "window_strides": tuple(window_strides or ones),
        "padding": tuple((low, high) for low, high in padding or ((0, 0),) * ndim),
        "base_dilation": tuple(base_dilation or ones),
        "window_dilation": tuple(window_dilation or ones),
    }


def windows_shape(
    name: str,
    shape: tuple[int, ...],
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """How many windows fit along each axis; `name` is the operation that error messages speak of."""
    given = {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "padding": padding,
        "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }
    for parameter, values in given.items():
        if len(values) != len(shape):
            raise ArgumentError(f"{name}: {parameter}={values} must have one entry for each axis of shape {shape}")
        if parameter != "padding" and any(v < 1 for v in values):  # type: ignore[operator]
            raise ArgumentError(f"{name}: {parameter}={values} must be at least 1 on every axis")
    return tuple(map(window_count, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation))


def with_axis(params: dict[str, Any], dim: int) -> dict[str, Any]:
    """The parameters for operands with one more axis, along which windows have size 1."""
    return {
        name: (*value[:dim], (0, 0) if name == "padding" else 1, *value[dim:]) if name in _PER_AXIS else value
        for name, value in params.items()
    }


_PER_AXIS = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
