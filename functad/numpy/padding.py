"""`pad`: an array with more elements around it, constant or taken from the array.

Knows the pad primitive, and index arrays for what is taken from the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.array import Array, ArrayImpl
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy import arithmetic, means, reductions, selecting, statistics
from functad.numpy.building import as_array
from functad.numpy.manipulation import slice_axis
from functad.numpy.promotion import asarray, broadcast_operand, convert, operand
from functad.primitives import elementwise as el
from functad.primitives import joining, structure
from functad.primitives.common import reshape
from functad.primitives.kernels.conversion import converted
from functad.tree_util import tree_leaves

__all__ = ["pad"]

_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reductions.max,
    "minimum": reductions.min,
    "mean": means.mean,
    "median": statistics.median,
}
_OPTIONS = {
    "constant": "constant_values",
    "empty": "constant_values",
    "edge": "",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": "",
    "linear_ramp": "end_values",
    **dict.fromkeys(_STATISTICS, "stat_length"),
}
"""The modes, and the argument that each takes."""


def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Array:
    """An array with more elements before and after it along each axis.

    Args:
        array: array of any shape.
        pad_width: how many: one number, `(before, after)`, one pair for each axis, or a dict of axes.
        mode: "constant" (with `constant_values`, by default 0), "empty", "edge", "wrap", "reflect" or "symmetric" (with
            `reflect_type="odd"` mirrored in the value at the edge, too), "linear_ramp" (with `end_values`), "maximum",
            "minimum", "mean" or "median" (with `stat_length`: of so many elements at the edge).

    >>> import functad.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2]), (1, 2))
    Array([0, 1, 2, 0, 0], dtype=int32)
    """
    x = as_array("pad", array)
    widths = _counts("pad_width", pad_width, x.ndim)
    if mode not in _OPTIONS:
        raise ArgumentError(f"pad: mode must be one of {', '.join(_OPTIONS)}, got {mode!r}")
    if unknown := kwargs.keys() - {_OPTIONS[mode]}:
        raise ArgumentError(f"pad: mode {mode!r} does not take {', '.join(sorted(unknown))}")
    option = kwargs.get(_OPTIONS[mode])
    if mode in ("constant", "empty"):
        return _pad_constant(x, widths, 0 if option is None else option)
    if mode in _STATISTICS:
        lengths = None if option is None else _counts("stat_length", option, x.ndim)
        return _pad_statistic(x, widths, lengths, mode)
    if mode == "linear_ramp":
        ends = _values("end_values", 0 if option is None else option, x.ndim, _dtype_for_ramp(x.dtype))
        return _pad_ramp(x, widths, ends)
    if option not in (None, "even", "odd"):
        raise ArgumentError(f"pad: reflect_type must be 'even' or 'odd', got {option!r}")
    return (_pad_reflecting if option == "odd" else _pad_taking)(x, widths, mode)


def _counts(name: str, given: Any, ndim: int) -> list[tuple[int, int]]:
    """Whole numbers, one (before, after) for each axis, of any of the forms that NumPy takes."""
    if isinstance(given, dict):
        result = [(0, 0)] * ndim
        for axis, pair in given.items():
            result[axis] = (pair, pair) if np.ndim(pair) == 0 else tuple(pair)
        given = result or np.zeros((0, 2), int)
    try:
        pairs = np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        raise _no_pairs(name, given, ndim) from None
    if kind_of(pairs.dtype) not in "iu":
        raise DTypeError(f"pad: {name}={given} must be made of integers")
    if pairs.size and pairs.min() < 0:
        raise ArgumentError(f"pad: {name}={given} must not be negative; to cut, index with a slice")
    return [(int(before), int(after)) for before, after in pairs]


def _values(name: str, given: Any, ndim: int, dtype: np.dtype) -> Any:
    """Numbers, which may be traced, as an array of one (before, after) for each axis."""
    try:
        return broadcast_operand(_in_dtype(given, dtype), (ndim, 2))
    except ValueError:  # ShapeError, or NumPy's
        raise _no_pairs(name, given, ndim) from None


def _in_dtype(given: Any, dtype: np.dtype) -> Any:
    """Numbers in a dtype, Python's rounded to it once; an array as it is."""
    if isinstance(given, Array):
        return given
    mixed = any(isinstance(v, Array) for v in tree_leaves(given))
    return asarray(given, dtype) if mixed else ArrayImpl(converted(np.asarray(given), dtype))


