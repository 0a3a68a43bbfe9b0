"""The generalised normal distribution: density β exp(−|x|^β) / (2 Γ(1/β)).

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.lax import stop_gradient
from functad.scipy.special import gammaincc, gammaln
from functad.scipy.special.slopes import with_slope
from functad.scipy.stats.shared import in_float64_once, inside


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
    fixed = stop_gradient(x)  # the slope in x is the density; at 0 that in |x|^β is infinite
    tail = 0.5 * gammaincc(1 / beta, jnp.abs(inside(fixed != 0, fixed, 1)) ** beta)
    tail = jnp.where(fixed == 0, 0.5, tail)
    return with_slope(jnp.where(fixed <= 0, tail, 1 - tail), pdf(x, beta), x)


__all__ = ["cdf", "logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
