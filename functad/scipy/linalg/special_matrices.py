"""Matrices with a pattern: made of vectors, of blocks, or of nothing but their size.

Knows indices: most take element (i, j) from a vector at a place that depends on i and j.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import dtypes
from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy.promotion import promote_args_inexact

# --- of blocks and vectors ----------------------------------------------------------------------------------


def block_diag(*arrs: Any) -> Array:
    """A matrix with matrices along its diagonal, and zeros elsewhere; a vector counts as a row.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.block_diag(jnp.ones((1, 2)), jnp.array([[3.]]))
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    blocks = [jnp.atleast_2d(jnp.asarray(x)) for x in (arrs or (jnp.zeros((1, 0)),))]
    if any(b.ndim != 2 for b in blocks):
        raise ShapeError(f"linalg.block_diag takes matrices, got shapes {[b.shape for b in blocks]}")
    dtype = jnp.result_type(*blocks)
    width, rows, before = sum(b.shape[1] for b in blocks), [], 0
    for b in blocks:
        after = width - before - b.shape[1]
        rows.append(jnp.pad(b.astype(dtype), ((0, 0), (before, after))))
        before += b.shape[1]
    return jnp.concatenate(rows, axis=0)


def _vector(x: Any) -> Any:
    return jnp.atleast_1d(jnp.asarray(x))


def _joined(first: Any, second: Any) -> Any:
    """Vectors one behind another, with one batch of axes in front."""
    batch = jnp.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    parts = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (first, second)]
    return jnp.concatenate([p.astype(jnp.result_type(*parts)) for p in parts], axis=-1)


def toeplitz(c: Any, r: Any = None) -> Array:
    """A matrix that is constant along diagonals.

    Args:
        c: array of shape (..., m): its first column.
        r: array of shape (..., n): its first row, but for its first element, which is c[0]; by default c conjugated.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.toeplitz(jnp.array([1., 2.]), jnp.array([0., 3., 4.]))
    Array([[1., 3., 4.],
           [2., 1., 3.]], dtype=float32)
    """
    column = _vector(c)
    row = jnp.conj(column) if r is None else _vector(r)
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(column[..., ::-1], row[..., 1:])
    return jnp.take(values, m - 1 + np.arange(n) - np.arange(m)[:, None], axis=-1)


def hankel(c: Any, r: Any = None) -> Array:
    """A matrix that is constant along diagonals from the right above to the left below.

    Args:
        c: array of shape (..., m): its first column.
        r: array of shape (..., n): its last row, but for its first element, which is c[-1]; by default zeros.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.hankel(jnp.array([1., 2.]), jnp.array([0., 3., 4.]))
    Array([[1., 2., 3.],
           [2., 3., 4.]], dtype=float32)
    """
    column = jnp.asarray(c)
    row = jnp.zeros_like(column) if r is None else jnp.asarray(r)
    if not column.ndim or not row.ndim:
        raise ShapeError(f"linalg.hankel takes vectors, got shapes {column.shape} and {row.shape}")
    m, n = column.shape[-1], row.shape[-1]
    return jnp.take(_joined(column, row[..., 1:]), np.arange(m)[:, None] + np.arange(n), axis=-1)


def circulant(c: Any) -> Array:
    """The matrix whose columns are a vector of shape (..., n), moved on by one each.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.circulant(jnp.array([1, 2]))
    Array([[1, 2],
           [2, 1]], dtype=int32)
    """
    column = _vector(c)
    n = column.shape[-1]
    return jnp.take(column, (np.arange(n)[:, None] - np.arange(n)) % n, axis=-1)


