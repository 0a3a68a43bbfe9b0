"""`pad`: an array with more elements around it, constant or taken from the array.

Knows the pad primitive, and index arrays for what is taken from the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import means, reductions, selecting
from functad.numpy.building import as_array
from functad.numpy.promotion import asarray, broadcast_operand, convert, operand
from functad.primitives import elementwise as el
from functad.primitives import joining, structure

__all__ = ["pad"]

_TAKING = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reductions.max,
    "minimum": reductions.min,
    "mean": means.mean,
}


def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Array:
    """An array with more elements before and after it along each axis.

    Args:
        array: array of any shape.
        pad_width: how many: one number, `(before, after)`, one pair for each axis, or a dict of axes.
        mode: "constant" (with `constant_values`, by default 0), "edge", "reflect", "symmetric", "wrap",
            "maximum", "minimum", "mean", "linear_ramp" (with `end_values`) or "empty".

    >>> import functad.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2]), (1, 2))
    Array([0, 1, 2, 0, 0], dtype=int32)
    """
    x = as_array("pad", array)
    widths = _pairs("pad_width", pad_width, x.ndim, int)
    if any(n < 0 for pair in widths for n in pair):
        raise ArgumentError(f"pad: pad_width={pad_width} must not be negative; to cut, index with a slice")
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, kwargs.pop("constant_values", 0), kwargs)
    if mode in _TAKING:
        if kwargs.pop("reflect_type", "even") != "even":
            raise ArgumentError("pad: reflect_type must be 'even'; the odd one is 2 * edge - even")
        _refuse_rest(mode, kwargs)
        return _pad_taking(x, widths, mode)
    if mode in _STATISTICS:
        _refuse_rest(mode, kwargs)
        return _pad_statistic(x, widths, _STATISTICS[mode])
    if mode == "linear_ramp":
        ends = _pairs("end_values", kwargs.pop("end_values", 0), x.ndim, float)
        _refuse_rest(mode, kwargs)
        return _pad_ramp(x, widths, ends)
    modes = ", ".join(("constant", "empty", *_TAKING, *_STATISTICS, "linear_ramp"))
    raise ArgumentError(f"pad: mode must be one of {modes}, got {mode!r}")


def _refuse_rest(mode: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ArgumentError(f"pad: mode {mode!r} does not take {', '.join(kwargs)}")


def _pairs(name: str, given: Any, ndim: int, convert_number: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """One (before, after) for each axis, of any of the forms that NumPy takes."""
    if isinstance(given, dict):
        result = [(0, 0)] * ndim
        for axis, pair in given.items():
            result[axis] = (pair, pair) if np.ndim(pair) == 0 else tuple(pair)
        given = result or np.zeros((0, 2), int)
    try:
        pairs = np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        raise ShapeError(f"pad: {name}={given} does not give one (before, after) for each of {ndim} axes") from None
    return [(convert_number(before), convert_number(after)) for before, after in pairs]


def _pad_constant(x: Any, widths: list[tuple[int, int]], values: Any, kwargs: dict[str, Any]) -> Any:
    _refuse_rest("constant", kwargs)
    if isinstance(values, (list, tuple, np.ndarray)):
        known = np.asarray(values)
        if known.size != 1:
            return _pad_each(x, widths, _pairs("constant_values", known, x.ndim, lambda v: v))
        values = known.reshape(())[()]
    value = convert(operand("pad", values), x.dtype, x.weak_type)
    return structure.pad(x, value, [(before, after, 0) for before, after in widths])


def _pad_each(x: Any, widths: list[tuple[int, int]], values: list[tuple[Any, Any]]) -> Any:
    for axis, (width, pair) in enumerate(zip(widths, values)):
        for side in (0, 1):
            config = [(0, 0, 0)] * x.ndim
            config[axis] = (width[0], 0, 0) if side == 0 else (0, width[1], 0)
            x = structure.pad(x, convert(pair[side], x.dtype), config)
    return x


def _pad_taking(x: Any, widths: list[tuple[int, int]], mode: Any) -> Any:
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if x.shape[axis] == 0:
            raise ArgumentError(f"pad: axis {axis} of shape {x.shape} is empty, so mode {mode!r} has nothing to take")
        x = selecting.take(x, np.pad(np.arange(x.shape[axis]), width, mode), axis, mode="promise_in_bounds")
    return x


def _pad_statistic(x: Any, widths: list[tuple[int, int]], statistic: Callable[..., Any]) -> Any:
    for axis, width in enumerate(widths):
        value = statistic(x, axis=axis, keepdims=True)
        if kind_of(x.dtype) in "iu" and value.dtype != x.dtype:
            value = el.round(value, 1)
        value = convert(value, x.dtype)
        sides = [broadcast_operand(value, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in width]
        x = joining.concatenate([sides[0], x, sides[1]], axis)
    return x


def _pad_ramp(x: Any, widths: list[tuple[int, int]], ends: list[tuple[float, float]]) -> Any:
    for axis, (width, end) in enumerate(zip(widths, ends)):
        sides = []
        for side in (0, 1):
            count = width[side]
            edge = x[(slice(None),) * axis + ((slice(0, 1), slice(-1, None))[side],)]
            inexact = _dtype_for_ramp(x.dtype)
            fraction = np.arange(count) / max(count, 1)
            fraction = fraction if side == 0 else fraction[::-1]
            weights = asarray(fraction.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(inexact))
            ramp = weights * convert(edge, inexact) + (1 - weights) * inexact.type(end[side])
            sides.append(convert(ramp, x.dtype))
        x = joining.concatenate([sides[0], x, sides[1]], axis)
    return x


def _dtype_for_ramp(dtype: np.dtype) -> np.dtype:
    return dtype if kind_of(dtype) in "fc" else np.dtype(np.float32)
