"""The logistic distribution: density exp(−z) / (scale (1 + exp(−z))²), z = (x − loc) / scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import expit, logit
from functad.scipy.stats.shared import elementwise


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> cdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return -2 * jnp.logaddexp(z / 2, -z / 2) - jnp.log(scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.23500371, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.62245935, dtype=float32, weak_type=True)
    """
    return expit((x - loc) / scale)


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.37754068, dtype=float32, weak_type=True)
    """
    return expit((loc - x) / scale)


@elementwise
def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability x.

    >>> ppf(0.25)
    Array(-1.0986123, dtype=float32, weak_type=True)
    """
    return loc + scale * logit(x)


@elementwise
def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is exceeded with probability x.

    >>> isf(0.25)
    Array(1.0986123, dtype=float32, weak_type=True)
    """
    return loc - scale * logit(x)


__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
