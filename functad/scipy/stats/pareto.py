"""The Pareto distribution: density b z^−(b + 1) / scale, z = (x − loc) / scale ≥ 1.

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
def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> sf(2.0, 3.0)
    Array(0.125, dtype=float32, weak_type=True)
    """
    within = x >= loc + scale
    z = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, jnp.log(b / scale) - (b + 1) * jnp.log(z), -np.inf)


def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(1.5, 2.5)
    Array(0.6048123, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, b, loc, scale))


@elementwise
def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(1.5, 2.5)
    Array(0.6371126, dtype=float32, weak_type=True)
    """
    within = x >= loc + scale
    z = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, -jnp.expm1(-b * jnp.log(z)), 0)


@elementwise
def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(1.5, 2.5)
    Array(-0.4508088, dtype=float32, weak_type=True)
    """
    within = x >= loc + scale
    z = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, log_minus(b * jnp.log(z)), -np.inf)


@elementwise
def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(2.0, 2.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    within = x >= loc + scale
    z = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, z**-b, 1)


@elementwise
def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(1.5, 2.5)
    Array(-1.0136627, dtype=float32, weak_type=True)
    """
    within = x >= loc + scale
    z = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, -b * jnp.log(z), 0)


@elementwise
def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability q; NaN outside of 0 … 1.

    >>> ppf(0.25, 2.5)
    Array(1.1219552, dtype=float32, weak_type=True)
    """
    return loc + scale * (1 - fractions(q)) ** (-1 / b)


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
