"""The normal distribution of vectors.

Knows Cholesky factors.

Shapes:
    The result has the joint shape of the arguments without the axes of size n.

Raises:
    ShapeError: cov has another shape than (..., n, n).
    ArgumentError: `allow_singular` is given: a singular cov has no density.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.lax import linalg
from functad.numpy.promotion import promote_dtypes_inexact
from functad.scipy.stats.shared import PI_TWICE_LOG


def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
    """The logarithm of the density; NaN where cov is not positive definite.

    Args:
        x: array of shape (…, n).
        mean: array of shape (…, n), or a number.
        cov: array of shape (…, n, n), or a number: that variance in all directions.

    >>> import functad.numpy as jnp
    >>> logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(-1.837877, dtype=float32)
    """
    if allow_singular is not None:
        raise ArgumentError("multivariate_normal: allow_singular must be None: a singular cov has no density")
    operands = promote_dtypes_inexact(jnp.asarray(x), jnp.asarray(mean), jnp.asarray(cov))
    point, centre, covariance = (jnp.asarray(v) for v in operands)
    if not centre.ndim:
        return -0.5 * (jnp.square(point - centre) / covariance + PI_TWICE_LOG + jnp.log(covariance))
    n, deviation = centre.shape[-1], point - centre
    if not covariance.ndim:
        return -0.5 * (jnp.sum(deviation * deviation, -1) / covariance + n * (PI_TWICE_LOG + jnp.log(covariance)))
    if covariance.shape[-2:] != (n, n):
        raise ShapeError(f"multivariate_normal: cov must be of {n} numbers, as the mean is, got {covariance.shape}")
    factor = linalg.cholesky(covariance)
    lead = jnp.broadcast_shapes(deviation.shape[:-1], factor.shape[:-2])
    column = jnp.broadcast_to(deviation, (*lead, n))[..., None]
    whitened = linalg.triangular_solve(jnp.broadcast_to(factor, (*lead, n, n)), column, left_side=True, lower=True)[
        ..., 0
    ]
    logarithms = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * (jnp.sum(whitened * whitened, -1) + n * PI_TWICE_LOG) - logarithms


def pdf(x: Any, mean: Any, cov: Any) -> Array:
    """The density.

    >>> import functad.numpy as jnp
    >>> pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(0.15915497, dtype=float32)
    """
    return jnp.exp(logpdf(x, mean, cov))


def entropy(mean: Any = None, cov: Any = 1) -> Array:
    """n (1 + log 2π) / 2 + log det(cov) / 2, in nats; NaN where cov is not positive definite.

    Args:
        mean: array of shape (…, n), which has a say only where cov is a number; None for one of zeros.
        cov: array of shape (…, n, n), or a number: that variance in all directions.

    >>> import functad.numpy as jnp
    >>> entropy(jnp.zeros(2), jnp.eye(2))
    Array(2.837877, dtype=float32)
    """
    (covariance,) = (jnp.asarray(v) for v in promote_dtypes_inexact(jnp.asarray(cov)))
    if not covariance.ndim:
        n = 1 if mean is None or not jnp.ndim(mean) else jnp.shape(mean)[-1]
        return 0.5 * n * (1 + PI_TWICE_LOG + jnp.log(covariance))
    n = covariance.shape[-1]
    if covariance.ndim < 2 or covariance.shape[-2] != n:
        raise ShapeError(f"multivariate_normal: cov must have a shape (..., n, n), got {covariance.shape}")
    logarithms = jnp.log(jnp.diagonal(linalg.cholesky(covariance), axis1=-2, axis2=-1))
    return 0.5 * n * (1 + PI_TWICE_LOG) + jnp.sum(logarithms, -1)


__all__ = ["entropy", "logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
