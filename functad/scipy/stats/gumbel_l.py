"""The Gumbel distribution of least values: density exp(z − exp(z)) / scale, z = (x − loc) / scale.

NaN unless scale is positive. Knows elementary functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import elementwise, inside, invalid, log_minus


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> cdf(0.0)
    Array(0.6321205, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return invalid(scale <= 0, z - jnp.exp(z) - jnp.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(0.31704196, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.8077043, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return invalid(scale <= 0, -jnp.expm1(-jnp.exp(z)))


@elementwise
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5)
    Array(-0.2135592, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return invalid(scale <= 0, log_minus(jnp.exp(z)))


@elementwise
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5)
    Array(0.19229566, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return invalid(scale <= 0, jnp.exp(-jnp.exp(z)))


@elementwise
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5)
    Array(-1.6487212, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    return invalid(scale <= 0, -jnp.exp(z))


@elementwise
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability p; NaN but between 0 and 1.

    >>> ppf(0.25)
    Array(-1.2458994, dtype=float32, weak_type=True)
    """
    inner = inside((p > 0) & (p < 1), p, np.nan)
    return loc + scale * jnp.log(-jnp.log1p(-inner))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
