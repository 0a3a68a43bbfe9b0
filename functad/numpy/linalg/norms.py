"""Norms of vectors and matrices, and what singular values tell: condition and rank.

Knows reductions, and the singular values of `factorisations`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import arithmetic, complex_parts, logic, manipulation, reductions, selecting, ufuncs
from functad.numpy.building import as_array
from functad.numpy.linalg.extreme_singular_values import LARGEST, LEAST, singular_value
from functad.numpy.linalg.factorisations import matrices, square, svd, svdvals
from functad.numpy.linalg.polar import nuclear_norm
from functad.numpy.linalg.systems import inv
from functad.numpy.promotion import canonical_axes, convert, promote_args_inexact


@compound
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:  # noqa: A002
    """The norm of vectors or matrices.

    Args:
        x: array of numbers.
        ord: of vectors a number, infinities and 0 (how many are not zero) included, by default 2; of matrices
            "fro" (the default), 1, -1, inf or -inf, and of singular values the largest (2), least (-2) or sum ("nuc").
        axis: an axis for vectors, a pair of them for matrices; by default all: of any rank without `ord`.
        keepdims: keep the axes, with size 1.

    Raises:
        ShapeError: a norm by `ord` of an array of more than two axes needs `axis`.
        ArgumentError: there is no such norm.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.norm(jnp.array([3., 4.]))
    Array(5., dtype=float32)
    """
    (v,) = promote_args_inexact("linalg.norm", as_array("linalg.norm", x))
    if axis is None:
        axes: tuple[int, ...] = tuple(range(v.ndim))
        if ord is not None and v.ndim not in (1, 2):
            raise ShapeError(
                f"linalg.norm with ord={ord!r} takes a vector or a matrix, got shape {v.shape}; give axis="
            )
    else:
        axes = canonical_axes("linalg.norm", axis, v.ndim)
        if len(axes) not in (1, 2):
            raise ArgumentError(f"linalg.norm: axis must be one axis, or a pair of them, got {axis!r}")
    if ord is None or (len(axes) == 2 and ord in ("f", "fro")):
        return _euclidean(v, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(v, ord, axes, keepdims)
    return _matrix_norm(v, ord, axes, keepdims)


def _euclidean(v: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    squares = (
        complex_parts.real(arithmetic.multiply(v, complex_parts.conj(v)))
        if kind_of(v.dtype) == "c"
        else arithmetic.square(v)
    )
    return ufuncs.sqrt(reductions.sum(squares, axis=axes, keepdims=keepdims))


def _vector_norm(v: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:  # noqa: A002
    if isinstance(ord, str):
        raise ArgumentError(f"linalg.norm: ord={ord!r} is no norm of vectors; give a number, or the axes of matrices")
    if ord == 2:
        return _euclidean(v, axes, keepdims)
    size = arithmetic.absolute(v)
    if ord == np.inf:
        return reductions.max(size, axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return reductions.min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return reductions.sum(convert(logic.not_equal(v, 0), size.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(size, axis=axes, keepdims=keepdims)
    total = reductions.sum(arithmetic.power(size, ord), axis=axes, keepdims=keepdims)
    return arithmetic.power(total, 1.0 / ord)


def _matrix_norm(v: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:  # noqa: A002
    if ord in (2, -2, "nuc"):
        v = manipulation.moveaxis(v, axes, (-2, -1))
        if ord == "nuc":
            result = nuclear_norm(v)
        elif 0 in v.shape[-2:]:
            values = svdvals(v)
            result = reductions.max(values, axis=-1, initial=0) if ord == 2 else reductions.min(values, axis=-1)
        else:
            result = arithmetic.maximum(singular_value(v, LARGEST), 0) if ord == 2 else singular_value(v, LEAST)
        return manipulation.expand_dims(result, axes) if keepdims else result
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(
            f"linalg.norm: ord={ord!r} is no norm of matrices; it must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    added, compared = axes if ord in (1, -1) else axes[::-1]
    sums = reductions.sum(arithmetic.absolute(v), axis=added, keepdims=True)
    if ord > 0:
        result = reductions.max(sums, axis=compared, keepdims=True, initial=0)
    else:
        result = reductions.min(sums, axis=compared, keepdims=True)
    return result if keepdims else manipulation.squeeze(result, axes)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:  # noqa: A002
    """The norm of the vectors along axes, by default of all elements as one vector.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.vector_norm(jnp.array([[3., 4.], [6., 8.]]), axis=1)
    Array([ 5., 10.], dtype=float32)
    """
    (v,) = promote_args_inexact("linalg.vector_norm", as_array("linalg.vector_norm", x))
    return _vector_norm(v, ord, canonical_axes("linalg.vector_norm", axis, v.ndim), keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:  # noqa: A002
    """The norm of the matrices in the last two axes; `ord` as for `norm`.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.matrix_norm(jnp.array([[3., 0.], [0., 4.]]), ord=2)
    Array(4., dtype=float32)
    """
    return norm(matrices("matrix_norm", x), ord, (-2, -1), keepdims)


def cond(x: Any, p: Any = None) -> Array:
    """How much solutions of systems with a matrix change, at most, relative to their right-hand sides.

    Args:
        x: array of shape (..., m, n); square unless p is None, 2 or -2.
        p: the norm, as `ord` of `norm`; by default 2: the largest singular value divided by the least.

    Where several singular values are the largest, or the least, there is no derivative. The gradient is that with the
    mean of all their vectors, as that of `norm` is: 0 where all are equal. JAX's is that with the first, or the last,
    of the vectors that LAPACK happens to give.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.cond(jnp.array([[2., 0.], [0., 8.]]))
    Array(4., dtype=float32)
    """
    v = matrices("cond", x)
    if 0 in v.shape[-2:]:
        raise ShapeError(f"linalg.cond takes matrices with elements, got shape {v.shape}")
    if p is None or p in (2, -2):
        first, last = singular_value(v, LARGEST), singular_value(v, LEAST)
        result = arithmetic.divide(first, last) if p != -2 else arithmetic.divide(last, first)
        if p is None or p == 2:
            return result
    else:
        result = arithmetic.multiply(norm(v, p, (-2, -1)), norm(inv(square("cond", v)), p, (-2, -1)))
    known = logic.logical_not(reductions.any(logic.isnan(v), axis=(-2, -1)))
    return selecting.where(logic.logical_and(logic.isnan(result), known), np.inf, result)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Array:  # noqa: N803
    """How many singular values of matrices are not nearly zero.

    Args:
        M: array of shape (..., m, n); one with fewer axes has rank 1 unless it is zero.
        rtol: a singular value counts above this; by default above the largest times max(m, n) times the precision.
        hermitian: the matrices are Hermitian, and one triangle is read.
        tol: another name of `rtol`.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.matrix_rank(jnp.array([[1., 2.], [2., 4.]]))
    Array(1, dtype=int32)
    """
    if tol is not None and rtol is not None:
        raise ArgumentError("linalg.matrix_rank takes rtol or tol, which is its other name, but was given both")
    (v,) = promote_args_inexact("linalg.matrix_rank", as_array("linalg.matrix_rank", M))
    if v.ndim < 2:
        return convert(reductions.any(logic.not_equal(v, 0)), np.dtype(np.int32))
    values = svd(v, compute_uv=False, hermitian=hermitian)
    limit = tol if rtol is None else rtol
    if limit is None:
        largest = reductions.max(values, axis=-1, initial=0)
        limit = arithmetic.multiply(largest, max(v.shape[-2:]) * float(finfo(values.dtype).eps))
    limit = as_array("linalg.matrix_rank", limit)
    return reductions.sum(logic.greater(values, manipulation.expand_dims(limit, -1)), axis=-1)
