"""Functions that rearrange elements: reshaping, joining, splitting, repeating, reversing.

Knows promotion and the structural primitives; padding is in `padding`, indexing in `indexing`.
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
    canonical_dtype,
    canonical_shape,
    constant,
    convert,
    joint_shape,
    listed,
    promote_dtypes,
)
from functad.primitives import elementwise as el
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim
from functad.primitives.common import reshape as reshape_to
from functad.primitives.common import transpose as permute
from functad.tracing import Tracer

__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
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
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "unstack",
    "vsplit",
    "vstack",
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


# --- joining ----------------------------------------------------------------------------------------


def _joined_operands(name: str, arrays: Any, dtype: Any = None) -> list[Any]:
    if not isinstance(arrays, (list, tuple)):
        x = as_array(name, arrays)
        if x.ndim == 0:
            raise ArgumentError(f"{name} takes a sequence of arrays, got one array of rank 0")
        arrays = list(x)
    if len(arrays) == 0:
        raise ArgumentError(f"{name} takes at least one array, got an empty sequence")
    operands = [asarray(a) for a in arrays]
    wanted = canonical_dtype(dtype)
    return promote_dtypes(*operands) if wanted is None else [convert(x, wanted) for x in operands]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Join arrays along an axis they have; with `axis=None` their flattened elements.

    >>> import functad.numpy as jnp
    >>> jnp.concatenate([jnp.zeros(2), jnp.ones(1)])
    Array([0., 0., 1.], dtype=float32)
    """
    operands = _joined_operands("concatenate", arrays, dtype)
    if axis is None:
        operands, axis = [ravel(x) for x in operands], 0
    ranks = {x.ndim for x in operands}
    if ranks == {0}:
        raise ShapeError("concatenate: arrays of rank 0 have no axis to be joined along; use stack")
    index = canonical_axis("concatenate", axis, operands[0].ndim)
    rests = {x.shape[:index] + x.shape[index + 1 :] for x in operands}
    if len(ranks) > 1 or len(rests) > 1:
        raise ShapeError(
            f"concatenate: arrays of shapes {', '.join(str(x.shape) for x in operands)} differ "
            f"in more than axis {index}"
            + ("; x[:, None] has an axis more, and stack joins along a new one" if len(ranks) > 1 else "")
        )
    return joining.concatenate(operands, index)


