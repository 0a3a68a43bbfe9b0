"""Making, reshaping, joining and reordering arrays, under JAX's names.

Knows the structural primitives; what reads or writes at positions is in `slicing`.

Args:
    operands: a sequence of arrays.
    dimension, dimensions: the axis, or several.

Shapes:
    The elements keep their dtype, and the result has the shape that the function says: an axis that is sorted,
    reversed or updated keeps its size.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: an array has no such axis, or does not fit the sizes that are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.errors import ShapeError
from functad.evaluation import aval_of
from functad.lax.operands import axis_of, bind_checked, check_fits, integers_of, same_dtype
from functad.lax.operands import operand as _operand
from functad.numpy.promotion import SCALARS, convert
from functad.numpy.promotion import broadcast_shapes as broadcast_shapes
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim as _broadcast_in_dim
from functad.primitives.common import (
    broadcast_in_dim_p,
    reshape_p,
    transpose_p,
)
from functad.primitives.common import full as _full

# --- making -----------------------------------------------------------------------------------------------


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Array:
    """An array filled with one value.

    Args:
        shape: its shape.
        fill_value: a scalar.
        dtype: its dtype; by default that of the value.

    >>> full((2,), 1.5)
    Array([1.5, 1.5], dtype=float32, weak_type=True)
    """
    value = (
        _operand("full", fill_value) if dtype is None else _scalar("full", fill_value, dtypes.requested_dtype(dtype))
    )
    if aval_of(value).shape:
        raise ShapeError(f"lax.full: fill_value must be a scalar, but has shape {aval_of(value).shape}")
    sizes = integers_of("full", "shape", shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"lax.full: shape={sizes} must not be negative")
    return _full(sizes, value)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None) -> Array:
    """An array of the shape and dtype of another, filled with one value.

    Args:
        x: an array, a number, or anything with `.shape` and `.dtype`.
        fill_value: a scalar.
        dtype, shape: what to have instead of those of x.

    >>> import numpy as np
    >>> full_like(np.zeros(2, np.float16), 3)
    Array([3., 3.], dtype=float16)
    """
    own_dtype, weak = dtypes.dtype_of(x)
    wanted = own_dtype if dtype is None else dtypes.requested_dtype(dtype)
    value = _scalar("full_like", fill_value, wanted, weak and dtype is None)
    return full(getattr(x, "shape", ()) if shape is None else shape, value)


def _scalar(name: str, value: Any, dtype: Any, weak: bool = False) -> Any:
    """A fill value in another dtype: a constant rather than an operation where it is a Python scalar."""
    value = dtypes.adaptable(value)
    return convert(value if type(value) in SCALARS else _operand(name, value), dtype, weak)


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """An array of a shape and dtype whose values do not matter; they are zeros.

    >>> empty((2,), float)
    Array([0., 0.], dtype=float32)
    """
    return full(shape, 0, dtype)


def iota(dtype: Any, size: int) -> Array:
    """The numbers 0, 1, …, size − 1.

    >>> iota(int, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Array:
    """The numbers 0, 1, … along one axis of an array.

    >>> broadcasted_iota(int, (2, 3), 0)
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    sizes = integers_of("iota", "shape", shape)
    return bind_checked(structure.iota_p, dtype=dtypes.requested_dtype(dtype), shape=sizes, dimension=dimension)


# --- broadcasting -----------------------------------------------------------------------------------------


def broadcast(operand: Any, sizes: Sequence[int]) -> Array:
    """Repeat an array along new leading axes.

    Args:
        operand: an array or number.
        sizes: the sizes of the new axes.

    >>> broadcast(1.0, (2,))
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    x, sizes = _operand("broadcast", operand), integers_of("broadcast", "sizes", sizes)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"lax.broadcast: sizes={sizes} must not be negative")
    shape = (*sizes, *aval_of(x).shape)
    return _broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(sizes), len(shape)))


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """Repeat an array along new axes and along axes of size 1.

    Args:
        operand: an array or number.
        shape: the shape of the result.
        broadcast_dimensions: for each axis of the operand, which axis of the result it becomes.

    >>> import numpy as np
    >>> broadcast_in_dim(np.int32([1, 2]), (2, 3), (0,))
    Array([[1, 1, 1],
           [2, 2, 2]], dtype=int32)
    """
    x = _operand("broadcast_in_dim", operand)
    sizes = integers_of("broadcast_in_dim", "shape", shape)
    dims = integers_of("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    check_fits(broadcast_in_dim_p, x, shape=sizes, broadcast_dimensions=dims)
    return _broadcast_in_dim(x, shape=sizes, broadcast_dimensions=dims)


def broadcast_to_rank(x: Any, rank: int) -> Array:
    """Add leading axes of size 1 until an array has `rank` axes.

    >>> import numpy as np
    >>> broadcast_to_rank(np.zeros(3), 2).shape
    (1, 3)
    """
    x = _operand("broadcast_to_rank", x)
    return structure.expand_dims(x, range(rank - aval_of(x).ndim))


def broadcast_like(arr: Any, like_arr: Any) -> Array:
    """Repeat the array `arr` to the shape of `like_arr`, an array of at least as many axes.

    >>> import numpy as np
    >>> broadcast_like(1.0, np.zeros(2))
    Array([1., 1.], dtype=float32, weak_type=True)
    """
    x, shape = _operand("broadcast_like", arr), aval_of(_operand("broadcast_like", like_arr)).shape
    return broadcast_in_dim(x, shape, range(len(shape) - aval_of(x).ndim, len(shape)))


# --- reshaping and reordering -----------------------------------------------------------------------------


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Array:
    """The same elements in row-major order with another shape.

    Args:
        operand: an array or number.
        new_sizes: the shape; every size is given.
        dimensions: the order in which the axes are read, by default the one they have.

    >>> reshape(iota(int, 4), (2, 2))
    Array([[0, 1],
           [2, 3]], dtype=int32)
    """
    x = _operand("reshape", operand)
    if dimensions is not None:
        x = transpose(x, dimensions)
    sizes = integers_of("reshape", "new_sizes", new_sizes)
    check_fits(reshape_p, x, new_sizes=sizes)
    return structure.reshape(x, sizes)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the axes from `start_dimension` to before `stop_dimension` (by default all the rest) into one.

    >>> collapse(broadcasted_iota(int, (2, 3, 4), 0), 0, 2).shape
    (6, 4)
    """
    x = _operand("collapse", operand)
    shape = aval_of(x).shape
    start, stop, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if start > stop:
        raise ShapeError(f"lax.collapse: axes {start_dimension} to {stop_dimension} of shape {shape} are none")
    merged = 1
    for size in shape[start:stop]:
        merged *= size
    return structure.reshape(x, (*shape[:start], merged, *shape[stop:]))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1, which are axes `dimensions` of the result.

    >>> expand_dims(iota(int, 3), (0, -1)).shape
    (1, 3, 1)
    """
    x, dims = _operand("expand_dims", array), integers_of("expand_dims", "dimensions", dimensions)
    rank = aval_of(x).ndim + len(dims)
    places = tuple(axis_of("expand_dims", d, rank) for d in dims)
    if len(set(places)) != len(places):
        raise ShapeError(f"lax.expand_dims: dimensions={dims} name one axis twice")
    return structure.expand_dims(x, places)


def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """Drop axes of size 1.

    >>> squeeze(full((1, 3, 1), 0), (0, -1)).shape
    (3,)
    """
    x, dims = _operand("squeeze", array), integers_of("squeeze", "dimensions", dimensions)
    ndim = aval_of(x).ndim
    places = tuple(sorted(axis_of("squeeze", d, ndim) for d in dims))
    check_fits(structure.squeeze_p, x, dimensions=places)
    return structure.squeeze(x, places)


def transpose(operand: Any, permutation: Sequence[int]) -> Array:
    """Permute the axes: axis i of the result is axis `permutation[i]` of the operand.

    >>> transpose(full((2, 3, 4), 0), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = _operand("transpose", operand)
    permutation = integers_of("transpose", "permutation", permutation)
    check_fits(transpose_p, x, permutation=permutation)
    return structure.transpose(x, permutation)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Reverse the order of the elements along some axes.

    >>> rev(iota(int, 3), (0,))
    Array([2, 1, 0], dtype=int32)
    """
    x, places = _operand("rev", operand), integers_of("rev", "dimensions", dimensions)
    check_fits(structure.rev_p, x, dimensions=places)
    return structure.rev(x, places)


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Put elements around and between those of an array, or cut off its edges.

    Args:
        operand: an array.
        padding_value: a scalar of its dtype.
        padding_config: for each axis `(low, high, interior)`, how many elements to put before, after, and between
            two neighbours. A negative low or high cuts elements off.

    >>> pad(iota(int, 3), 9, [(1, -1, 1)])
    Array([9, 0, 9, 1, 9], dtype=int32)
    """
    each = padding_config if np.iterable(padding_config) else [padding_config]
    config = tuple(integers_of("pad", "padding_config", triple) for triple in each)
    if any(len(triple) != 3 for triple in config):
        raise ShapeError(f"lax.pad: padding_config has (low, high, interior) for each axis, got {config!r:.80}")
    return bind_checked(structure.pad_p, *same_dtype("pad", operand, padding_value), padding_config=config)


# --- joining and cutting ----------------------------------------------------------------------------------


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Join arrays of one dtype along an existing axis.

    >>> concatenate([iota(int, 2), iota(int, 3)], 0)
    Array([0, 1, 0, 1, 2], dtype=int32)
    """
    arrays = _several("concatenate", operands)
    check_fits(joining.concatenate_p, *arrays, dimension=dimension)
    return joining.concatenate(arrays, dimension)


def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new axis.

    >>> stack([iota(int, 2), iota(int, 2)])
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    arrays = _several("stack", operands)
    return bind_checked(joining.stack_p, *arrays, axis=axis_of("stack", axis, aval_of(arrays[0]).ndim + 1))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Cut an array along an axis into parts of the given sizes, which sum up to its size.

    >>> split(iota(int, 3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = _operand("split", operand)
    place = axis_of("split", axis, aval_of(x).ndim)
    return list(bind_checked(joining.split_p, x, sizes=integers_of("split", "sizes", sizes), axis=place))


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Cut an array along an axis into arrays without that axis.

    >>> unstack(iota(int, 2))
    (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    x = _operand("unstack", x)
    return tuple(bind_checked(joining.unstack_p, x, axis=axis_of("unstack", axis, aval_of(x).ndim)))


def tile(operand: Any, reps: Sequence[int]) -> Array:
    """Repeat an array as a whole, `reps[i]` times along axis i.

    >>> tile(iota(int, 2), (2,))
    Array([0, 1, 0, 1], dtype=int32)
    """
    return bind_checked(joining.tile_p, _operand("tile", operand), reps=integers_of("tile", "reps", reps))


def _several(name: str, operands: Sequence[Any]) -> list[Any]:
    if len(operands) == 0:
        raise ShapeError(f"lax.{name} needs at least one operand, but was given none")
    return same_dtype(name, *operands)
