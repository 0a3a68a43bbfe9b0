"""Random vectors and matrices made of normal numbers and a factorisation.

Knows no generator.
"""

from __future__ import annotations

from typing import Any

from functad import dtypes
from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.numpy.promotion import canonical_shape, joint_shape, operand, promote_dtypes_inexact
from functad.random.continuous import normal


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Array:
    """Random normal vectors with a given mean and covariance.

    Args:
        key: a key, typed or raw.
        mean: the mean, of shape (..., n).
        cov: the covariance, symmetric and positive (semi-)definite, of shape (..., n, n).
        shape: the shape of the result without its last axis, by default the joint leading shape of `mean` and `cov`.
        dtype: a floating dtype, by default that of `mean` and `cov`.
        method: the factorisation of the covariance: "cholesky" (definite ones only), "eigh" or "svd".

    Returns:
        An array of shape (*shape, n).

    Raises:
        ShapeError: the shapes of mean and covariance do not fit each other or `shape`.
        DTypeError: the dtype is not floating.
        ArgumentError: another method.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> functad.random.multivariate_normal(functad.random.key(0), jnp.zeros(2), jnp.eye(2), (3,)).shape
    (3, 2)
    """
    mean, cov = (
        jnp.asarray(x) for x in promote_dtypes_inexact(*(operand("multivariate_normal", x) for x in (mean, cov)))
    )
    if method not in ("cholesky", "eigh", "svd"):
        raise ArgumentError(f"multivariate_normal: method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    dtype = mean.dtype if dtype is None else dtypes.requested_dtype(dtype)
    if kind_of(dtype) != "f":
        raise DTypeError(f"multivariate_normal: dtype must be a floating dtype, got {dtype}; try 'float32'")
    n = mean.shape[-1] if mean.ndim else 0
    if mean.ndim < 1 or cov.shape[-2:] != (n, n):
        raise ShapeError(
            f"multivariate_normal: mean and cov must have shapes (..., n) and (..., n, n), but have {mean.shape} and "
            f"{cov.shape}"
        )
    leading = joint_shape("multivariate_normal", [mean.shape[:-1], cov.shape[:-2]])
    shape = leading if shape is None else canonical_shape("multivariate_normal", shape)
    if joint_shape("multivariate_normal", [leading, shape]) != shape:
        raise ShapeError(f"multivariate_normal: mean and cov of leading shape {leading} do not broadcast to {shape}")
    drawn = normal(key, (*shape, n), dtype)
    return jnp.broadcast_to(mean, drawn.shape) + jnp.einsum("...ij,...j->...i", _factor(cov, method), drawn)


def _factor(cov: Any, method: str) -> Any:
    """F with F Fᵀ = cov."""
    if method == "cholesky":
        return jnp.linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = jnp.linalg.eigh(cov)
        # Of semi-definite matrices some may come out below 0, by rounding; what lies further below gives NaN.
        rounding = cov.shape[-1] * jnp.finfo(cov.dtype).eps * jnp.max(values, -1, keepdims=True, initial=0)
        values = jnp.where((values < 0) & (values >= -rounding), 0, values)
    else:
        vectors, values, _ = jnp.linalg.svd(cov)
    return vectors * jnp.sqrt(values[..., None, :])


def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Array:
    """Random orthogonal matrices, uniform among all (of Haar's measure); unitary ones for complex dtypes.

    Args:
        key: a key, typed or raw.
        n: the number of rows.
        shape: the shape of the result without its last two axes.
        dtype: a floating or complex dtype, by default float32 (float64 with `enable_x64`).
        m: the number of columns, by default n; rows or columns, whichever are fewer, are orthonormal.

    Returns:
        An array of shape (*shape, n, m).

    >>> import functad
    >>> q = functad.random.orthogonal(functad.random.key(0), 3)
    >>> bool(abs(q @ q.T - functad.numpy.eye(3)).max() < 1e-5)
    True
    """
    columns = n if m is None else m
    if not all(hasattr(k, "__index__") and k >= 0 for k in (n, columns)):
        raise ArgumentError(f"orthogonal: n and m must be integers of at least 0, got n={n!r}, m={m!r}")
    shape = canonical_shape("orthogonal", shape)
    drawn = normal(key, (*shape, max(n, columns), min(n, columns)), dtype)
    q, r = jnp.linalg.qr(drawn)
    q = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]  # makes q unique, hence uniform
    return q.mT if n < columns else q
