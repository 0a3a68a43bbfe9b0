"""Elements chosen, left out or put in at positions or under a mask, and positions of several axes as one number.

Knows choosing by index arrays; what decides a result's shape must be known, unless its size is given.

Shapes:
    Conditions and values broadcast; where a result's length depends on values, `size` says it.

Raises:
    ShapeError: shapes do not broadcast, or values do not fit the array.
    AxisError: the array has no such axis.
    ArgumentError: a position outside of the array, or index arrays of another number than axes.
    ConcretizationError: an array is traced on which the result's size depends, and no size is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import arithmetic, indexing, manipulation, updates
from functad.numpy.building import as_array, as_boolean, filled, refuse_out
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axis,
    concrete_value,
    convert,
)
from functad.numpy.selecting import nonzero, take, where
from functad.primitives import cumulative, joining
from functad.primitives import elementwise as el
from functad.primitives.common import reshape as reshape_to
from functad.tracing import Tracer

__all__ = [
    "compress",
    "delete",
    "extract",
    "insert",
    "place",
    "ravel_multi_index",
    "unravel_index",
]


def compress(
    condition: Any,
    a: Any,
    axis: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """Slices along an axis where a condition is true; with `size`, cut or filled up to that many.

    >>> import functad.numpy as jnp
    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    refuse_out("compress", out)
    x = as_array("compress", a)
    if axis is None:
        x, axis = manipulation.ravel(x), 0
    place = canonical_axis("compress", axis, x.ndim)
    mask = as_boolean("compress", condition)
    if size is None:
        positions = nonzero(mask)[0]
        if math.prod(mask.shape) > x.shape[place]:
            indexing.check_bounds(np.asarray(positions), place, x.shape)
        return take(x, positions, place)
    positions = nonzero(mask, size=size, fill_value=x.shape[place])[0]
    return take(x, positions, place, mode="fill", fill_value=fill_value)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Array:
    """The elements at which a condition is true, as a vector.

    >>> import functad.numpy as jnp
    >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    return compress(manipulation.ravel(condition), manipulation.ravel(arr), 0, size=size, fill_value=fill_value)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Array:
    """A copy of an array with the values put in turn where the mask is true; `inplace=False` says that it is one.

    >>> import functad.numpy as jnp
    >>> jnp.place(jnp.array([1, 2, 3]), jnp.array([True, False, True]), jnp.array([7, 8]), inplace=False)
    Array([7, 2, 8], dtype=int32)
    """
    if inplace:
        raise ArgumentError("place: arrays are immutable; write x = functad.numpy.place(x, mask, v, inplace=False)")
    x, values = as_array("place", arr), manipulation.ravel(vals)
    chosen = manipulation.ravel(as_boolean("place", mask))
    order = el.sub(cumulative.cumsum(convert(chosen, dtypes.int32), axis=0, reverse=False), np.int32(1))
    spread = take(values, arithmetic.mod(order, values.size), mode="promise_in_bounds")
    return where(reshape_to(chosen, x.shape), convert(reshape_to(spread, x.shape), x.dtype), x)


_POSITIONS_REWRITE = """How many positions are left decides the shape of the result, so they must be known. Instead of
    jnp.delete(x, i)
