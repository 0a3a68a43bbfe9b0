"""The Laplace distribution: density exp(−|z|) / (2 scale), z = (x − loc) / scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import elementwise, inside


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> pdf(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return -jnp.abs((x - loc) / scale) - jnp.log(2 * scale)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.30326533, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.69673467, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    low = 0.5 * jnp.exp(inside(z <= 0, z, 0))
    high = 1 - 0.5 * jnp.exp(inside(z <= 0, 0, -z))
    return jnp.where(z <= 0, low, high)


__all__ = ["cdf", "logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
