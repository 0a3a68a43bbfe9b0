"""The gamma distribution: density z^(a − 1) exp(−z) / Γ(a) / scale, z = (x − loc) / scale ≥ 0.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import gammainc, gammaincc, gammaln, xlogy
from functad.scipy.stats.shared import in_float64_once, inside


@in_float64_once
def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> cdf(1.0, 1.0)
    Array(0.6321205, dtype=float32, weak_type=True)
    """
    within = x >= loc
    y = inside(within, (x - loc) / scale, 1)
    return jnp.where(within, xlogy(a - 1, y) - y - gammaln(a) - jnp.log(scale), -np.inf)


def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, 2.2)
    Array(0.23961444, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, loc, scale))


@in_float64_once
def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.2)
    Array(0.06408568, dtype=float32, weak_type=True)
    """
    return gammainc(a, jnp.maximum((x - loc) / scale, 0))


@in_float64_once
def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 2.2)
    Array(-2.7475343, dtype=float32, weak_type=True)
    """
    return jnp.log(gammainc(a, jnp.maximum((x - loc) / scale, 0)))


@in_float64_once
def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 2.2)
    Array(0.93591434, dtype=float32, weak_type=True)
    """
    return gammaincc(a, jnp.maximum((x - loc) / scale, 0))


@in_float64_once
def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 2.2)
    Array(-0.06623135, dtype=float32, weak_type=True)
    """
    return jnp.log(gammaincc(a, jnp.maximum((x - loc) / scale, 0)))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
