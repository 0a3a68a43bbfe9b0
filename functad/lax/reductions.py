"""Reductions over axes and over windows, and running reductions, under JAX's names.

Knows which computations have a primitive of their own; any other one is folded pairwise.

Shapes:
    The axes that are reduced are dropped; running reductions and windows keep them.

Raises:
    DTypeError: an operand is no array, or of a dtype that the reduction does not take.
    ShapeError: the array has no such axis, or an axis is named twice.
    ArgumentError: a padding that there is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.mapping import vmap
from functad.array import Array, ArrayImpl
from functad.dtypes import kind_of
from functad.errors import ShapeError
from functad.evaluation import aval_of
from functad.lax import elementwise
from functad.lax.operands import axis_of, bind_checked, check_fits, integers_of, same_dtype
from functad.lax.operands import operand as _operand
from functad.primitives import cumulative, joining, positions, reduction, structure, window
from functad.primitives import elementwise as el
from functad.primitives.common import full, reduce_sum_p
from functad.primitives.common import reduce_sum as _reduce_sum
from functad.primitives.kernels.conversion import converted
from functad.primitives.window_geometry import dilated, padtype_to_pads, window_parameters, windows_shape
from functad.tree_util import tree_flatten, tree_unflatten

# --- reductions over axes ---------------------------------------------------------------------------------


def _reduction(name: str, what: str, example: str, result: str) -> Callable[[Any, Sequence[int]], Any]:
    wrapped = _reduce_sum if name == "reduce_sum" else getattr(reduction, name)
    record = reduce_sum_p if name == "reduce_sum" else getattr(reduction, f"{name}_p")

    def fun(operand: Any, axes: Sequence[int]) -> Any:
        x, places = _operand(name, operand), integers_of(name, "axes", axes)
        check_fits(record, x, axes=places)
        return wrapped(x, axes=places)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{what} over some axes, which are dropped.

    Args:
        operand: an array.
        axes: the axes, not negative.

    >>> {name}(np.array({example}), axes=(0,))
    {result}
    """
    return fun


_SHOWN = "[[1, 2], [3, 4]], np.int32"
reduce_sum = _reduction("reduce_sum", "The sum", _SHOWN, "Array([4, 6], dtype=int32)")
reduce_prod = _reduction("reduce_prod", "The product", _SHOWN, "Array([3, 8], dtype=int32)")
reduce_max = _reduction("reduce_max", "The maximum", _SHOWN, "Array([3, 4], dtype=int32)")
reduce_min = _reduction("reduce_min", "The minimum", _SHOWN, "Array([1, 2], dtype=int32)")
reduce_and = _reduction("reduce_and", "Whether all hold", "[True, False]", "Array(False, dtype=bool)")
reduce_or = _reduction("reduce_or", "Whether any holds", "[True, False]", "Array(True, dtype=bool)")
reduce_xor = _reduction("reduce_xor", "Whether an odd number holds", "[True, False]", "Array(True, dtype=bool)")


def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The position of the (first) maximum along an axis; of the first NaN if there is one.

    Args:
        operand: a real array.
        axis: the axis, not negative.
        index_dtype: the dtype of the result.

    >>> argmax(np.int32([1, 3, 2]), 0, int)
    Array(1, dtype=int32)
    """
    x = _operand("argmax", operand)
    return bind_checked(positions.argmax_p, x, axes=(axis,), index_dtype=dtypes.requested_dtype(index_dtype))


def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """The position of the (first) minimum along an axis; of the first NaN if there is one.

    Args:
        operand: a real array.
        axis: the axis, not negative.
        index_dtype: the dtype of the result.

    >>> argmin(np.int32([1, 3, 2]), 0, int)
    Array(0, dtype=int32)
    """
    x = _operand("argmin", operand)
    return bind_checked(positions.argmin_p, x, axes=(axis,), index_dtype=dtypes.requested_dtype(index_dtype))


def _cumulative(name: str, what: str, example: str, result: str) -> Callable[..., Array]:
    record = getattr(cumulative, f"{name}_p")

    def fun(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        return bind_checked(record, _operand(name, operand), axis=axis, reverse=reverse)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{what} along an axis.

    Args:
        operand: an array.
        axis: the axis, not negative.
        reverse: whether to begin at the end.

    >>> {name}(np.array({example}))
    {result}
    """
    return fun


cumsum = _cumulative("cumsum", "The running sum", "[1, 2, 3], np.int32", "Array([1, 3, 6], dtype=int32)")
cumprod = _cumulative("cumprod", "The running product", "[1, 2, 3], np.int32", "Array([1, 2, 6], dtype=int32)")
cummax = _cumulative("cummax", "The running maximum", "[1, 3, 2], np.int32", "Array([1, 3, 3], dtype=int32)")
cummin = _cumulative("cummin", "The running minimum", "[3, 1, 2], np.int32", "Array([3, 1, 1], dtype=int32)")
cumlogsumexp = _cumulative(
    "cumlogsumexp",
    "The running log(sum(exp(x)))",
    "[0, 0], np.float32",
    "Array([0.       , 0.6931472], dtype=float32)",
)


