"""Sorting, ranking, searching in sorted arrays, and different values.

Knows the sort primitive and gathers.

Args:
    kth: the place, or several.

Shapes:
    What sorts keeps the array's shape, and what looks values up that of the values; different values are a vector.

Raises:
    AxisError: the array has no such axis.
    ShapeError: keys differ in shape, or a vector is needed.
    ArgumentError: a side, method or option that there is not.
    ConcretizationError: an array is traced on which the result's size depends, and no size is given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad.array import Array, ArrayImpl
from functad.device_arrays import beside
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import concatenation, logic, manipulation, reductions, selecting, updates
from functad.numpy.building import as_array, filled, select
from functad.numpy.promotion import asarray, canonical_axis, concrete_value, convert, listed, operand, promote_dtypes
from functad.primitives import cumulative, joining, sorting, structure
from functad.primitives import elementwise as el
from functad.records import NamedTuple
from functad.tracing import Tracer

__all__ = [
    "argpartition",
    "argsort",
    "digitize",
    "isin",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

# --- sorting ----------------------------------------------------------------------------------------


def sort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in ascending order along an axis; NaN comes last.

    >>> import functad.numpy as jnp
    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    x, place = _line("sort", a, axis)
    (result,) = _sort([x], place, stable, 1)
    return structure.rev(result, (place,)) if descending else result


def _line(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    x = as_array(name, a)
    if axis is None:
        return manipulation.ravel(x), 0
    return x, canonical_axis(name, axis, x.ndim)


def _sort(operands: Sequence[Any], dimension: int, stable: bool, num_keys: int) -> list[Any]:
    return list(sorting.sort(tuple(operands), dimension=dimension, is_stable=stable, num_keys=num_keys))


def sort_with(keys: Any, other: Any) -> tuple[Any, Any]:
    """Keys sorted along their last axis, and the elements of another array of that shape, which go with them."""
    first, second = _sort([keys, other], keys.ndim - 1, True, 1)
    return first, second


def argsort(
    a: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The indices that sort an array along an axis, of dtype int32 or int64 by default.

    >>> import functad.numpy as jnp
    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    x, place = _line("argsort", a, axis)
    positions = structure.iota(
        dtypes.default_int_dtype() if dtype is None else dtypes.requested_dtype(dtype), x.shape, place
    )
    if not descending:
        return _sort([x, positions], place, stable, 1)[1]
    # Reversed before and after, so that equal elements keep their order.
    backwards = _sort([structure.rev(x, (place,)), structure.rev(positions, (place,))], place, stable, 1)[1]
    return structure.rev(backwards, (place,))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The indices that sort by several keys, of which the last one counts most.

    >>> import functad.numpy as jnp
    >>> jnp.lexsort((jnp.array([3, 1, 2]), jnp.array([0, 0, -1])))
    Array([2, 1, 0], dtype=int32)
    """
    columns = [asarray(k) for k in (keys if isinstance(keys, (list, tuple)) else list(asarray(keys)))]
    if not columns:
        raise ArgumentError("lexsort takes at least one key")
    if len({c.shape for c in columns}) > 1:
        raise ShapeError(f"lexsort: the keys have the different shapes {', '.join(str(c.shape) for c in columns)}")
    if columns[0].ndim == 0:
        return asarray(dtypes.default_int_dtype().type(0))
    place = canonical_axis("lexsort", axis, columns[0].ndim)
    positions = structure.iota(dtypes.default_int_dtype(), columns[0].shape, place)
    return _sort([*columns[::-1], positions], place, True, len(columns))[-1]


def sort_complex(a: Any) -> Array:
    """The elements sorted along the last axis by real, then imaginary part, as complex numbers.

    >>> import functad.numpy as jnp
    >>> jnp.sort_complex(jnp.array([2 + 1j, 1 - 1j]))
    Array([1.-1.j, 2.+1.j], dtype=complex64)
    """
    x = sort(a)
    return convert(x, dtypes.lattice_join((x.dtype, False), (dtypes.complex64, False))[0])


def partition(a: Any, kth: Any, axis: int = -1) -> Array:
    """An array in which the kth element is in its sorted place, smaller ones before it and larger ones after.

    >>> import functad.numpy as jnp
    >>> jnp.partition(jnp.array([3, 1, 2]), 0)[0]
    Array(1, dtype=int32)
    """
    x, place = _line("partition", a, axis)
    for k in listed(kth):
        canonical_axis("partition", k, x.shape[place])
    return sort(x, place)


def argpartition(a: Any, kth: Any, axis: int = -1) -> Array:
    """The indices that partition an array, see `partition`.

    >>> import functad.numpy as jnp
    >>> jnp.argpartition(jnp.array([3, 1, 2]), 0)[0]
    Array(1, dtype=int32)
    """
    x, place = _line("argpartition", a, axis)
    for k in listed(kth):
        canonical_axis("argpartition", k, x.shape[place])
    return argsort(x, place)


