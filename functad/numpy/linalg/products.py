"""Products of matrices and vectors under the names that `numpy.linalg` gives them, and parts of matrices.

Knows the functions of `linear`.

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

from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.numpy import linear, manipulation, special_matrices
from functad.numpy.building import as_array
from functad.numpy.linalg.systems import inv
from functad.numpy.promotion import canonical_axes

# --- products ---------------------------------------------------------------------------------------


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Array:
    """The product of two or more matrices, in the order that costs the fewest multiplications.

    The first may be a row and the last a column vector.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones((4, 1))]).shape
    (2, 1)
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
    return _product(factors, _best_splits(factors), 0, len(factors) - 1, precision)


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


def _product(factors: Sequence[Any], splits: dict[tuple[int, int], int], i: int, j: int, precision: Any) -> Any:
    if i == j:
        return factors[i]
    split = splits[i, j]
    parts = [_product(factors, splits, *ends, precision) for ends in ((i, split), (split + 1, j))]
    return linear.dot(*parts, precision=precision)


def matrix_power(a: Any, n: int) -> Array:
    """The n-th power of square matrices; for negative n that of the inverse.

    Args:
        a: array of shape (..., m, m).
        n: an integer.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1., 1.], [0., 1.]]), 3)
    Array([[1., 3.],
           [0., 1.]], dtype=float32)
    """
    x = _matrices("matrix_power", a)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"linalg.matrix_power takes square matrices, got shape {x.shape}")
    if not isinstance(n, (int, np.integer)):
        raise ArgumentError(f"linalg.matrix_power: n must be an integer, got {n!r}")
    if n < 0:
        x, n = inv(x), -n
    if n == 0:
        return manipulation.broadcast_to(special_matrices.eye(x.shape[-1], dtype=x.dtype), x.shape)
    result: Any = None
    square, rest = x, int(n)
    while True:
        if rest % 2:
            result = square if result is None else linear.matmul(result, square)
        rest //= 2
        if not rest:
            return result
        square = linear.matmul(square, square)


def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The product of matrices, or of stacks of them.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1: Any, x2: Any, /) -> Array:
    """All products of an element of one vector with one of another, as a matrix.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x, y = as_array("linalg.outer", x1), as_array("linalg.outer", x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"linalg.outer takes vectors, got shapes {x.shape} and {y.shape}; use ravel")
    return linear.outer(x, y)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The vector product of vectors of three components along an axis.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x, y = as_array("linalg.cross", x1), as_array("linalg.cross", x2)
    for v in (x, y):
        (place,) = canonical_axes("linalg.cross", axis, v.ndim)
        if v.shape[place] != 3:
            raise ShapeError(f"linalg.cross takes vectors of three components, got shapes {x.shape} and {y.shape}")
    return linear.cross(x, y, axis=axis)


def tensordot(
    x1: Any, x2: Any, /, *, axes: Any = 2, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The product over several axes; see `functad.numpy.tensordot`.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    return linear.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Inner products of the vectors along one axis; those of `x1` conjugated.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.vecdot(jnp.array([1, 2]), jnp.array([3, 4]))
    Array(11, dtype=int32)
    """
    return linear.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


# --- parts of matrices ------------------------------------------------------------------------------


def matrix_transpose(x: Any, /) -> Array:
    """The matrices in the last two axes, transposed.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.matrix_transpose(jnp.array([[1, 2], [3, 4]]))
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return manipulation.matrix_transpose(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two axes.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return linear.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of the matrices in the last two axes.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return linear.trace(x, offset, -2, -1, dtype)


def _matrices(name: str, x: Any) -> Any:
    v = as_array(f"linalg.{name}", x)
    if v.ndim < 2:
        raise ShapeError(f"linalg.{name} takes matrices, got shape {v.shape}")
    return v
