"""Functions that rearrange elements: reshaping, repeating, reversing. Joining and splitting are in `concatenation`.

Knows promotion and the structural primitives; padding is in `padding`, indexing in `indexing`.

Args:
    source, destination, axis1, axis2: axes of the array.
    shift: by how many places, an integer, or one an axis.
    reps: how often, an integer, or one an axis.
    order: "C": the last axis runs fastest; "F": the first.

Shapes:
    The result has the elements of the array in another shape or order, as its function says.

Raises:
    ShapeError: the array does not fit the wanted shape.
    AxisError: the array has no such axis.
    ArgumentError: an axis is named twice, or has another size than 1 where it is dropped; sizes are negative.
    TooLargeError: there would be more elements than an array can have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.evaluation import aval_of
from functad.numpy.building import as_array
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axes,
    canonical_axis,
    canonical_shape,
    joint_shape,
    listed,
)
from functad.primitives import elementwise as el
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim
from functad.primitives.common import reshape as reshape_to
from functad.primitives.common import transpose as permute
from functad.primitives.reduction import slice_along
from functad.tracing import Tracer

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
]

# --- shape and order of axes ------------------------------------------------------------------------


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array; that of None is (), as NumPy's and JAX's.

    >>> import functad.numpy as jnp
    >>> jnp.shape(jnp.ones((2, 3)))
    (2, 3)
    """
    if a is None:
        return ()
    own = getattr(a, "shape", None)
    return own if isinstance(own, tuple) else aval_of(as_array("shape", a)).shape  # a type has a shape, too


def ndim(a: Any) -> int:
    """The number of axes of an array.

    >>> import functad.numpy as jnp
    >>> jnp.ndim(jnp.ones((2, 3)))
    2
    """
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """The number of elements, of the whole array or along some axes.

    >>> import functad.numpy as jnp
    >>> jnp.size(jnp.ones((2, 3)))
    6
    """
    sizes = shape(a)
    return math.prod(sizes[i] for i in canonical_axes("size", axis, len(sizes)))


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:  # noqa: A002
    """The same elements in another shape, one size of which may be -1.

    >>> import functad.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    x = as_array("reshape", a)
    sizes = _resolved_shape(x, shape)
    if order == "F":
        return permute(reshape_to(permute(x, range(x.ndim)[::-1]), sizes[::-1]), range(len(sizes))[::-1])
    if order != "C":
        raise ArgumentError(f"reshape: order must be 'C' or 'F', got {order!r}")
    return reshape_to(x, sizes)


def _resolved_shape(x: Any, wanted: Any) -> tuple[int, ...]:
    several = isinstance(wanted, (tuple, list, np.ndarray, Array))
    given: tuple[Any, ...] = tuple(wanted) if several else (wanted,)
    sizes = [n.__index__() if hasattr(n, "__index__") else n for n in given]
    if not all(isinstance(n, int) for n in sizes) or sizes.count(-1) > 1 or any(n < -1 for n in sizes):
        raise ShapeError(f"reshape: {tuple(given)} is no shape; it takes integers, of which one may be -1")
    known = math.prod(n for n in sizes if n != -1)
    if -1 in sizes:
        if known == 0 or x.size % known:
            raise ShapeError(
                f"reshape: an array of shape {x.shape} ({x.size} elements) does not divide into {tuple(sizes)}"
            )
        sizes[sizes.index(-1)] = x.size // known
    elif known != x.size:
        raise ShapeError(
            f"reshape: an array of shape {x.shape} ({x.size} elements) cannot have shape {tuple(sizes)} "
            f"({known} elements)"
        )
    return tuple(sizes)


def ravel(a: Any, order: str = "C") -> Array:
    """All elements in one axis.

    >>> import functad.numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    return reshape(a, (-1,) if size(a) else (0,), order)


def transpose(a: Any, axes: Any = None) -> Array:
    """Permute the axes, by default reverse them: result axis i is axis `axes[i]`.

    >>> import functad.numpy as jnp
    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)

    >>> import functad.numpy as jnp
    >>> jnp.transpose(jnp.ones((2, 3, 4))).shape
    (4, 3, 2)
    """
    x = as_array("transpose", a)
    order = tuple(range(x.ndim))[::-1] if axes is None else canonical_axes("transpose", axes, x.ndim)
    if len(order) != x.ndim:
        raise ArgumentError(f"transpose: axes={axes} must name all {x.ndim} axes of an array of shape {x.shape}")
    return permute(x, order)