# --- searching --------------------------------------------------------------------------------------


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan") -> Array:
    """Where to insert values into a sorted vector so that it stays sorted: before equal elements, or after them.

    NaN counts as larger than everything.

    >>> import functad.numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 3, 5]), jnp.array([0, 3, 4]))
    Array([0, 1, 2], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    table, values = promote_dtypes(as_array("searchsorted", a), as_array("searchsorted", v))
    table, values = asarray(table), asarray(values)
    if table.ndim != 1:
        raise ArgumentError(f"searchsorted takes a sorted vector, got shape {table.shape}")
    if sorter is not None:
        table = selecting.take(table, sorter, 0)
    index_dtype = dtypes.default_int_dtype()
    unsigned = np.dtype(f"u{index_dtype.itemsize}").type  # of which none counts from the end
    place, left = filled(unsigned(0), values.shape), table.size
    while left:
        # If the last one of the first half comes before the value, all of that half do.
        half = (left + 1) // 2
        probe = selecting.take(table, el.add(place, unsigned(half - 1)), 0, mode="promise_in_bounds")
        before = _sorts_before(probe, values) if side == "left" else el.not_(_sorts_before(values, probe))
        place = select(before, el.add(place, unsigned(half)), place)
        left //= 2
    return asarray(convert(place, index_dtype))


def _sorts_before(x: Any, y: Any) -> Any:
    less = logic.less(x, y)
    if kind_of(x.dtype) not in "fc":
        return less
    return el.or_(less, el.and_(el.ne(y, y), el.eq(x, x)))


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Array:
    """The number of the bin in which each element lies; `bins` ascend or descend.

    >>> import functad.numpy as jnp
    >>> jnp.digitize(jnp.array([0.5, 1.5]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 2], dtype=int32)
    """
    values, edges = as_array("digitize", x), as_array("digitize", bins)
    if edges.ndim != 1:
        raise ArgumentError(f"digitize: bins must be a vector, got shape {edges.shape}")
    side = "left" if right else "right"
    index_dtype = dtypes.default_int_dtype()
    if edges.size == 0:
        return filled(index_dtype.type(0), values.shape)
    ascending = searchsorted(edges, values, side)
    other = "right" if right else "left"
    descending = el.sub(index_dtype.type(edges.size), searchsorted(structure.rev(edges, (0,)), values, other))
    return selecting.where(logic.greater_equal(edges[-1], edges[0]), ascending, descending)


# --- sets of values ---------------------------------------------------------------------------------


class UniqueAllResult(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    values: Any
    inverse_indices: Any


_SIZE_REWRITE = """The number of different values decides the shape of the result, so it must be known. Instead of
    jnp.unique(x)
