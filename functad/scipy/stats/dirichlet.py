"""The Dirichlet distribution of positive numbers whose sum is 1: density Π xᵢ^(αᵢ − 1) / B(α).

Knows special functions alone.

Shapes:
    The result has the shape of x without its first axis.

Raises:
    ShapeError: alpha is no vector, or the first axis of x has neither its size nor one less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ShapeError
from functad.numpy.promotion import promote_dtypes_inexact
from functad.scipy.special import gammaln, xlogy


def logpdf(x: Any, alpha: Any) -> Array:
    """The logarithm of the density; −∞ where x is not such numbers.

    Args:
        x: array of shape (n, …), or (n − 1, …): then the last number is what is missing from 1.
        alpha: vector of n positive numbers.

    >>> import functad.numpy as jnp
    >>> logpdf(jnp.array([0.5, 0.5]), jnp.ones(2))
    Array(0., dtype=float32)
    """
    values, a = (jnp.asarray(v) for v in promote_dtypes_inexact(jnp.asarray(x), jnp.asarray(alpha)))
    dtype = values.dtype
    values, a = values.astype(np.float64), a.astype(np.float64)  # what cancels costs 32 bits their digits
    if a.ndim != 1:
        raise ShapeError(f"dirichlet: alpha must be a vector, got shape {a.shape}")
    if not values.ndim or values.shape[0] not in (a.shape[0], a.shape[0] - 1):
        raise ShapeError(f"dirichlet: x has shape {values.shape}: {a.shape[0]} numbers first, or one less")
    if values.shape[0] != a.shape[0]:
        values = jnp.concatenate([values, 1 - values.sum(0, keepdims=True)])
    a = a.reshape(-1, *(1,) * (values.ndim - 1))
    found = jnp.sum(xlogy(a - 1, values) - gammaln(a), 0) + gammaln(jnp.sum(a))
    return jnp.where(_is_simplex(values), found, -np.inf).astype(dtype)


def pdf(x: Any, alpha: Any) -> Array:
    """The density.

    >>> import functad.numpy as jnp
    >>> pdf(jnp.array([0.5, 0.5]), jnp.ones(2))
    Array(1., dtype=float32)
    """
    return jnp.exp(logpdf(x, alpha))


def _is_simplex(x: Any) -> Any:
    return jnp.all(x > 0, 0) & (jnp.abs(jnp.sum(x, 0) - 1) < 1e-6)


__all__ = ["logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