def _no_pairs(name: str, given: Any, ndim: int) -> ShapeError:
    return ShapeError(f"pad: {name}={given} does not give one (before, after) for each of {ndim} axes")


def _pad_constant(x: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    values = _in_dtype(values, x.dtype) if isinstance(values, (list, tuple)) else operand("pad", values)
    if aval_of(values).size == 1:
        value = convert(reshape(values, ()), x.dtype, x.weak_type)
        return structure.pad(x, value, [(before, after, 0) for before, after in widths])
    pairs = convert(_values("constant_values", values, x.ndim, x.dtype), x.dtype)
    for axis, width in enumerate(widths):
        for side in (0, 1):
            config = [(0, 0, 0)] * x.ndim
            config[axis] = (width[0], 0, 0) if side == 0 else (0, width[1], 0)
            x = structure.pad(x, pairs[axis, side], config)
    return x


def _pad_taking(x: Any, widths: list[tuple[int, int]], mode: Any) -> Any:
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if x.shape[axis] == 0:
            raise _nothing_to_take(x, axis, mode)
        x = selecting.take(x, np.pad(np.arange(x.shape[axis]), width, mode), axis, mode="promise_in_bounds")
    return x


def _pad_reflecting(x: Any, widths: list[tuple[int, int]], mode: str) -> Any:
    """The odd reflection: mirrored in position, and in value at the edge, as often as it takes."""
    for axis, width in enumerate(widths):
        if x.shape[axis] == 0 and any(width):
            raise _nothing_to_take(x, axis, mode)
        skipped = int(mode == "reflect" and x.shape[axis] > 1)  # the edge itself
        most = x.shape[axis] - skipped
        for missing in width:  # before the front; then, turned round, behind the end
            while missing:
                count = min(missing, most)
                taken = structure.rev(slice_axis(x, axis, skipped, skipped + count), (axis,))
                edge = slice_axis(x, axis, 0, 1)
                x = joining.concatenate([arithmetic.subtract(arithmetic.add(edge, edge), taken), x], axis)
                missing -= count
            x = structure.rev(x, (axis,))
    return x


def _nothing_to_take(x: Any, axis: int, mode: str) -> ArgumentError:
    return ArgumentError(f"pad: axis {axis} of shape {x.shape} is empty, so mode {mode!r} has nothing to take")


def _pad_statistic(x: Any, widths: list[tuple[int, int]], lengths: list[tuple[int, int]] | None, mode: str) -> Any:
    for axis, width in enumerate(widths):
        size = x.shape[axis]
        if lengths is None:
            values = [_statistic(x, axis, mode)] * 2
        else:
            if 0 in lengths[axis]:
                raise ArgumentError(f"pad: stat_length={lengths[axis]} of axis {axis}: no elements have no {mode}")
            before, after = (min(n, size) for n in lengths[axis])
            parts = slice_axis(x, axis, 0, before), slice_axis(x, axis, size - after, size)
            values = [_statistic(part, axis, mode) for part in parts]
        sides = [broadcast_operand(v, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for v, n in zip(values, width)]
        x = joining.concatenate([sides[0], x, sides[1]], axis)
    return x


def _statistic(x: Any, axis: int, mode: str) -> Any:
    value = _STATISTICS[mode](x, axis=axis, keepdims=True)
    if kind_of(x.dtype) in "iu" and value.dtype != x.dtype:
        value = el.round(value, 1)
    return convert(value, x.dtype)


def _pad_ramp(x: Any, widths: list[tuple[int, int]], ends: Any) -> Any:
    for axis, width in enumerate(widths):
        sides = []
        for side in (0, 1):
            count = width[side]
            edge = x[(slice(None),) * axis + ((slice(0, 1), slice(-1, None))[side],)]
            inexact = _dtype_for_ramp(x.dtype)
            fraction = np.arange(count) / max(count, 1)
            fraction = fraction if side == 0 else fraction[::-1]
            weights = asarray(fraction.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(inexact))
            ramp = weights * convert(edge, inexact) + (1 - weights) * convert(ends[axis, side], inexact)
            sides.append(convert(ramp, x.dtype))
        x = joining.concatenate([sides[0], x, sides[1]], axis)
    return x


def _dtype_for_ramp(dtype: np.dtype) -> np.dtype:
    return dtype if kind_of(dtype) in "fc" else np.dtype(np.float32)
