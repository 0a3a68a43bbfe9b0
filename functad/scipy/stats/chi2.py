"""The chi-squared distribution of df degrees of freedom: a gamma distribution of shape df / 2 and twice the scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats import gamma
from functad.scipy.stats.shared import in_float64_once


@in_float64_once
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> sf(2.0, 2.0)
    Array(0.3678794, dtype=float32, weak_type=True)
    """
    return gamma.logpdf(x, df / 2, loc, 2 * scale)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, 3.0)
    Array(0.21969566, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


@in_float64_once
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 3.0)
    Array(0.08110859, dtype=float32, weak_type=True)
    """
    return gamma.cdf(x, df / 2, loc, 2 * scale)


@in_float64_once
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 3.0)
    Array(-2.5119665, dtype=float32, weak_type=True)
    """
    return gamma.logcdf(x, df / 2, loc, 2 * scale)


@in_float64_once
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 3.0)
    Array(0.91889143, dtype=float32, weak_type=True)
    """
    return gamma.sf(x, df / 2, loc, 2 * scale)


@in_float64_once
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 3.0)
    Array(-0.08458732, dtype=float32, weak_type=True)
    """
    return gamma.logsf(x, df / 2, loc, 2 * scale)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
