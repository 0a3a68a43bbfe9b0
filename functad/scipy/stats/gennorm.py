"""The generalised normal distribution: density β exp(−|x|^β) / (2 Γ(1/β)).

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import gammaincc, gammaln
from functad.scipy.stats.shared import in_float64_once


@in_float64_once
def logpdf(x: Any, beta: Any) -> Array:
    """The logarithm of the density.

    >>> pdf(0.0, 1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def pdf(x: Any, beta: Any) -> Array:
    """The density.

    >>> pdf(0.5, 1.4)
    Array(0.37556317, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, beta))


@in_float64_once
def cdf(x: Any, beta: Any) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 1.4)
    Array(0.73572594, dtype=float32, weak_type=True)
    """
    tail = 0.5 * gammaincc(1 / beta, jnp.abs(x) ** beta)
    return jnp.where(x <= 0, tail, 1 - tail)


__all__ = ["cdf", "logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