def reduce(operands: Any, init_values: Any, computation: Callable[[Any, Any], Any], dimensions: Sequence[int]) -> Any:
    """Combine elements over some axes with any associative computation.

    Args:
        operands: an array, or a pytree of arrays of one shape.
        init_values: what to begin with: a pytree of scalars of the same structure, neutral to the computation.
        computation: takes two pytrees of scalars to one; associative. `lax.add`, `mul`, `max`, `min` and the bitwise
            ones become the primitive of their own.
        dimensions: the axes, which are dropped; not negative.

    >>> reduce(np.int32([1, 2, 3]), 0, elementwise.add, (0,))
    Array(6, dtype=int32)
    >>> reduce(np.float32([1, 2, 3]), 0.0, lambda x, y: x + y + x * y, (0,))
    Array(23., dtype=float32)
    """
    leaves, tree = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if tree != init_tree:
        raise ShapeError(f"lax.reduce: operands and init_values must have one structure, got {tree} and {init_tree}")
    pairs = [same_dtype("reduce", x, _cast_like(x, init)) for x, init in zip(leaves, inits)]
    axes = integers_of("reduce", "dimensions", dimensions)
    if len(pairs) == 1 and _is_known(computation, pairs[0][0]):
        x, init = pairs[0]
        whole = _KNOWN[computation].reduce(x, axes)
        return tree_unflatten(tree, [whole if _is_neutral(computation, x, init) else computation(init, whole)])
    arrays, scalars = [x for x, _ in pairs], [init for _, init in pairs]
    return tree_unflatten(tree, _fold(arrays, scalars, _flat(computation, tree), axes))


