"""Arrays joined along an axis, and cut into parts.

Knows promotion and a few primitives.

Args:
    tup, arrays: a sequence of arrays.
    indices_or_sections: the number of parts, or the positions before which the array is cut.
    ary, arr, values: arrays.

Shapes:
    Arrays that are joined have equal sizes but along the axis, and that of the result is their sum; parts of an array
    are cut from it along the axis.

Raises:
    ShapeError: shapes differ besides the axis, or parts cannot be equal.
    AxisError: the arrays have no such axis.
    ArgumentError: there is nothing to join, or the number of parts is not positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.numpy.building import as_array, refuse_out
from functad.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d, ndim, ravel, slice_axis
from functad.numpy.promotion import (
    asarray,
    canonical_axis,
    canonical_dtype,
    concrete_value,
    convert,
    promote_dtypes,
)
from functad.primitives import joining
from functad.primitives.common import reshape as reshape_to

__all__ = [
    "concat",
    "append",
    "array_split",
    "block",
    "column_stack",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]


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
    refuse_out("stack", out)
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
        cuts = [_clamped(int(concrete_value(c, name, _SPLIT_REWRITE)), length) for c in given]
        bounds = [0, *cuts, length]
    else:
        parts = int(concrete_value(given, name, _SPLIT_REWRITE))
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
