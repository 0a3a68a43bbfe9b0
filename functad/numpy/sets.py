"""Arrays as sets of values: unions, intersections, differences.

Knows sorting and membership.

Shapes:
    What sorts keeps the array's shape, and what looks values up that of the values; different values are a vector.

Raises:
    ConcretizationError: an array is traced, and no size is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.device_arrays import beside
from functad.numpy import concatenation, manipulation, selecting
from functad.numpy.building import as_array, filled, select
from functad.numpy.promotion import concrete_value, convert, operand, promote_dtypes
from functad.numpy.sorting import differs, from_elements, isin, unique
from functad.primitives import elementwise as el
from functad.primitives import joining, sorting, structure

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "union1d"]


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The different values of two arrays together, in ascending order; `size` is that of `unique`.

    >>> import functad.numpy as jnp
    >>> jnp.union1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(
        concatenation.concatenate([manipulation.ravel(ar1), manipulation.ravel(ar2)]),
        size=size,
        fill_value=fill_value,
    )


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The values that occur in both arrays, in ascending order.

    Args:
        return_indices: also where each value first occurs in the one array, and in the other.
        size: the number of values, needed where the arrays are traced: cut, or filled up with `fill_value` (or the
            smallest value), and indices with the sizes of the arrays.

    >>> import functad, functad.numpy as jnp
    >>> functad.jit(lambda x, y: jnp.intersect1d(x, y, size=3))(jnp.array([3, 1, 2]), jnp.array([2, 3]))
    Array([2, 3, 2], dtype=int32)
    """
    if size is None:
        numpy_intersect: Any = np.intersect1d
        operands, known = _known_values("intersect1d", ar1, ar2)
        result = numpy_intersect(*known, assume_unique, return_indices)
        if not return_indices:
            return from_elements(result, *operands)
        values, *positions = result
        indices = [ArrayImpl(p.astype(dtypes.default_int_dtype())) for p in positions]
        return (from_elements(values, *operands), *(beside(i, operands, "intersect1d") for i in indices))
    x, y = _flat("intersect1d", ar1, ar2)
    values, first, order = _sorted(x)
    chosen, found = _some(values, el.and_(first, isin(values, y)), size, fill_value)
    if not return_indices:
        return chosen
    other_values, other_first, other_order = _sorted(y)
    places, _ = _some(order, el.and_(first, isin(values, y)), size, x.size)
    others, _ = _some(other_order, el.and_(other_first, isin(other_values, x)), size, y.size)
    return chosen, places, others


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The values of the first array that do not occur in the second, in ascending order.

    Args:
        assume_unique: the first array has no value twice; then its order is kept.
        size: the number of values, needed where the arrays are traced: cut, or filled up with `fill_value` (or 0).

    >>> import functad.numpy as jnp
    >>> jnp.setdiff1d(jnp.array([1, 2, 3]), jnp.array([2]))
    Array([1, 3], dtype=int32)
    """
    if size is None:
        operands, (known, other) = _known_values("setdiff1d", ar1, ar2)
        return from_elements(np.setdiff1d(known, other, assume_unique), operands[0])
    x, y = _flat("setdiff1d", ar1, ar2)
    values, first = (x, filled(np.bool_(True), x.shape)) if assume_unique else _sorted(x)[:2]
    keep = el.and_(first, isin(values, y, invert=True))
    return _some(values, keep, size, 0 if fill_value is None else fill_value)[0]


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The values that occur in exactly one of two arrays, in ascending order.

    Args:
        size: the number of values, needed where the arrays are traced: cut, or filled up with `fill_value` (or the
            smallest value).

    >>> import functad.numpy as jnp
    >>> jnp.setxor1d(jnp.array([1, 2]), jnp.array([2, 3]))
    Array([1, 3], dtype=int32)
    """
    if size is None:
        operands, (known, other) = _known_values("setxor1d", ar1, ar2)
        return from_elements(np.setxor1d(known, other, assume_unique), *operands)
    x, y = _flat("setxor1d", ar1, ar2)
    sides = [_sorted(x)[:2], _sorted(y)[:2]]
    values = joining.concatenate([side[0] for side in sides], 0)
    keeps = [el.and_(first, isin(own, other, invert=True)) for (own, first), (other, _) in zip(sides, reversed(sides))]
    dropped = convert(el.not_(joining.concatenate(keeps, 0)), np.dtype(np.int32))
    dropped, values = sorting.sort((dropped, values), dimension=0, is_stable=True, num_keys=2)
    return _some(values, el.eq(dropped, np.int32(0)), size, fill_value)[0]


def _known_values(name: str, *arrays: Any) -> tuple[list[Any], list[Any]]:
    """The arrays in their common dtype, and their values."""
    rewrite = f"Give {name} the size of its result, which depends on the values: {name}(x, y, size=largest)."
    promoted = promote_dtypes(*[as_array(name, a) for a in arrays])
    return promoted, [concrete_value(x, name, rewrite) for x in promoted]


def _flat(name: str, *arrays: Any) -> list[Any]:
    return [manipulation.ravel(x) for x in promote_dtypes(*[as_array(name, a) for a in arrays])]


def _sorted(x: Any) -> tuple[Any, Any, Any]:
    """The elements in order, which of them are the first of their value (NaN is one), and where they stood."""
    places = structure.iota(dtypes.default_int_dtype(), x.shape, 0)
    values, order = sorting.sort((x, places), dimension=0, is_stable=True, num_keys=1)
    first = joining.concatenate([filled(np.bool_(True), (min(x.size, 1),)), differs(values, equal_nan=True)], 0)
    return values, first, order


def _some(values: Any, keep: Any, size: int, fill_value: Any) -> tuple[Any, Any]:
    """So many of the values that are kept, filled up; by default with the first one, or 0 if there is none."""
    count = values.size
    if not count:
        fill = convert(operand("fill_value", 0 if fill_value is None else fill_value), values.dtype)
        return filled(values.dtype.type(0), (size,)) + fill, None
    (places,) = selecting.nonzero(keep, size=size, fill_value=count)
    found = el.lt(places, places.dtype.type(count))
    chosen = selecting.take(values, places, 0, mode="clip")
    zero = values.dtype.type(0)
    if fill_value is None:
        fill = select(found[0], chosen[0], zero) if size else zero
    else:
        fill = convert(operand("fill_value", fill_value), values.dtype)
    return select(found, chosen, fill), found