write
    jnp.where(jnp.arange(len(x)) == i, 0, x)"""


def delete(arr: Any, obj: Any, axis: Any = None, *, assume_unique_indices: bool = False) -> Array:
    """The array without the given positions (or slice, or mask) along an axis, by default of the flattened array.

    Args:
        assume_unique_indices: no position is named twice, so that traced ones tell the result's size.

    >>> import functad.numpy as jnp
    >>> jnp.delete(jnp.array([1, 2, 3]), 1)
    Array([1, 3], dtype=int32)
    """
    x = as_array("delete", arr)
    if axis is None:
        x, axis = manipulation.ravel(x), 0
    index = canonical_axis("delete", axis, x.ndim)
    length = x.shape[index]
    if assume_unique_indices and isinstance(obj, Tracer) and kind_of(obj.dtype) in "iu":
        left = updates.At(filled(np.bool_(True), (length,)))[obj].set(False)
        return take(x, nonzero(left, size=length - obj.size)[0], index)
    if not isinstance(obj, slice):
        obj = concrete_value(obj, "delete", _POSITIONS_REWRITE)
        if kind_of(obj.dtype) != "b":
            indexing.check_bounds(obj, index, x.shape)
            obj = obj.astype(np.int64)
    kept = np.delete(np.arange(length), obj)
    return take(x, kept, index)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Array:
    """The array with values inserted before the given positions along an axis, by default of the flattened array.

    >>> import functad.numpy as jnp
    >>> jnp.insert(jnp.array([1, 3]), 1, 2)
    Array([1, 2, 3], dtype=int32)
    """
    x = as_array("insert", arr)
    new = asarray(values)
    if axis is None:
        x, axis = manipulation.ravel(x), 0
    index = canonical_axis("insert", axis, x.ndim)
    new = convert(new, x.dtype)
    own = (*(1,) * (x.ndim - new.ndim), *new.shape)
    if any(n != 1 for n in own[: len(own) - x.ndim]):
        raise ShapeError(f"insert: values of shape {new.shape} have more axes than the array, of shape {x.shape}")
    new = reshape_to(new, own[len(own) - x.ndim :])
    length = x.shape[index]
    known: Any = np.arange(length)[obj] if isinstance(obj, slice) else np.asarray(obj)
    if kind_of(known.dtype) == "b":
        known = np.flatnonzero(known)
    positions = known.reshape(-1) if known.size else np.empty(0, np.int64)  # an empty list has floats
    positions = np.where(positions < 0, positions + length, positions)
    if positions.size and (positions.min() < 0 or positions.max() > length):
        raise ArgumentError(f"insert: position {known} is out of bounds for axis {index} of size {length}")
    if known.ndim == 0:
        new = manipulation.moveaxis(new, 0, index)
    if positions.size == 1:
        positions = np.repeat(positions, new.shape[index])
    count = len(positions)
    new = broadcast_operand(new, (*x.shape[:index], count, *x.shape[index + 1 :]))
    order = np.argsort(positions, kind="stable")
    places = positions[order] + np.arange(count)
    merged = np.empty(length + count, np.int64)
    is_new = np.zeros(length + count, bool)
    is_new[places] = True
    merged[places] = length + order
    merged[~is_new] = np.arange(length)
    return take(joining.concatenate([x, new], index), merged, index)


# --- flat and separate indices ----------------------------------------------------------------------


def unravel_index(indices: Any, shape: Any) -> tuple[Array, ...]:
    """Flat indices as one index array an axis of an array of the given shape; those outside as its ends.

    >>> import functad.numpy as jnp
    >>> jnp.unravel_index(6, (3, 4))
    (Array(1, dtype=int32), Array(2, dtype=int32))
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    flat = el.wide_indices(as_array("unravel_index", indices), math.prod(sizes))
    flat = arithmetic.clip(flat, 0 if kind_of(flat.dtype) == "u" else -math.prod(sizes), math.prod(sizes) - 1)
    results = []
    for n in sizes[::-1]:
        results.append(arithmetic.mod(flat, n))
        flat = arithmetic.floor_divide(flat, n)
    return tuple(results[::-1])


def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *, dtype: Any = None
) -> Array:
    """Index arrays, one an axis of an array of shape `dims`, as flat indices; `dtype`: theirs.

    >>> import functad.numpy as jnp
    >>> jnp.ravel_multi_index((1, 2), (3, 4))
    Array(6, dtype=int32)
    """
    sizes = tuple(dims)
    if len(multi_index) != len(sizes):
        raise ArgumentError(f"ravel_multi_index: {len(multi_index)} index arrays for {len(sizes)} axes")
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if order == "F":
        strides = [math.prod(sizes[:i]) for i in range(len(sizes))]
    total: Any = 0
    for index, n, stride in zip(multi_index, sizes, strides):
        position = el.wide_indices(as_array("ravel_multi_index", index), math.prod(sizes))
        if mode == "clip":
            position = arithmetic.clip(position, 0, n - 1)
        elif mode == "wrap":
            position = arithmetic.mod(position, n)
        elif not isinstance(position, Tracer):
            indexing.check_bounds(np.asarray(position), 0, (n,), wraps=False)
        total = arithmetic.add(total, arithmetic.multiply(position, stride))
    return total if dtype is None else convert(total, dtypes.requested_dtype(dtype))
