"""The normal distribution cut off outside of a … b, both in units of scale from loc.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import log_ndtr, ndtr
from functad.scipy.stats.shared import PI_TWICE_LOG, in_float64_once, inside, invalid, log_minus


@in_float64_once
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density; NaN where a is not below b.

    >>> cdf(0.0, -1.0, 1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    found = -0.5 * z * z - 0.5 * PI_TWICE_LOG - jnp.log(scale) - _log_mass(a, b)
    return invalid(a >= b, jnp.where((z < a) | (z > b), -np.inf, found))


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, -0.7, 1.6)
    Array(0.5006354, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


@in_float64_once
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, -0.7, 1.6)
    Array(-0.44756085, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    within = (z > a) & (z < b)
    low = jnp.where(a > -np.inf, a, jnp.where(b < np.inf, b, 1) - 2)
    high = jnp.where(b < np.inf, b, low + 2)
    y = inside(within, z, (low + high) / 2)
    whole = _log_mass(a, b)
    below, above = _log_mass(a, y) - whole, _log_mass(y, b) - whole
    # Near 1 its complement has more digits.
    found = jnp.where(below > -0.1, log_minus(-above), below)
    return invalid(a >= b, jnp.where(within, found, jnp.where(z <= a, -np.inf, 0)))


def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, -0.7, 1.6)
    Array(0.6391853, dtype=float32, weak_type=True)
    """
    return jnp.exp(logcdf(x, a, b, loc, scale))


@in_float64_once
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, -0.7, 1.6)
    Array(-1.0193908, dtype=float32, weak_type=True)
    """
    return logcdf(-x, -b, -a, -loc, scale)


def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, -0.7, 1.6)
    Array(0.3608147, dtype=float32, weak_type=True)
    """
    return jnp.exp(logsf(x, a, b, loc, scale))


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of a normal variable's probability to lie in a … b, by the tail that has digits."""
    right = a > 0
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    in_tail = high <= 0
    upper, lower = log_ndtr(inside(in_tail, high, -1)), log_ndtr(inside(in_tail, low, -2))
    tail = upper + log_minus(jnp.maximum(upper - lower, 0))
    central = jnp.log1p(-ndtr(inside(in_tail, -1, low)) - ndtr(inside(in_tail, -1, -high)))
    return jnp.where(in_tail, tail, central)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