# --- reductions over windows ------------------------------------------------------------------------------


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Combine the elements of each window that slides over an array.

    Sums are added to one total of the array's dtype for each window: in float32, more than 2^24 ones are too many.

    Args:
        operand: an array.
        init_value: a scalar, with which each window begins; padding counts for nothing.
        computation: takes two scalars to one. `lax.add`, `max` and `min` become the primitive of their own.
        window_dimensions: the size of the window along each axis.
        window_strides: how far it moves along each axis, by default 1.
        padding: "VALID", "SAME", "SAME_LOWER", or `(low, high)` for each axis.
        base_dilation, window_dilation: the distance at which elements of the array and of the window are put.

    >>> reduce_window(np.float32([1, 3, 2, 4]), -np.inf, elementwise.max, (2,), (2,))
    Array([3., 4.], dtype=float32)
    """
    x, init = same_dtype("reduce_window", operand, _cast_like(operand, init_value))
    shape = aval_of(x).shape
    ones = (1,) * len(shape)
    sizes = integers_of("reduce_window", "window_dimensions", window_dimensions)
    strides, base, spread = window_strides or ones, base_dilation or ones, window_dilation or ones
    if len(sizes) != len(shape):
        raise ShapeError(
            f"lax.reduce_window: window_dimensions={sizes} must have one size for each axis of an operand of "
            f"shape {shape}"
        )
    if isinstance(padding, str):
        whole = [dilated(n, d) for n, d in zip(shape, base)]
        padding = padtype_to_pads(whole, [dilated(k, d) for k, d in zip(sizes, spread)], strides, padding)
    windows = window_parameters(
        len(shape),
        window_dimensions=sizes,
        window_strides=strides,
        padding=padding,
        base_dilation=base,
        window_dilation=spread,
    )
    if _is_known(computation, x) and _KNOWN[computation].window:
        result = bind_checked(_KNOWN[computation].window, x, **windows)
        return result if _is_neutral(computation, x, init) else computation(init, result)
    return _fold_windows(x, init, computation, windows)


def _fold_windows(x: Any, init: Any, computation: Callable[[Any, Any], Any], windows: dict[str, Any]) -> Any:
    """For each place in the window, the elements that windows have there; then these arrays are combined."""
    config = [(low, high, d - 1) for (low, high), d in zip(windows["padding"], windows["base_dilation"])]
    padded = structure.pad(x, init, config)
    is_padding = structure.pad(full(aval_of(x).shape, np.bool_(False)), np.bool_(True), config)
    sizes, spread, strides = (windows[k] for k in ("window_dimensions", "window_dilation", "window_strides"))
    counts = windows_shape("reduce_window", aval_of(x).shape, **windows)
    total = full(counts, init)
    if 0 in counts:
        return total
    for place in itertools.product(*map(range, sizes)):
        starts = [i * d for i, d in zip(place, spread)]
        limits = [start + (count - 1) * s + 1 for start, count, s in zip(starts, counts, strides)]
        part, skipped = (structure.slice_(a, starts, limits, strides) for a in (padded, is_padding))
        (combined,) = _elementwise(lambda a, b: [computation(a[0], b[0])], [total], [part])
        total = el.select_n(skipped, combined, total)
    return total


# --- computations -----------------------------------------------------------------------------------------


class _KnownReduction:
    """A computation that has primitives of its own, and its neutral element."""

    def __init__(self, reduce: Any, window: Any, neutral: Callable[[np.dtype], Any], kinds: str) -> None:
        self.reduce, self.window, self.neutral, self.kinds = reduce, window, neutral, kinds


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if kind_of(dtype) == "f" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if kind_of(dtype) == "f" else np.iinfo(dtype).max


_KNOWN: dict[Any, _KnownReduction] = {
    elementwise.add: _KnownReduction(reduce_sum, window.reduce_window_sum_p, lambda dtype: 0, "fciu"),
    elementwise.mul: _KnownReduction(reduce_prod, None, lambda dtype: 1, "fciu"),
    elementwise.max: _KnownReduction(reduce_max, window.reduce_window_max_p, _lowest, "fiu"),
    elementwise.min: _KnownReduction(reduce_min, window.reduce_window_min_p, _highest, "fiu"),
    elementwise.bitwise_and: _KnownReduction(
        reduce_and, None, lambda dtype: True if kind_of(dtype) == "b" else -1, "biu"
    ),
    elementwise.bitwise_or: _KnownReduction(reduce_or, None, lambda dtype: 0, "biu"),
    elementwise.bitwise_xor: _KnownReduction(reduce_xor, None, lambda dtype: 0, "biu"),
}


def _is_known(computation: Any, x: Any) -> bool:
    return computation in _KNOWN and kind_of(aval_of(x).dtype) in _KNOWN[computation].kinds


def _is_neutral(computation: Any, x: Any, init: Any) -> bool:
    """Whether the initial value is known, and changes nothing."""
    if not isinstance(init, (ArrayImpl, np.ndarray, np.generic)):
        return False
    dtype = aval_of(x).dtype
    neutral = converted(np.asarray(_KNOWN[computation].neutral(dtype)), dtype)
    return bool(np.asarray(init) == neutral)


def _cast_like(x: Any, init: Any) -> Any:
    """An initial value in the dtype of its operand, as a Python number may be given for any."""
    if isinstance(init, (bool, int, float, complex)):
        return converted(np.asarray(init), dtypes.dtype_of(x)[0])[()]
    return init


def _flat(computation: Callable[[Any, Any], Any], tree: Any) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    def fun(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        return tree_flatten(computation(tree_unflatten(tree, list(a)), tree_unflatten(tree, list(b))))[0]

    return fun


def _elementwise(fun: Callable[..., list[Any]], a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """A function of scalars applied to each element of arrays."""
    shape = aval_of(a[0]).shape
    size = math.prod(shape)
    lines = [[structure.reshape(x, (size,)) for x in side] for side in (a, b)]
    return [structure.reshape(r, shape) for r in vmap(fun)(*lines)]


def _fold(
    arrays: Sequence[Any], inits: Sequence[Any], fun: Callable[..., list[Any]], axes: tuple[int, ...]
) -> list[Any]:
    """Combine neighbours until one element is left along the given axes, then the initial values with that."""
    shape = aval_of(arrays[0]).shape
    if any(aval_of(x).shape != shape for x in arrays):
        raise ShapeError(
            f"lax.reduce: operands that are reduced together must have one shape, got "
            f"{', '.join(str(aval_of(x).shape) for x in arrays)}"
        )
    axes = tuple(axis_of("reduce", a, len(shape)) for a in axes)
    kept = [i for i in range(len(shape)) if i not in axes]
    count = math.prod(shape[a] for a in axes)
    out_shape = tuple(shape[i] for i in kept)
    totals = [full(out_shape, init) for init in inits]
    if count == 0:
        return totals
    rows = [structure.reshape(structure.transpose(x, (*axes, *kept)), (count, *out_shape)) for x in arrays]
    while count > 1:
        pairs, rest = divmod(count, 2)
        grouped = [structure.reshape(reduction.slice_along(x, 0, 0, 2 * pairs), (pairs, 2, *out_shape)) for x in rows]
        left, right = (
            [structure.squeeze(reduction.slice_along(x, 1, i, i + 1), (1,)) for x in grouped] for i in (0, 1)
        )
        combined = _elementwise(fun, left, right)
        if rest:
            combined = [
                joining.concatenate([c, reduction.slice_along(x, 0, count - 1, count)], 0)
                for c, x in zip(combined, rows)
            ]
        rows, count = combined, pairs + rest
    return _elementwise(fun, totals, [structure.squeeze(x, (0,)) for x in rows])
