"""Choosing elements: by conditions, by index arrays along an axis, and by where they are not zero.

Knows the plan of `x[index]` only through `getitem`; updates are in `updates`, insertions and deletions in `positions`.

Shapes:
    Positions of several dimensions give results of their shape in the place of the axis; conditions and choices
    broadcast.

Raises:
    ShapeError: shapes do not broadcast, or indices do not fit the array.
    AxisError: the array has no such axis.
    ArgumentError: a mode that there is not, or lists of different lengths.
    OutOfBoundsError: an element of an empty axis is asked for.
    ConcretizationError: an array is traced on which the result's size depends, and no size is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.device_arrays import beside
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ConcretizationError, OutOfBoundsError, ShapeError
from functad.evaluation import aval_of
from functad.numpy import arithmetic, concatenation, indexing, manipulation, updates
from functad.numpy.building import as_array, as_boolean, filled, refuse_out, select
from functad.numpy.promotion import (
    SCALARS,
    asarray,
    broadcast_operand,
    canonical_axis,
    concrete_value,
    convert,
    joint_shape,
    operand,
    promote_dtypes,
    promote_pair,
)
from functad.primitives import cumulative, gather_scatter, structure
from functad.primitives import elementwise as el
from functad.primitives.common import reshape as reshape_to
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from functad.tracing import Tracer

__all__ = [
    "argwhere",
    "choose",
    "flatnonzero",
    "nonzero",
    "piecewise",
    "put",
    "put_along_axis",
    "repeat",
    "take",
    "take_along_axis",
    "where",
]

# --- by conditions ----------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Elements of `x` where the condition is true and of `y` where it is not; with the condition alone, `nonzero`.

    Both choices are computed, and a derivative flows through the chosen one only.

    >>> import functad.numpy as jnp
    >>> x = jnp.array([-1., 2.])
    >>> jnp.where(x > 0, x, 0.)
    Array([0., 2.], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where takes the condition alone, or the condition and both choices")
    mask = as_boolean("where", condition)
    if type(x) in SCALARS or type(y) in SCALARS:  # which have no shape to promote
        on_true, on_false = promote_pair("where", x, y)
    else:
        on_true, on_false = promote_dtypes(operand("where", x), operand("where", y))
    shape = joint_shape("where", [a.shape for a in (mask, on_true, on_false)])
    if mask.shape:
        mask = broadcast_operand(mask, shape)
    return el.select_n(mask, broadcast_operand(on_false, shape), broadcast_operand(on_true, shape))


def select_cases(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Elements of the first choice whose condition is true, and `default` where none is.

    >>> import functad.numpy as jnp
    >>> jnp.select([jnp.array([True, False])], [jnp.array([1, 2])], 9)
    Array([1, 9], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"select takes as many choices as conditions, at least one; got {len(condlist)} and {len(choicelist)}"
        )
    *choices, result = promote_dtypes(*[operand("select", c) for c in (*choicelist, default)])
    for condition, choice in zip(condlist[::-1], choices[::-1]):
        result = where(condition, choice, result)
    return asarray(result)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """A function by cases: where condition i is true, `funclist[i](x)` (or that constant); the last wins.

    One function more than conditions stands for "else"; without it the result is 0 there. All are evaluated.
    The conditions are a sequence, or the rows of an array.

    >>> import functad.numpy as jnp
    >>> jnp.piecewise(jnp.array([-1.0, 2.0]), [jnp.array([True, False])], [0.0, lambda x: x * x])
    Array([0., 4.], dtype=float32)
    """
    x = as_array("piecewise", x)
    functions = list(funclist)
    shape = () if isinstance(condlist, bool) else getattr(condlist, "shape", None)
    alone = shape == x.shape and len(functions) <= 2  # one condition, as NumPy has it, and not its rows
    conditions = [condlist] if alone or shape == () else list(condlist)
    if len(functions) == len(conditions) + 1:
        result = _piece(functions.pop(), x, args, kw)
    elif len(functions) == len(conditions):
        result = filled(x.dtype.type(0), x.shape)
    else:
        raise ArgumentError(f"piecewise: {len(conditions)} conditions take as many functions, or one more")
    for condition, function in zip(conditions, functions):
        result = where(condition, _piece(function, x, args, kw), result)
    return result


def _piece(function: Any, x: Any, args: Any, kw: Any) -> Any:
    value = function(x, *args, **kw) if callable(function) else function
    return convert(operand("piecewise", value), x.dtype)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """At each place the element of the choice that `a` names there.

    >>> import functad.numpy as jnp
    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), 9])
    Array([1, 9, 3], dtype=int32)
    """
    index = as_array("choose", a)
    options = [asarray(c) for c in choices]
    count = len(options)
    refuse_out("choose", out)
    if mode in ("wrap", "clip"):
        index = _placed(index, count, mode)
    elif mode != "raise":
        raise ArgumentError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    elif not isinstance(index, Tracer):
        indexing.check_bounds(np.asarray(index), 0, (count,), "functad.numpy.choose(..., mode='clip'), or mode='wrap'")
    shape = joint_shape("choose", [index.shape, *(c.shape for c in options)])
    stacked = concatenation.stack([broadcast_operand(c, shape) for c in promote_dtypes(*options)])
    return take_along_axis(stacked, structure.expand_dims(broadcast_operand(index, shape), (0,)), 0)[0]


# --- by index arrays along an axis ------------------------------------------------------------------

_MODES = ("fill", "clip", "wrap", "promise_in_bounds")


def _placed(index: Any, size: int, mode: str) -> Any:
    """Positions brought onto an axis: "wrap" counts on from its ends, "clip" takes the nearest."""
    index = el.wide_indices(index, size)
    return arithmetic.mod(index, size) if mode == "wrap" else arithmetic.clip(index, 0, size - 1)


_TAKING = "functad.numpy.take(..., mode='clip'), or mode='fill' or 'wrap'"


def take(
    a: Any,
    indices: Any,
    axis: Any = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Slices of an array at the given positions along an axis, by default of the flattened array.

    Args:
        indices: integers of any shape, which replaces the axis in the result.
        mode: for positions outside of the array: "fill" (NaN, or the extreme integer, or `fill_value`), "clip",
            "wrap". Without it they give the fill value; with `config.debug_index` they raise.

    >>> import functad.numpy as jnp
    >>> jnp.take(jnp.array([5, 6, 7]), jnp.array([2, 0]))
    Array([7, 5], dtype=int32)
    """
    refuse_out("take", out)
    x, index = as_array("take", a), as_array("take", indices)
    if axis is None:
        x, place = reshape_to(x, (x.size,)), 0
    else:
        place = canonical_axis("take", axis, x.ndim)
    if mode not in (None, *_MODES):
        raise ArgumentError(f"take: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if mode in ("wrap", "clip"):
        index, mode = _placed(index, x.shape[place], mode), "promise_in_bounds"
    whole = (slice(None),) * place
    entries = indexing.read_index(x.shape, (*whole, index), _TAKING if mode is None else None)
    return indexing.gather(x, entries, GatherScatterMode.from_any(mode), fill_value)


def _along_axis(name: str, x: Any, indices: Any, axis: Any) -> tuple[Any, Any, int]:
    """The array and the indices repeated to one shape, the axis aside."""
    index = as_array(name, indices)
    if kind_of(index.dtype) not in "iu":
        raise ArgumentError(f"{name}: the indices must be integers, got {aval_of(index).str_short()}")
    if x.ndim != index.ndim:
        raise ShapeError(
            f"{name}: the indices must have as many axes as the array, but have shape {index.shape}, the array "
            f"{x.shape}"
        )
    place = canonical_axis(name, axis, x.ndim)
    rests = [v.shape[:place] + v.shape[place + 1 :] for v in (x, index)]
    joint = joint_shape(name, rests)
    x = broadcast_operand(x, (*joint[:place], x.shape[place], *joint[place:]))
    index = broadcast_operand(index, (*joint[:place], index.shape[place], *joint[place:]))
    return x, index, place


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """At each place the element of the same line along an axis at the given position; inverts `argsort`.

    Negative positions count from the end, unless `wrap_negative_indices=False` has them lie outside.

    >>> import functad.numpy as jnp
    >>> x = jnp.array([[3., 1., 2.]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[1., 2., 3.]], dtype=float32)
    """
    x = as_array("take_along_axis", arr)
    if axis is None:
        flat = manipulation.ravel(x), manipulation.ravel(indices)
        return take_along_axis(*flat, 0, mode, fill_value, wrap_negative_indices=wrap_negative_indices)
    x, index, place = _along_axis("take_along_axis", x, indices, axis)
    remedy = "functad.numpy.take_along_axis(..., mode='clip'), or mode='fill'"
    if wrap_negative_indices is not False:
        index = indexing.wrap_indices(index, place, x.shape, remedy if mode is None else None)
    others = tuple(i for i in range(x.ndim) if i != place)
    if not index.size:
        return filled(x.dtype.type(0), index.shape)
    if not x.shape[place]:
        raise OutOfBoundsError(
            f"take_along_axis: axis {place} of an array of shape {x.shape} is empty, so an index finds no element; "
            "look at x.shape first"
        )
    return gather_scatter.gather(
        x,
        structure.expand_dims(index, (index.ndim,)),
        dimension_numbers=GatherDimensionNumbers((), (place,), (place,), others, others),
        slice_sizes=(1,) * x.ndim,
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.from_any(mode),
        fill_value=fill_value,
    )


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Array:
    """A copy of an array with one element a place replaced along an axis; `inplace=False` says that it is one.

    >>> import functad.numpy as jnp
    >>> jnp.put_along_axis(jnp.array([[1, 2], [3, 4]]), jnp.array([[1], [0]]), 9, axis=1, inplace=False)
    Array([[1, 9],
           [9, 4]], dtype=int32)
    """
    if inplace:
        raise ArgumentError(
            "put_along_axis: arrays are immutable; write "
            "x = functad.numpy.put_along_axis(x, indices, values, axis, inplace=False)"
        )
    x = as_array("put_along_axis", arr)
    if axis is None:
        flat = put_along_axis(manipulation.ravel(x), manipulation.ravel(indices), values, 0, False, mode=mode)
        return reshape_to(flat, x.shape)
    place = canonical_axis("put_along_axis", axis, x.ndim)
    index = as_array("put_along_axis", indices)
    grid: list[Any] = [
        np.arange(n, dtype=np.int32).reshape([n if j == i else 1 for j in range(x.ndim)]) for i, n in enumerate(x.shape)
    ]
    grid[place] = index
    return x.at[tuple(grid)].set(values, mode=mode)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Array:
    """A copy of an array with elements of the flattened array replaced; `inplace=False` says that it is one.

    >>> import functad.numpy as jnp
    >>> jnp.put(jnp.array([1, 2, 3]), 1, 9, inplace=False)
    Array([1, 9, 3], dtype=int32)
    """
    if inplace:
        raise ArgumentError("put: arrays are immutable; write x = functad.numpy.put(x, indices, values, inplace=False)")
    x = as_array("put", a)
    index, values = manipulation.ravel(ind), manipulation.ravel(v)
    if mode not in (None, "wrap", "clip"):
        raise ArgumentError(f"put: mode must be 'wrap' or 'clip', got {mode!r}")
    if not (x.size and index.size and values.size):
        return x
    values = manipulation.resize(values, index.shape)
    if mode is not None:
        index = _placed(index, x.size, mode)
    return reshape_to(manipulation.ravel(x).at[index].set(values), x.shape)


def repeat(a: Any, repeats: Any, axis: Any = None, *, total_repeat_length: int | None = None) -> Array:
    """Repeat each element along an axis, by default of the flattened array.

    Args:
        repeats: how often, for all or for each position; a traced one needs `total_repeat_length`.

    >>> import functad.numpy as jnp
    >>> jnp.repeat(jnp.array([1, 2]), 2)
    Array([1, 1, 2, 2], dtype=int32)
    """
    x = as_array("repeat", a)
    if axis is None:
        x, place = reshape_to(x, (x.size,)), 0
    else:
        place = canonical_axis("repeat", axis, x.ndim)
    length = x.shape[place]
    if isinstance(repeats, Tracer):
        return _repeat_traced(x, repeats, place, total_repeat_length)
    counts = np.asarray(repeats)
    if counts.size and counts.min() < 0:
        raise ArgumentError(f"repeat: repeats must not be negative, got {repeats}")
    if counts.ndim == 0 and total_repeat_length is None:
        count = int(counts)
        shape = (*x.shape[: place + 1], count, *x.shape[place + 1 :])
        kept = [i for i in range(x.ndim + 1) if i != place + 1]
        spread = structure.broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)
        return reshape_to(spread, (*x.shape[:place], length * count, *x.shape[place + 1 :]))
    counts = counts.astype(np.int64, casting="same_kind")  # NumPy refuses uint64
    positions = np.repeat(np.arange(length), np.broadcast_to(counts.ravel(), (length,)))
    if total_repeat_length is not None:
        missing = max(total_repeat_length - len(positions), 0)
        last = positions[-1:] if len(positions) else np.zeros(1, int)
        positions = np.concatenate([positions, np.repeat(last, missing)])[:total_repeat_length]
    return take(x, positions, place)


