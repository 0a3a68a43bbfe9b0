"""Matrices of simple structure: the identity, triangles, Vandermonde's; and the indices of their parts.

Knows promotion and a few primitives.

Args:
    k: the diagonal: 0 the main one, those above it positive.
    N: how many columns.
    M: how many numbers.

Shapes:
    The result has the sizes that are asked for; triangles keep the shape (..., m, n) of the array.

Raises:
    ArgumentError: a size is negative or no integer, or an array is no matrix where one is needed.
    TooLargeError: there would be more elements than an array can have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.eager import outside_traces
from functad.errors import ArgumentError
from functad.numpy import arithmetic
from functad.numpy.building import as_array, scalar, select
from functad.numpy.creation import arange, known_count, ones
from functad.numpy.promotion import (
    broadcast_operand,
    canonical_dtype,
    canonical_shape,
    convert,
    on_wanted_device,
)
from functad.primitives import elementwise as el
from functad.primitives import structure

__all__ = [
    "diag_indices",
    "diag_indices_from",
    "eye",
    "identity",
    "mask_indices",
    "tri",
    "tril",
    "tril_indices",
    "tril_indices_from",
    "triu",
    "triu_indices",
    "triu_indices_from",
    "vander",
]


def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Array:
    """A matrix with ones on its k-th diagonal.

    >>> import functad.numpy as jnp
    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    sizes = canonical_shape("eye", (N, N if M is None else M))
    wanted = canonical_dtype(dtype) or dtypes.default_float_dtype()
    return on_wanted_device(convert(_diagonal_mask(sizes, k, el.eq), wanted), device)


def identity(n: Any, dtype: Any = None) -> Array:
    """The identity matrix of size n.

    >>> import functad.numpy as jnp
    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def _diagonal_mask(sizes: tuple[int, ...], k: int, compare: Callable[[Any, Any], Any]) -> Any:
    """Compare row + k with column."""
    k = max(-sizes[0], min(int(k), sizes[1]))
    rows = structure.iota(dtypes.int32, sizes, 0)
    columns = structure.iota(dtypes.int32, sizes, 1)
    return compare(el.add(rows, np.int32(k)), columns)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Array:
    """A matrix with ones on and below its k-th diagonal.

    >>> import functad.numpy as jnp
    >>> jnp.tri(2)
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    sizes = canonical_shape("tri", (N, N if M is None else M))
    return convert(_diagonal_mask(sizes, k, el.ge), canonical_dtype(dtype) or dtypes.default_float_dtype())


def tril(m: Any, k: int = 0) -> Array:
    """The lower triangle of a matrix (or stack of them); above its k-th diagonal are zeros.

    >>> import functad.numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, lower=True)


def triu(m: Any, k: int = 0) -> Array:
    """The upper triangle of a matrix (or stack of them); below its k-th diagonal are zeros.

    >>> import functad.numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k - 1, lower=False)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    x = as_array(name, m)
    if x.ndim < 2:
        raise ArgumentError(f"{name} takes a matrix or a stack of them, got shape {x.shape}")
    mask = broadcast_operand(_diagonal_mask(x.shape[-2:], k, el.ge), x.shape)
    zero = scalar(x, 0)
    return select(mask, x, zero) if lower else select(mask, zero, x)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The rows and columns of the lower triangle of an n×m matrix.

    >>> import functad.numpy as jnp
    >>> jnp.tril_indices(2)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = np.tril_indices(n, k, m)
    return _index_array(rows), _index_array(columns)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The rows and columns of the upper triangle of an n×m matrix.

    >>> import functad.numpy as jnp
    >>> jnp.triu_indices(2)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = np.triu_indices(n, k, m)
    return _index_array(rows), _index_array(columns)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """`tril_indices` for the shape of a matrix.

    >>> import functad.numpy as jnp
    >>> jnp.tril_indices_from(jnp.ones((2, 2)))
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("tril_indices_from", arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """`triu_indices` for the shape of a matrix.

    >>> import functad.numpy as jnp
    >>> jnp.triu_indices_from(jnp.ones((2, 2)))
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = _matrix_shape("triu_indices_from", arr)
    return triu_indices(rows, k, columns)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of size n.

    >>> import functad.numpy as jnp
    >>> jnp.diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    return (arange(n),) * ndim


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """`diag_indices` for the shape of an array.

    >>> import functad.numpy as jnp
    >>> jnp.diag_indices_from(jnp.ones((2, 2)))
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    shape = as_array("diag_indices_from", arr).shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ArgumentError(f"diag_indices_from takes an array of equal sizes, got shape {shape}")
    return diag_indices(shape[0], len(shape))


def mask_indices(
    n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *, size: int | None = None
) -> tuple[Any, Any]:
    """The rows and columns that a function such as `triu` leaves of an n×n matrix.

    size: so many of them, filled up with 0.

    >>> import functad.numpy as jnp
    >>> jnp.mask_indices(2, jnp.tril)
    (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    with outside_traces():  # it depends on no argument that may be traced
        rows, columns = np.nonzero(np.asarray(mask_func(ones((n, n)), k)))
    if size is not None:
        rows, columns = (np.pad(i[:size], (0, max(size - len(i), 0))) for i in (rows, columns))
    return _index_array(rows), _index_array(columns)


def _matrix_shape(name: str, arr: Any) -> tuple[int, ...]:
    shape = as_array(name, arr).shape
    if len(shape) != 2:
        raise ArgumentError(f"{name} takes a matrix, got shape {shape}")
    return shape


def _index_array(values: np.ndarray) -> ArrayImpl:
    return ArrayImpl(values.astype(dtypes.default_int_dtype()))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of a vector.

    >>> import functad.numpy as jnp
    >>> jnp.vander(jnp.array([1, 2, 3]))
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    v = as_array("vander", x)
    if v.ndim != 1:
        raise ArgumentError(f"vander takes a vector, got shape {v.shape}")
    count = v.size if N is None else known_count("vander", N)
    exponents = structure.iota(dtypes.default_int_dtype(), (count,), 0)
    if not increasing:
        exponents = el.sub(exponents.dtype.type(count - 1), exponents)
    return arithmetic.power(structure.expand_dims(v, (1,)), structure.expand_dims(exponents, (0,)))