def companion(a: Any) -> Array:
    """The matrix whose eigenvalues are the roots of a polynomial with coefficients of shape (..., n), n ≥ 2.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _vector(a)
    x = x if kind_of(x.dtype) in "fc" else x.astype(jnp.result_type(x, 1.0))
    if x.shape[-1] < 2:
        raise ShapeError(f"linalg.companion takes at least two coefficients, got shape {x.shape}")
    return _below_first_row(-x[..., 1:] / x[..., :1], jnp.ones(x.shape[-1] - 2, x.dtype))


def leslie(f: Any, s: Any) -> Array:
    """The Leslie matrix: its first row is f, of shape (..., n), the diagonal below the main one s, of (..., n - 1).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.leslie(jnp.array([1., 2.]), jnp.array([0.5]))
    Array([[1. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    births, survival = _vector(f), _vector(s)
    if births.shape[-1] < 2 or survival.shape[-1] != births.shape[-1] - 1:
        raise ShapeError(
            f"linalg.leslie takes vectors of n >= 2 and n - 1 elements, got shapes {births.shape} and {survival.shape}"
        )
    return _below_first_row(births, survival)


def _below_first_row(row: Any, below: Any) -> Any:
    """Matrices with a first row, and a diagonal below the main one."""
    dtype = jnp.result_type(row, below)
    batch, n = jnp.broadcast_shapes(row.shape[:-1], below.shape[:-1]), row.shape[-1]
    rest = jnp.eye(n - 1, n, dtype=dtype) * below.astype(dtype)[..., None]
    first = jnp.broadcast_to(row.astype(dtype), (*batch, n))[..., None, :]
    return jnp.concatenate([first, jnp.broadcast_to(rest, (*batch, n - 1, n))], axis=-2)


def fiedler(a: Any) -> Array:
    """The sizes of all differences of elements of a vector of shape (..., n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    x = _vector(a)
    return jnp.abs(x[..., None] - x[..., None, :])


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Array:
    """The matrix A of n columns with `A @ v` equal to `numpy.convolve(a, v, mode)`.

    Args:
        a: array of shape (..., m), m ≥ 1.
        n: how many elements v has, at least 1.
        mode: "full", with m + n − 1 rows; "same", the middle max(m, n) of them; or "valid", those that see all of the
            shorter operand.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    x = _vector(a)
    size = x.shape[-1]
    if size < 1 or n < 1:
        raise ArgumentError(f"linalg.convolution_matrix: a of shape {x.shape} and n={n} must have an element at least")
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f'linalg.convolution_matrix: mode={mode!r} must be "full", "same" or "valid"')
    batch = [(0, 0)] * (x.ndim - 1)
    column = jnp.pad(x, [*batch, (0, n - 1)])
    full = toeplitz(column, jnp.pad(x[..., :1], [*batch, (0, n - 1)]))
    short, long = min(size, n), max(size, n)
    if mode == "same":
        return full[..., (short - 1) // 2 : (short - 1) // 2 + long, :]
    return full if mode == "full" else full[..., short - 1 : long, :]


def fiedler_companion(a: Any) -> Array:
    """A matrix of five diagonals whose eigenvalues are the roots of a polynomial.

    Args:
        a: the coefficients, of shape (..., n), that of the highest power first, which is not 0.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.fiedler_companion(jnp.array([1., -16., 86., -176., 105.]))
    Array([[  16.,  -86.,    1.,    0.],
           [   1.,    0.,    0.,    0.],
           [   0.,  176.,    0., -105.],
           [   0.,    1.,    0.,    0.]], dtype=float32)
    """
    (x,) = promote_args_inexact("fiedler_companion", _vector(a))
    if not x.shape[-1]:
        raise ArgumentError("linalg.fiedler_companion: a polynomial has a coefficient at least, but a has none")
    n = x.shape[-1] - 1
    lower = x[..., :1]
    table = jnp.concatenate([jnp.zeros_like(lower), jnp.ones_like(lower), -x[..., 1:] / lower], axis=-1)
    which = np.zeros((n, n), np.int32)  # 0 and 1 are themselves, k + 1 is the k-th coefficient over the first one
    which[:1, :1] = 2
    for i in range(n - 1):
        which[(i, i + 1) if i % 2 == 0 else (i + 1, i)] = i + 3
    for i in range(n - 2):
        which[(i, i + 2) if i % 2 == 0 else (i + 2, i)] = 1
    which[1:2, :1] = 1
    return table[..., which]


# --- of a size alone ----------------------------------------------------------------------------------------


def hilbert(n: int) -> Array:
    """The n x n matrix of 1 / (i + j + 1).

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.hilbert(1)
    Array([[1.]], dtype=float32)
    """
    places = jnp.arange(n, dtype=dtypes.default_float_dtype())
    return 1 / (places[:, None] + places[None] + 1)


def pascal(n: int, kind: str | None = None) -> Array:
    """The n x n matrix of binomial coefficients: symmetric, or its lower or upper triangular factor.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.pascal(3, "lower")
    Array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 2., 1.]], dtype=float32)
    """
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ArgumentError(f'linalg.pascal: kind={kind!r} must be "symmetric", "lower" or "upper"')
    lower = np.array([[math.comb(i, j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    found = lower if kind == "lower" else lower.T if kind == "upper" else lower @ lower.T
    return jnp.asarray(found.astype(np.float32))


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, whose elements are integers, too.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.invpascal(3, "lower")
    Array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ArgumentError(f'linalg.invpascal: kind={kind!r} must be "symmetric", "lower" or "upper"')
    lower = np.array([[(-1) ** (i - j) * math.comb(i, j) if j <= i else 0 for j in range(n)] for i in range(n)], object)
    lower = lower.reshape(n, n)
    found = lower if kind == "lower" else lower.T if kind == "upper" else lower.T @ lower
    return jnp.asarray(found.astype(dtypes.default_float_dtype()))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, whose elements are integers; floats do not have those of large n.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    found = np.array([[_of_inverse_hilbert(n, i, j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    return jnp.asarray(found.astype(dtypes.default_float_dtype()))


def _of_inverse_hilbert(n: int, i: int, j: int) -> int:
    outside = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
    return (-1) ** (i + j) * (i + j + 1) * outside * math.comb(i + j, i) ** 2


def helmert(n: int, full: bool = False) -> Array:
    """The (n - 1) x n matrix with orthonormal rows that are orthogonal to ones; with `full` that row is the first.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.helmert(2).round(4)
    Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    if n < 1:
        raise ArgumentError(f"linalg.helmert: n={n} must be positive")
    row, column = np.arange(n)[:, None], np.arange(n)
    length = np.sqrt(np.maximum(row * (row + 1.0), 1.0))
    found = np.where(column < row, 1.0, np.where(column == row, -row, 0.0)) / length
    found[0] = 1 / np.sqrt(n)
    return jnp.asarray(found[0 if full else 1 :].astype(dtypes.default_float_dtype()))


def hadamard(n: int, dtype: Any = int) -> Array:
    """The n x n matrix of 1 and -1 with orthogonal rows, by Sylvester's construction; n is a power of 2.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n < 1 or n & (n - 1):
        raise ArgumentError(f"linalg.hadamard: n={n} must be a power of 2")
    both = np.arange(n)[:, None] & np.arange(n)
    return jnp.asarray(1 - 2 * (np.bitwise_count(both) % 2).astype(np.int32), dtype=dtype)


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The n x n matrix of the discrete Fourier transform, exp(-2πi j k / n).

    Args:
        scale: "n" divides it by n, "sqrtn" by √n, which makes it unitary.
        dtype: a complex one, by default complex64.

    >>> import functad.scipy.linalg
    >>> functad.scipy.linalg.dft(1)
    Array([[1.+0.j]], dtype=complex64)
    """
    if scale not in (None, "n", "sqrtn"):
        raise ArgumentError(f'linalg.dft: scale={scale!r} must be None, "n" or "sqrtn"')
    wanted = np.dtype(np.complex64 if dtype is None else dtype)
    if kind_of(wanted) != "c":
        raise ArgumentError(f"linalg.dft: dtype={wanted} must be complex")
    turns = (np.arange(n)[:, None] * np.arange(n)) % n
    divisor = {None: 1.0, "n": float(n), "sqrtn": math.sqrt(n)}[scale]
    return jnp.asarray((np.exp(-2j * np.pi * turns / n) / divisor).astype(wanted))