write
    jnp.unique(x, size=largest, fill_value=0)"""


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,  # noqa: A002
) -> Any:
    """The different values of an array in ascending order.

    Args:
        return_index, return_inverse, return_counts: also return where each value first occurs, which value each
            element is, and how often each value occurs.
        axis: compare whole slices along an axis; by default elements.
        size: the number of values, needed where `ar` is traced: cut, or filled up with `fill_value` (or the
            smallest value).

    >>> import functad.numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    x = as_array("unique", ar)
    if size is not None and size < 0:
        raise ArgumentError(f"unique: size={size} must not be negative")
    if size is None:
        known = concrete_value(x, "unique without size=", _SIZE_REWRITE)
        numpy_unique: Any = np.unique
        parts = numpy_unique(known, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
        if not (return_index or return_inverse or return_counts):
            parts = (parts,)
        values = from_elements(parts[0], x) if axis is None else _unique_slices(x, parts[0], axis, equal_nan)
        others = [beside(ArrayImpl(p.astype(dtypes.default_int_dtype())), [x], "unique") for p in parts[1:]]
        return (values, *others) if others else values
    if axis is not None:
        rows = manipulation.moveaxis(x, axis, 0)
        found = _unique_of_size(rows, return_index, return_inverse, return_counts, False, size, fill_value)
        parts = found if isinstance(found, tuple) else (found,)
        values = manipulation.moveaxis(parts[0], 0, axis)
        return (values, *parts[1:]) if len(parts) > 1 else values
    inverse_shape = x.shape
    found = _unique_of_size(
        manipulation.ravel(x), return_index, return_inverse, return_counts, equal_nan, size, fill_value
    )
    if return_inverse:
        place = 1 + return_index
        return (*found[:place], manipulation.reshape(found[place], inverse_shape), *found[place + 1 :])
    return found


def from_elements(values: np.ndarray, *arrays: Any) -> Any:
    """Known values as the elements they come from: of equal ones the first, whose derivative they have."""
    if not any(isinstance(x, Tracer) for x in arrays):
        return beside(ArrayImpl(np.asarray(values)), arrays, "unique")
    flat = concatenation.concatenate([manipulation.ravel(x) for x in arrays])
    known = concrete_value(flat, "unique", _SIZE_REWRITE)
    order = np.argsort(known, kind="stable")
    return selecting.take(flat, order[np.searchsorted(known[order], values)], 0)


def _unique_slices(x: Any, values: np.ndarray, axis: int, equal_nan: bool) -> Any:
    if not isinstance(x, Tracer):
        return beside(ArrayImpl(values), [x], "unique")
    numpy_unique: Any = np.unique
    known = concrete_value(x, "unique", _SIZE_REWRITE)
    return selecting.take(x, numpy_unique(known, return_index=True, axis=axis, equal_nan=equal_nan)[1], axis)


def _unique_of_size(
    x: Any,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    equal_nan: bool,
    size: int,
    fill_value: Any,
) -> Any:
    """Of the slices along the first axis."""
    count = x.shape[0]
    index_dtype = dtypes.default_int_dtype()
    flat = manipulation.reshape(x, (count, math.prod(x.shape[1:])))
    keys = [flat[:, k] for k in range(flat.shape[1])] or [filled(np.int8(0), (count,))]
    *values, order = _sort([*keys, structure.iota(index_dtype, (count,), 0)], 0, True, len(keys))
    different = functools.reduce(el.or_, [differs(v, equal_nan) for v in values])
    starts = joining.concatenate([filled(np.bool_(True), (min(count, 1),)), different], 0)
    (positions,) = selecting.nonzero(starts, size=size, fill_value=count)
    found = el.lt(positions, index_dtype.type(count))
    chosen = selecting.take(x, selecting.take(order, positions, 0, mode="clip"), 0)
    if fill_value is None:
        fill = chosen[0] if size else x.dtype.type(0)
    else:
        fill = convert(operand("unique", fill_value), x.dtype)
    is_value = manipulation.reshape(found, (size,) + (1,) * (x.ndim - 1))
    results = [selecting.where(is_value, chosen, fill)]
    if return_index:
        results.append(selecting.take(order, selecting.where(found, positions, 0), 0, mode="clip"))
    if return_inverse:
        ranks = el.sub(cumulative.cumsum(convert(starts, index_dtype), axis=0, reverse=False), index_dtype.type(1))
        results.append(updates.At(filled(index_dtype.type(0), (count,)))[order].set(ranks))
    if return_counts:
        ends = joining.concatenate([positions[1:], filled(index_dtype.type(count), (1,))], 0)
        results.append(el.sub(ends, positions))
    return tuple(results) if len(results) > 1 else results[0]


def differs(values: Any, equal_nan: bool) -> Any:
    """Which sorted elements differ from the one before."""
    different = el.ne(values[1:], values[:-1])
    if equal_nan and kind_of(values.dtype) in "fc":
        return el.and_(different, el.or_(el.eq(values[1:], values[1:]), el.eq(values[:-1], values[:-1])))
    return different


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The different values, where they first occur, which one each element is, and how often they occur.

    >>> import functad.numpy as jnp
    >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The different values, and how often they occur.

    >>> import functad.numpy as jnp
    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverseResult:
    """The different values, and which one each element is.

    >>> import functad.numpy as jnp
    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The different values.

    >>> import functad.numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Where elements occur among the given values. NaN occurs nowhere.

    method: "compare_all" compares each element with each value, "binary_search" and "sort" look them up among the
        sorted values, "auto" takes what should be faster.

    >>> import functad.numpy as jnp
    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([2, 5]))
    Array([False,  True, False], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ArgumentError(f"isin: method must be 'auto', 'compare_all', 'binary_search' or 'sort', got {method!r}")
    x, values = promote_dtypes(as_array("isin", element), as_array("isin", test_elements))
    x, values = asarray(x), manipulation.ravel(values)
    comparisons = machine_model.COMPARISONS_OF_SEARCH * (x.size + values.size)
    search = x.size * values.size > comparisons if method == "auto" else method != "compare_all"
    if search and values.size and kind_of(values.dtype) != "c":
        table = sort(values)
        place = el.min(searchsorted(table, x), dtypes.default_int_dtype().type(values.size - 1))
        found = logic.equal(selecting.take(table, place, 0, mode="clip"), x)
    else:
        pairs = logic.equal(structure.expand_dims(x, (x.ndim,)), structure.expand_dims(values, tuple(range(x.ndim))))
        found = reductions.any(pairs, axis=-1)
    return el.not_(found) if invert else found
