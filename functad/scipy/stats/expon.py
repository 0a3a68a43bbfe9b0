"""The exponential distribution: density exp(−z) / scale, z = (x − loc) / scale ≥ 0.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import elementwise, fractions, inside, log_minus


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density; −∞ below loc.

    >>> sf(1.0, scale=2.0)
    Array(0.6065307, dtype=float32, weak_type=True)
    """
    return jnp.where(x < loc, -np.inf, (loc - x) / scale - jnp.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.39346933, dtype=float32, weak_type=True)
    """
    return -jnp.expm1(-inside(x >= loc, (x - loc) / scale, 0))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.93275213, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return jnp.where(z <= 0, -np.inf, log_minus(inside(z > 0, z, 1)))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.60653067, dtype=float32, weak_type=True)
    """
    return jnp.exp(inside(x >= loc, (loc - x) / scale, 0))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-0.5, dtype=float32, weak_type=True)
    """
    return inside(x >= loc, (loc - x) / scale, 0)


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability q; NaN outside of 0 … 1.

    >>> ppf(0.25)
    Array(0.28768206, dtype=float32, weak_type=True)
    """
    return loc - scale * jnp.log1p(-fractions(q))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