permute_dims = transpose


def matrix_transpose(x: Any, /) -> Array:
    """Swap the last two axes.

    >>> import functad.numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((2, 3, 4))).shape
    (2, 4, 3)
    """
    x = as_array("matrix_transpose", x)
    if x.ndim < 2:
        raise ArgumentError(f"matrix_transpose takes at least two axes, got shape {x.shape}")
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Exchange two axes.

    >>> import functad.numpy as jnp
    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_array("swapaxes", a)
    first, second = (canonical_axis("swapaxes", i, x.ndim) for i in (axis1, axis2))
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return permute(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Move axes elsewhere; the others keep their order.

    >>> import functad.numpy as jnp
    >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_array("moveaxis", a)
    sources = canonical_axes("moveaxis", source, x.ndim)
    destinations = canonical_axes("moveaxis", destination, x.ndim)
    if len(sources) != len(destinations):
        raise ArgumentError(f"moveaxis: source={source} and destination={destination} differ in length")
    order = [i for i in range(x.ndim) if i not in sources]
    for place, axis in sorted(zip(destinations, sources)):
        order.insert(place, axis)
    return permute(x, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """Move one axis before another.

    >>> import functad.numpy as jnp
    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array("rollaxis", a)
    index = canonical_axis("rollaxis", axis, x.ndim)
    place = start + x.ndim if start < 0 else start
    if not 0 <= place <= x.ndim:
        raise ArgumentError(f"rollaxis: start={start} is out of bounds for {x.ndim} axes")
    return moveaxis(x, index, place - (index < place))


def expand_dims(a: Any, axis: Any) -> Array:
    """Insert axes of size 1 so that they are the given ones of the result.

    >>> import functad.numpy as jnp
    >>> jnp.expand_dims(jnp.array([1, 2]), 1).shape
    (2, 1)
    """
    x = as_array("expand_dims", a)
    count = len(listed(axis))
    axes = canonical_axes("expand_dims", axis, x.ndim + count)
    kept = [i for i in range(x.ndim + count) if i not in axes]
    sizes = [1] * (x.ndim + count)
    for i, n in zip(kept, x.shape):
        sizes[i] = n
    return broadcast_in_dim(x, shape=sizes, broadcast_dimensions=kept)


def squeeze(a: Any, axis: Any = None) -> Array:
    """Drop axes of size 1, by default all of them.

    >>> import functad.numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    x = as_array("squeeze", a)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
    else:
        axes = canonical_axes("squeeze", axis, x.ndim)
        for i in axes:
            if x.shape[i] != 1:
                raise ArgumentError(f"squeeze: axis {i} of an array of shape {x.shape} has size {x.shape[i]}, not 1")
    return structure.squeeze(x, axes) if axes else x


def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one axis.

    >>> import functad.numpy as jnp
    >>> jnp.atleast_1d(2)
    Array([2], dtype=int32, weak_type=True)
    """
    return _each([x if x.ndim else reshape_to(x, (1,)) for x in map(asarray, arys)])


def atleast_2d(*arys: Any) -> Array:
    """Arrays with at least two axes; a vector becomes a row.

    >>> import functad.numpy as jnp
    >>> jnp.atleast_2d(jnp.array([1, 2]))
    Array([[1, 2]], dtype=int32)
    """
    return _each([x if x.ndim >= 2 else reshape_to(x, (1, x.size)) for x in map(asarray, arys)])


def atleast_3d(*arys: Any) -> Array:
    """Arrays with at least three axes.

    >>> import functad.numpy as jnp
    >>> jnp.atleast_3d(jnp.array([1, 2])).shape
    (1, 2, 1)
    """
    results = []
    for x in map(asarray, arys):
        new = {0: (1, 1, 1), 1: (1, x.size, 1), 2: (*x.shape, 1)}.get(x.ndim, x.shape)
        results.append(reshape_to(x, new))
    return _each(results)


def _each(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else results


def broadcast_to(array: Any, shape: Any) -> Array:  # noqa: A002
    """Repeat an array to a shape that it broadcasts to.

    >>> import functad.numpy as jnp
    >>> jnp.broadcast_to(jnp.array([1, 2]), (2, 2))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    x, wanted = as_array("broadcast_to", array), canonical_shape("broadcast_to", shape)
    if x.ndim > len(wanted) or any(n not in (1, m) for n, m in zip(x.shape[::-1], wanted[::-1])):
        raise ShapeError(
            f"broadcast_to: an array of shape {x.shape} does not broadcast to {wanted}: counted from the last, "
            "each of its sizes must be 1 or the wanted one"
        )
    return broadcast_operand(x, wanted)


def broadcast_arrays(*args: Any) -> list[Array]:
    """Arrays repeated to their joint shape.

    >>> import functad.numpy as jnp
    >>> jnp.broadcast_arrays(jnp.array([1, 2]), 3)
    [Array([1, 2], dtype=int32), Array([3, 3], dtype=int32, weak_type=True)]
    """
    arrays = [asarray(a) for a in args]
    joint = joint_shape("broadcast_arrays", [x.shape for x in arrays])
    return [broadcast_operand(x, joint) for x in arrays]


def slice_axis(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """x[start:stop:step] along one axis, all bounds inside it."""
    return x if (start, stop, step) == (0, x.shape[axis], 1) else slice_along(x, axis, start, stop, step)


# --- repeating --------------------------------------------------------------------------------------


def tile(A: Any, reps: Any) -> Array:
    """Repeat a whole array along its axes (and new ones in front).

    >>> import functad.numpy as jnp
    >>> jnp.tile(jnp.array([1, 2]), 2)
    Array([1, 2, 1, 2], dtype=int32)
    """
    x = as_array("tile", A)
    counts = canonical_shape("tile", reps)
    rank = max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    return joining.tile(structure.expand_dims(x, range(rank - x.ndim)), counts)


def resize(a: Any, new_shape: Any) -> Array:
    """An array of another size, filled with the elements of `a` over and over.

    >>> import functad.numpy as jnp
    >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int32)
    """
    x, wanted = ravel(a), canonical_shape("resize", new_shape)
    count = math.prod(wanted)
    if x.size == 0:
        if count:
            raise ArgumentError(f"resize: an empty array has no elements to fill shape {wanted} with")
        return reshape_to(x, wanted)
    repeats = -(-count // x.size)
    return reshape_to(slice_axis(tile(x, repeats), 0, 0, count), wanted)


# --- reversing and rotating -------------------------------------------------------------------------


def flip(m: Any, axis: Any = None) -> Array:
    """Reverse the order of the elements along some axes, by default along all.

    >>> import functad.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    x = as_array("flip", m)
    axes = canonical_axes("flip", axis, x.ndim)
    return structure.rev(x, axes) if axes else x


def flipud(m: Any) -> Array:
    """Reverse the first axis.

    >>> import functad.numpy as jnp
    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return flip(m, 0)


def fliplr(m: Any) -> Array:
    """Reverse the second axis.

    >>> import functad.numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Rotate by k quarter turns, from the first of two axes towards the second.

    >>> import functad.numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = as_array("rot90", m)
    if len(axes) != 2:
        raise ArgumentError(f"rot90: axes={tuple(axes)} must name two axes")
    first, second = canonical_axes("rot90", tuple(axes), x.ndim)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    if turns == 2:
        return flip(x, (first, second))
    return flip(swapaxes(x, first, second), second)


def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """Move elements along axes; what leaves at the end comes back at the beginning.

    >>> import functad.numpy as jnp
    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    x = as_array("roll", a)
    if axis is None:
        return reshape_to(roll(ravel(x), shift, 0), x.shape)
    axes = listed(axis)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) == 1:
        shifts = tuple(shifts) * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    for amount, one in zip(shifts, axes):
        index = canonical_axis("roll", one, x.ndim)
        length = x.shape[index]
        if isinstance(amount, Tracer):
            x = _roll_traced(x, amount, index)
            continue
        places = int(amount) % length if length else 0
        if places:
            tail, head = (
                slice_axis(x, index, length - places, length),
                slice_axis(x, index, 0, length - places),
            )
            x = joining.concatenate([tail, head], index)
    return x


def _roll_traced(x: Any, shift: Any, axis: int) -> Any:
    shift = el.wide_indices(shift, 2 * x.shape[axis])
    positions = (structure.iota(shift.dtype, (x.shape[axis],), 0) - shift) % max(x.shape[axis], 1)
    return x[(slice(None),) * axis + (positions,)]
