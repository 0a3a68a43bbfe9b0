"""The normal distribution: density exp(−z²/2) / √(2π) / scale, z = (x − loc) / scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import log_ndtr, ndtr, ndtri
from functad.scipy.stats.shared import PI_TWICE_LOG, elementwise


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> logpdf(0.0)
    Array(-0.9189385, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return -0.5 * z * z - jnp.log(scale) - 0.5 * PI_TWICE_LOG


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.35206532, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.69146246, dtype=float32)
    """
    return ndtr((x - loc) / scale)


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.3689464, dtype=float32)
    """
    return log_ndtr((x - loc) / scale)


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.30853754, dtype=float32)
    """
    return ndtr((loc - x) / scale)


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.1759118, dtype=float32)
    """
    return log_ndtr((loc - x) / scale)


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability q; NaN outside of 0 … 1.

    >>> ppf(0.25)
    Array(-0.67448974, dtype=float32)
    """
    return ndtri(q) * scale + loc


@elementwise
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is exceeded with probability q; NaN outside of 0 … 1.

    >>> isf(0.25)
    Array(0.67448974, dtype=float32)
    """
    return loc - ndtri(q) * scale


__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
