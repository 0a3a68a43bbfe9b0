"""Products of vectors, matrices and tensors, and diagonals.

Knows promotion and `dot_general`; index notation is in `einsum`, decompositions are elsewhere.

Shapes:
    The axes that are summed are dropped, and leading axes broadcast: (..., n, k) times (..., k, m) gives (..., n, m).

Raises:
    ShapeError: the axes that are summed differ in size, or an array has too few axes.
    AxisError: an array has no such axis.
    ArgumentError: axes that make no sense together, such as one named twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import Array, ArrayImpl
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import arithmetic, concatenation, manipulation, reductions
from functad.numpy.building import as_array, filled, refuse_out, scalar, select
from functad.numpy.indexing import getitem
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axes,
    canonical_dtype,
    joint_shape,
    promote_dtypes,
)
from functad.primitives import contraction, structure
from functad.primitives import elementwise as el
from functad.primitives.common import reshape as reshape_to
from functad.primitives.product_precision import precision_word

__all__ = [
    "cross",
    "diag",
    "diagflat",
    "diagonal",
    "dot",
    "fill_diagonal",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]

# --- matrix products --------------------------------------------------------------------------------


def dot_general(
    lhs: Any,
    rhs: Any,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    preferred_element_type: Any = None,
    precision: Any = None,
) -> Array:
    """Contract operands of one dtype; the result has batch axes, then the rest of lhs, then that of rhs."""
    wanted = canonical_dtype(preferred_element_type) or lhs.dtype
    return contraction.dot_general(lhs, rhs, (contract, batch), wanted, precision_word(precision))


def _operands(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    x, y = promote_dtypes(as_array(name, a), as_array(name, b))
    return x, y


def matmul(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The matrix product `a @ b`, of stacks of matrices where there are more axes.

    Args:
        a: array of shape (..., n, k) or (k,).
        b: array of shape (..., k, m) or (k,).
        precision: as in `functad.lax.dot_general`.
        preferred_element_type: the dtype of the result.

    >>> import functad.numpy as jnp
    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x, y = _operands("matmul", a, b)
    left, right = x.shape, y.shape
    if not left or not right:
        raise ShapeError(f"matmul takes arrays with axes, got shapes {left} and {right}; use * for scalars")
    if left[-1] != right[-2 if len(right) > 1 else 0]:
        raise ShapeError(
            f"matmul: shapes {left} and {right} do not fit: the last axis of the first has size {left[-1]}, the "
            f"{'second to last' if len(right) > 1 else 'only'} axis of the second {right[-2 if len(right) > 1 else 0]}"
        )
    if len(right) <= 2:
        return dot_general(x, y, ((len(left) - 1,), (0,)), ((), ()), preferred_element_type, precision)
    return _stacked_matmul(x, y, preferred_element_type, precision)


def _stacked_matmul(x: Any, y: Any, preferred_element_type: Any, precision: Any) -> Any:
    x_row, y_column = x.ndim == 1, y.ndim == 1
    x = structure.expand_dims(x, (0,)) if x_row else x
    y = structure.expand_dims(y, (1,)) if y_column else y
    stack = joint_shape("matmul", [x.shape[:-2], y.shape[:-2]])
    x = broadcast_operand(x, stack + x.shape[-2:])
    y = broadcast_operand(y, stack + y.shape[-2:])
    rank = len(stack)
    axes = tuple(range(rank))
    result = dot_general(x, y, ((rank + 1,), (rank,)), (axes, axes), preferred_element_type, precision)
    dropped = ((rank,) if x_row else ()) + ((rank + 1,) if y_column else ())
    return structure.squeeze(result, dropped)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The product over the last axis of `a` and the second to last (or only) of `b`; of scalars, their product.

    >>> import functad.numpy as jnp
    >>> jnp.dot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = _operands("dot", a, b)
    if not x.ndim or not y.ndim:
        return arithmetic.multiply(x, y)
    contracted = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[contracted]:
        raise ShapeError(
            f"dot: shapes {x.shape} and {y.shape} do not fit: axis {x.ndim - 1} of the first has size {x.shape[-1]}, "
            f"axis {contracted} of the second {y.shape[contracted]}"
        )
    return dot_general(x, y, ((x.ndim - 1,), (contracted,)), ((), ()), preferred_element_type, precision)


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The inner product of all elements; those of `a` conjugated.

    >>> import functad.numpy as jnp
    >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 2]))
    Array(5.+0.j, dtype=complex64)
    """
    x, y = _operands("vdot", a, b)
    x = el.conj(x) if kind_of(x.dtype) == "c" else x
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    return dot(manipulation.ravel(x), manipulation.ravel(y), **options)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Inner products of the vectors along one axis; those of `x1` conjugated.

    >>> import functad.numpy as jnp
    >>> jnp.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = _operands("vecdot", x1, x2)
    x, y = manipulation.moveaxis(x, axis, -1), manipulation.moveaxis(y, axis, -1)
    x = el.conj(x) if kind_of(x.dtype) == "c" else x
    product = matmul(
        structure.expand_dims(x, (x.ndim - 1,)),
        structure.expand_dims(y, (y.ndim,)),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    return structure.squeeze(product, (product.ndim - 2, product.ndim - 1))


def matvec(x1: Any, x2: Any, /) -> Array:
    """Products of matrices (..., n, k) and vectors (..., k).

    >>> import functad.numpy as jnp
    >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = _operands("matvec", x1, x2)
    product = matmul(x, structure.expand_dims(y, (y.ndim,)))
    return structure.squeeze(product, (product.ndim - 1,))


def vecmat(x1: Any, x2: Any, /) -> Array:
    """Products of vectors (..., n), conjugated, and matrices (..., n, k).

    >>> import functad.numpy as jnp
    >>> jnp.vecmat(jnp.array([1, 1]), jnp.array([[1, 2], [3, 4]]))
    Array([4, 6], dtype=int32)
    """
    x, y = _operands("vecmat", x1, x2)
    x = el.conj(x) if kind_of(x.dtype) == "c" else x
    product = matmul(structure.expand_dims(x, (x.ndim - 1,)), y)
    return structure.squeeze(product, (product.ndim - 2,))


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The product over the last axes of both.

    >>> import functad.numpy as jnp
    >>> jnp.inner(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = _operands("inner", a, b)
    if not x.ndim or not y.ndim:
        return arithmetic.multiply(x, y)
    return tensordot(x, y, ((-1,), (-1,)), precision=precision, preferred_element_type=preferred_element_type)


@compound
def outer(a: Any, b: Any, out: None = None) -> Array:
    """All products of an element of `a` with one of `b`, as a matrix.

    >>> import functad.numpy as jnp
    >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    refuse_out("outer", out)
    x, y = _operands("outer", a, b)
    x, y = manipulation.ravel(x), manipulation.ravel(y)
    return arithmetic.multiply(structure.expand_dims(x, (1,)), structure.expand_dims(y, (0,)))


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out: None = None,
) -> Array:
    """The product over several axes: the last n of `a` and first n of `b`, or pairs of given axes.

    >>> import functad.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
    (2, 4)
    """
    refuse_out("tensordot", out)
    x, y = _operands("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        if axes > min(x.ndim, y.ndim) or axes < 0:
            raise ArgumentError(f"tensordot: axes={axes} is too many for arrays of shapes {x.shape} and {y.shape}")
        pairs = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        left, right = axes
        pairs = canonical_axes("tensordot", left, x.ndim), canonical_axes("tensordot", right, y.ndim)
    sizes = [tuple(v.shape[i] for i in p) for v, p in zip((x, y), pairs)]
    if sizes[0] != sizes[1]:
        raise ShapeError(
            f"tensordot: axes {pairs[0]} of an array of shape {x.shape} have the sizes {sizes[0]}, but "
            f"axes {pairs[1]} of one of shape {y.shape} have {sizes[1]}"
        )
    return dot_general(x, y, pairs, ((), ()), preferred_element_type, precision)


def kron(a: Any, b: Any) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`.

    >>> import functad.numpy as jnp
    >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = _operands("kron", a, b)
    rank = max(x.ndim, y.ndim)
    x = reshape_to(x, (1,) * (rank - x.ndim) + x.shape)
    y = reshape_to(y, (1,) * (rank - y.ndim) + y.shape)
    product = arithmetic.multiply(
        structure.expand_dims(x, tuple(range(1, 2 * rank, 2))),
        structure.expand_dims(y, tuple(range(0, 2 * rank, 2))),
    )
    return reshape_to(product, tuple(n * m for n, m in zip(x.shape, y.shape)))


@compound
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The vector product of vectors of two or three components along an axis.

    >>> import functad.numpy as jnp
    >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _operands("cross", a, b)
    x, y = manipulation.moveaxis(x, axisa, -1), manipulation.moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(f"cross takes vectors of two or three components, got {x.shape[-1]} and {y.shape[-1]}")
    xs, ys = ([v[..., i] for i in range(v.shape[-1])] for v in (x, y))
    if len(xs) == len(ys) == 2:
        return xs[0] * ys[1] - xs[1] * ys[0]
    xs += [scalar(x, 0)] * (3 - len(xs))
    ys += [scalar(y, 0)] * (3 - len(ys))
    parts = [xs[1] * ys[2] - xs[2] * ys[1], xs[2] * ys[0] - xs[0] * ys[2], xs[0] * ys[1] - xs[1] * ys[0]]
    shape = joint_shape("cross", [x.shape[:-1], y.shape[:-1]])
    return concatenation.stack([broadcast_operand(p, shape) for p in parts], axisc)


# --- diagonals --------------------------------------------------------------------------------------


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements of a diagonal of two axes, along a new last axis.

    >>> import functad.numpy as jnp
    >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    x = as_array("diagonal", a)
    if x.ndim < 2:
        raise ArgumentError(f"diagonal takes at least two axes, got shape {x.shape}")
    x = manipulation.moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    steps = np.arange(length, dtype=np.int32)
    return getitem(x, (..., steps - min(offset, 0), steps + max(offset, 0)))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Array:
    """The sum of the elements of a diagonal.

    >>> import functad.numpy as jnp
    >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return reductions.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


def diag(v: Any, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal and zeros elsewhere.

    >>> import functad.numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    x = as_array("diag", v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ArgumentError(f"diag takes a vector or a matrix, got shape {x.shape}")
    size = x.shape[0] + abs(k)
    row = structure.pad(x, scalar(x, 0), [(max(k, 0), max(-k, 0), 0)])
    spread = broadcast_operand(row, (size, size))
    on_diagonal = np.eye(size, k=k, dtype=bool)
    return select(ArrayImpl(on_diagonal), spread, filled(scalar(x, 0), (size, size)))


def diagflat(v: Any, k: int = 0) -> Array:
    """The matrix with all elements of an array on its k-th diagonal.

    >>> import functad.numpy as jnp
    >>> jnp.diagflat(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    return diag(manipulation.ravel(v), k)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array:
    """A copy of an array whose main diagonal is replaced; `inplace=False` says that it is one.

    >>> import functad.numpy as jnp
    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 1, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if inplace:
        raise ArgumentError(
            "fill_diagonal: arrays are immutable; write x = functad.numpy.fill_diagonal(x, value, inplace=False)"
        )
    x = as_array("fill_diagonal", a)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ArgumentError(f"fill_diagonal takes a matrix or an array of equal sizes, got shape {x.shape}")
    if wrap and x.ndim == 2:
        steps = np.arange(0, x.size, x.shape[1] + 1)
        index: tuple[Any, ...] = tuple(np.unravel_index(steps, x.shape))
    else:
        index = (np.arange(min(x.shape), dtype=np.int32),) * x.ndim
    values = asarray(val)
    count = len(index[0])
    if values.ndim:
        values = manipulation.resize(values, (count,))
    return x.at[index].set(values)