concat = concatenate


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Join arrays of one shape along a new axis.

    >>> import functad.numpy as jnp
    >>> jnp.stack([jnp.zeros(2), jnp.ones(2)], axis=1)
    Array([[0., 1.],
           [0., 1.]], dtype=float32)
    """
    operands = _joined_operands("stack", arrays, dtype)
    if len({x.shape for x in operands}) > 1:
        raise ShapeError(f"stack: arrays have the different shapes {', '.join(str(x.shape) for x in operands)}")
    index = canonical_axis("stack", axis, operands[0].ndim + 1)
    return joining.stack(operands, index)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the first axis; vectors are rows.

    >>> import functad.numpy as jnp
    >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    return concatenate([atleast_2d(x) for x in _joined_operands("vstack", tup)], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the second axis; vectors along their only one.

    >>> import functad.numpy as jnp
    >>> jnp.hstack([jnp.array([1, 2]), jnp.array([3])])
    Array([1, 2, 3], dtype=int32)
    """
    operands = [atleast_1d(x) for x in _joined_operands("hstack", tup)]
    return concatenate(operands, 0 if operands[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Join along the third axis.

    >>> import functad.numpy as jnp
    >>> jnp.dstack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[[1, 3],
            [2, 4]]], dtype=int32)
    """
    return concatenate([atleast_3d(x) for x in _joined_operands("dstack", tup)], 2, dtype)


def column_stack(tup: Any) -> Array:
    """Join vectors as the columns of a matrix, and matrices along their second axis.

    >>> import functad.numpy as jnp
    >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    operands = _joined_operands("column_stack", tup)
    return concatenate([reshape_to(x, (x.size, 1)) if x.ndim < 2 else x for x in operands], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """Join two arrays, by default their flattened elements.

    >>> import functad.numpy as jnp
    >>> jnp.append(jnp.array([1, 2]), 3)
    Array([1, 2, 3], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def block(arrays: Any) -> Array:
    """Assemble an array of nested lists of blocks: the innermost lists along the last axis.

    >>> import functad.numpy as jnp
    >>> jnp.block([[jnp.eye(1), jnp.zeros((1, 1))], [jnp.ones((1, 2))]])
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    depth = _block_depth(arrays)

    def assemble(part: Any, level: int) -> Any:
        if not isinstance(part, list):
            x = asarray(part)
            return reshape_to(x, (1,) * (depth - x.ndim) + x.shape) if x.ndim < depth else x
        joined = [assemble(p, level - 1) for p in part]
        rank = max(x.ndim for x in joined)
        joined = [reshape_to(x, (1,) * (rank - x.ndim) + x.shape) for x in joined]
        return concatenate(joined, -level)

    return assemble(arrays, depth)


def _block_depth(part: Any) -> int:
    if not isinstance(part, list):
        return 0
    if not part:
        raise ArgumentError("block: a list of blocks is empty")
    depths = {_block_depth(p) for p in part}
    if len(depths) > 1:
        raise ArgumentError("block: the nested lists differ in depth")
    return depths.pop() + 1


# --- splitting --------------------------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an axis into equal parts, or before the given positions.

    >>> import functad.numpy as jnp
    >>> jnp.split(jnp.arange(4), 2)
    [Array([0, 1], dtype=int32), Array([2, 3], dtype=int32)]
    """
    return _split("split", ary, indices_or_sections, axis, equal=True)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """As `split`, but the parts need not be equal: the first ones get the rest.

    >>> import functad.numpy as jnp
    >>> jnp.array_split(jnp.arange(3), 2)
    [Array([0, 1], dtype=int32), Array([2], dtype=int32)]
    """
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


_SPLIT_REWRITE = """Where an array is split decides the shapes of the parts, so it must be known. Instead of
    jnp.split(x, [n])
write
    jnp.where(jnp.arange(len(x)) < n, x, 0)
or mark the argument static: jit(f, static_argnames="n")."""


def _split(name: str, ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    x = as_array(name, ary)
    index = canonical_axis(name, axis, x.ndim)
    length = x.shape[index]
    given = indices_or_sections
    if isinstance(given, (tuple, list)) or np.ndim(given) == 1:
        cuts = [_clamped(int(constant(c, name, _SPLIT_REWRITE)), length) for c in given]
        bounds = [0, *cuts, length]
    else:
        parts = int(constant(given, name, _SPLIT_REWRITE))
        if parts < 1:
            raise ArgumentError(f"{name}: the number of parts must be positive, got {parts}")
        if equal and length % parts:
            raise ShapeError(
                f"{name}: axis {index} of an array of shape {x.shape} does not divide into {parts} equal parts; "
                "use array_split for unequal ones"
            )
        each, rest = divmod(length, parts)
        bounds = [i * each + min(i, rest) for i in range(parts + 1)]
    sizes = [stop - start for start, stop in zip(bounds, bounds[1:])]
    if min(sizes) < 0:  # positions out of order: the parts overlap
        return [slice_axis(x, index, start, max(start, stop)) for start, stop in zip(bounds, bounds[1:])]
    return joining.split(x, sizes, index)


def _clamped(position: int, length: int) -> int:
    position = position + length if position < 0 else position
    return min(max(position, 0), length)


def slice_axis(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Array:
    """x[start:stop:step] along one axis, all bounds inside it."""
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[axis], limits[axis], strides[axis] = start, stop, step
    return structure.slice_(x, starts, limits, None if step == 1 else strides)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the first axis.

    >>> import functad.numpy as jnp
    >>> jnp.vsplit(jnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1, 2]], dtype=int32), Array([[3, 4]], dtype=int32)]
    """
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the second axis, of vectors along their only one.

    >>> import functad.numpy as jnp
    >>> jnp.hsplit(jnp.array([[1, 2], [3, 4]]), 2)
    [Array([[1],
           [3]], dtype=int32), Array([[2],
           [4]], dtype=int32)]
    """
    return split(ary, indices_or_sections, 1 if ndim(ary) > 1 else 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """`split` along the third axis.

    >>> import functad.numpy as jnp
    >>> [part.shape for part in jnp.dsplit(jnp.ones((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along an axis, without that axis.

    >>> import functad.numpy as jnp
    >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = as_array("unstack", x)
    index = canonical_axis("unstack", axis, x.ndim)
    return tuple(joining.unstack(x, index))


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