def _repeat_traced(x: Any, repeats: Any, place: int, total: int | None) -> Any:
    if total is None:
        raise ConcretizationError(
            "repeat: the numbers of repetitions are traced, so the size of the result is unknown; instead of\n"
            "    jnp.repeat(x, n)\nwrite\n    jnp.repeat(x, n, total_repeat_length=largest)"
        )
    length = x.shape[place]
    counts = broadcast_operand(el.wide_indices(manipulation.ravel(repeats), total), (length,))
    positions = _counting_up(cumulative.cumsum(counts, axis=0, reverse=False), total)
    return take(x, arithmetic.minimum(positions, length - 1), place, mode="promise_in_bounds")


def _counting_up(marks: Any, length: int) -> Any:
    """For each k below `length`, how many of the ascending marks are at most k."""
    steps = updates.At(filled(marks.dtype.type(0), (length,)))[marks].add(1, mode="drop")
    return cumulative.cumsum(steps, axis=0, reverse=False)


# --- by where they are not zero ---------------------------------------------------------------------

_SIZE_REWRITE = """How many elements are not zero decides the shape of the result, so it must be known. Instead of
    i, = jnp.nonzero(x)
write
    i, = jnp.nonzero(x, size=largest, fill_value=-1)"""


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, one array an axis.

    Args:
        size: the length of the result, needed where `a` is traced: cut, or filled up with `fill_value` (or 0).

    >>> import functad.numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 2, 3]))
    (Array([1, 2], dtype=int32),)
    """
    x = as_array("nonzero", a)
    if x.ndim == 0:
        raise ArgumentError("nonzero takes an array with at least one axis; use atleast_1d")
    if size is not None and size < 0:
        raise ArgumentError(f"nonzero: size={size} must not be negative")
    if size is None:
        known = concrete_value(x, "nonzero without size=", _SIZE_REWRITE)
        found = [ArrayImpl(p.astype(dtypes.default_int_dtype())) for p in np.nonzero(known)]
        return tuple(beside(positions, [x], "nonzero") for positions in found)
    mask = manipulation.ravel(as_boolean("nonzero", x))
    index_dtype = dtypes.default_int_dtype()
    flat = _counting_up(cumulative.cumsum(convert(mask, index_dtype), axis=0, reverse=False), size)
    found = el.lt(flat, index_dtype.type(mask.size))
    fill_value = 0 if fill_value is None else fill_value
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * x.ndim
    if len(fills) != x.ndim or any(np.ndim(fill) for fill in fills):
        raise ArgumentError(f"nonzero: fill_value must be one number, or {x.ndim} of them in a tuple")
    results = []
    stride = mask.size
    for n, fill in zip(x.shape, fills):
        stride = stride // n if n else 1
        position = el.rem(el.div(flat, index_dtype.type(max(stride, 1))), index_dtype.type(max(n, 1)))
        results.append(select(found, position, convert(operand("nonzero", fill), index_dtype)))
    return tuple(results)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements of the flattened array that are not zero.

    >>> import functad.numpy as jnp
    >>> jnp.flatnonzero(jnp.array([[0, 2], [3, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(manipulation.ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not zero, one row each.

    >>> import functad.numpy as jnp
    >>> jnp.argwhere(jnp.array([0, 2, 3]))
    Array([[1],
           [2]], dtype=int32)
    """
    x = as_array("argwhere", a)
    if x.ndim == 0:
        return manipulation.reshape(argwhere(manipulation.ravel(x), size=size), (-1, 0))
    return concatenation.stack(nonzero(x, size=size, fill_value=fill_value), axis=1)
