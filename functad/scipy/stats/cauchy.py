"""The Cauchy distribution: density 1 / (π scale (1 + z²)), z = (x − loc) / scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import elementwise, fractions, in_float64_once, inside


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> cdf(1.0)
    Array(0.75, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    is_far = jnp.abs(z) > 1e8  # z² may overflow, and 1 is nothing beside it
    near, far = inside(is_far, 1, z), inside(is_far, jnp.abs(z), 1)
    return -np.log(np.pi) - jnp.log(scale) - jnp.where(is_far, 2 * jnp.log(far), jnp.log1p(near * near))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.2546479, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.64758354, dtype=float32, weak_type=True)
    """
    return jnp.arctan2(1, (loc - x) / scale) / np.pi


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.43450746, dtype=float32, weak_type=True)
    """
    return jnp.log(cdf(x, loc, scale))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.3524164, dtype=float32, weak_type=True)
    """
    return jnp.arctan2(1, (x - loc) / scale) / np.pi


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.0429418, dtype=float32, weak_type=True)
    """
    return jnp.log(sf(x, loc, scale))


@in_float64_once
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability q; NaN outside of 0 … 1.

    >>> ppf(0.25)
    Array(-1., dtype=float32, weak_type=True)
    """
    return loc + scale * jnp.tan(np.pi * (fractions(q) - 0.5))


@in_float64_once
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is exceeded with probability q; NaN outside of 0 … 1.

    >>> isf(0.25)
    Array(1., dtype=float32, weak_type=True)
    """
    return loc + scale * jnp.tan(np.pi * (0.5 - fractions(q)))


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
