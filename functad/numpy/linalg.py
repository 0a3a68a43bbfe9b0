"""Linear algebra without decompositions: norms, and products of matrices and vectors under the names NumPy gives them.

Knows the functions of `linear` and the reductions; `numpy.linalg` of functad values is passed on to here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.absent import absent
from functad.errors import ArgumentError, ShapeError, UnsupportedNumpyError
from functad.numpy import arithmetic, creation, linear, logic, manipulation, reductions, ufuncs
from functad.numpy.building import as_array
from functad.numpy.promotion import canonical_axes, convert, promote_args_inexact

# --- norms ------------------------------------------------------------------------------------------


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """The norm of vectors or matrices.

    Args:
        x: array of numbers.
        ord: of vectors a number, infinities and 0 (how many are not zero) included, by default 2; of matrices
            "fro" (the default), 1, -1, inf or -inf.
        axis: an axis for vectors, a pair of them for matrices; by default all: of any rank without `ord`.
        keepdims: keep the axes, with size 1.

    Raises:
        UnsupportedNumpyError: a matrix norm that needs singular values (2, -2, "nuc").

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
    squares = ufuncs.real(arithmetic.multiply(v, ufuncs.conj(v))) if v.dtype.kind == "c" else arithmetic.square(v)
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
        raise UnsupportedNumpyError(
            f"linalg.norm: ord={ord!r} of matrices needs singular values, which functad does not compute; "
            "use 'fro', 1 or inf, or give axis= for norms of vectors"
        )
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(f"linalg.norm: ord={ord!r} is no norm of matrices; it must be 'fro', 1, -1, inf or -inf")
    added, compared = axes if ord in (1, -1) else axes[::-1]
    sums = reductions.sum(arithmetic.absolute(v), axis=added, keepdims=True)
    if ord > 0:
        result = reductions.max(sums, axis=compared, keepdims=True, initial=0)
    else:
        result = reductions.min(sums, axis=compared, keepdims=True)
    return result if keepdims else manipulation.squeeze(result, axes)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:  # noqa: A002
    """The norm of the vectors along axes, by default of all elements as one vector."""
    (v,) = promote_args_inexact("linalg.vector_norm", as_array("linalg.vector_norm", x))
    return _vector_norm(v, ord, canonical_axes("linalg.vector_norm", axis, v.ndim), keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:  # noqa: A002
    """The norm of the matrices in the last two axes."""
    return norm(_matrices("matrix_norm", x), ord, (-2, -1), keepdims)


# --- products ---------------------------------------------------------------------------------------


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of two or more matrices, in the order that costs the fewest multiplications.

    The first may be a row and the last a column vector.
    """
    factors = [as_array("linalg.multi_dot", a) for a in arrays]
    if len(factors) < 2:
        raise ArgumentError(f"linalg.multi_dot takes at least two arrays, got {len(factors)}")
    for i, factor in enumerate(factors):
        if factor.ndim != 2 and not (factor.ndim == 1 and i in (0, len(factors) - 1)):
            raise ShapeError(
                f"linalg.multi_dot: array {i} has shape {factor.shape}; all are matrices, the first and last perhaps "
                "vectors"
            )
    return _product(factors, _best_splits(factors), 0, len(factors) - 1)


def _best_splits(factors: Sequence[Any]) -> dict[tuple[int, int], int]:
    """Where to split the product of factors first to last into two, for every first and last."""
    first, last = factors[0], factors[-1]
    sizes = [first.shape[0] if first.ndim == 2 else 1, *(f.shape[0] for f in factors[1:])]
    sizes.append(last.shape[1] if last.ndim == 2 else 1)
    cost = {(i, i): 0 for i in range(len(factors))}
    splits = {}
    for length in range(1, len(factors)):
        for i in range(len(factors) - length):
            j = i + length
            cost[i, j], splits[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return splits


def _product(factors: Sequence[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return factors[i]
    split = splits[i, j]
    return linear.dot(_product(factors, splits, i, split), _product(factors, splits, split + 1, j))


def matrix_power(a: Any, n: int) -> Any:
    """The n-th power of square matrices; n is not negative."""
    x = _matrices("matrix_power", a)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"linalg.matrix_power takes square matrices, got shape {x.shape}")
    if not isinstance(n, (int, np.integer)):
        raise ArgumentError(f"linalg.matrix_power: n must be an integer, got {n!r}")
    if n < 0:
        raise UnsupportedNumpyError(f"linalg.matrix_power: n={n} needs an inverse, which functad does not compute")
    if n == 0:
        return manipulation.broadcast_to(creation.eye(x.shape[-1], dtype=x.dtype), x.shape)
    result, square, rest = None, x, int(n)
    while True:
        if rest % 2:
            result = square if result is None else linear.matmul(result, square)
        rest //= 2
        if not rest:
            return result
        square = linear.matmul(square, square)


def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product of matrices, or of stacks of them."""
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of an element of one vector with one of another, as a matrix."""
    x, y = as_array("linalg.outer", x1), as_array("linalg.outer", x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"linalg.outer takes vectors, got shapes {x.shape} and {y.shape}; use ravel")
    return linear.outer(x, y)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector product of vectors of three components along an axis."""
    x, y = as_array("linalg.cross", x1), as_array("linalg.cross", x2)
    for v in (x, y):
        (place,) = canonical_axes("linalg.cross", axis, v.ndim)
        if v.shape[place] != 3:
            raise ShapeError(f"linalg.cross takes vectors of three components, got shapes {x.shape} and {y.shape}")
    return linear.cross(x, y, axis=axis)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """The product over several axes; see `functad.numpy.tensordot`."""
    return linear.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Inner products of the vectors along one axis; those of `x1` conjugated."""
    return linear.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


# --- parts of matrices ------------------------------------------------------------------------------


def matrix_transpose(x: Any, /) -> Any:
    """The matrices in the last two axes, transposed."""
    return manipulation.matrix_transpose(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of the matrices in the last two axes."""
    return linear.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    return linear.trace(x, offset, -2, -1, dtype)


def _matrices(name: str, x: Any) -> Any:
    v = as_array(f"linalg.{name}", x)
    if v.ndim < 2:
        raise ShapeError(f"linalg.{name} takes matrices, got shape {v.shape}")
    return v


__getattr__ = absent(__name__)
