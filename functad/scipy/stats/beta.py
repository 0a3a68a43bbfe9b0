"""The beta distribution: density z^(a − 1) (1 − z)^(b − 1) / B(a, b) / scale, z = (x − loc) / scale in 0 … 1.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import betainc, betaln, xlog1py, xlogy
from functad.scipy.stats.shared import in_float64_once, inside, invalid


@in_float64_once
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density; NaN where a, b or scale is not positive.

    >>> pdf(0.5, 2.0, 2.0)
    Array(1.5, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    within = (z >= 0) & (z <= 1)
    y = inside(within, z, 0.5)
    found = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - jnp.log(scale)
    return invalid((a <= 0) | (b <= 0) | (scale <= 0), jnp.where(within, found, -np.inf))


def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, 2.5, 1.3)
    Array(1.1299226, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


@in_float64_once
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 2.5, 1.3)
    Array(0.24301025, dtype=float32, weak_type=True)
    """
    return betainc(a, b, jnp.clip((x - loc) / scale, 0, 1))


@in_float64_once
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x.

    >>> logcdf(0.5, 2.5, 1.3)
    Array(-1.4146516, dtype=float32, weak_type=True)
    """
    return jnp.log(betainc(a, b, jnp.clip((x - loc) / scale, 0, 1)))


@in_float64_once
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x.

    >>> sf(0.5, 2.5, 1.3)
    Array(0.7569897, dtype=float32, weak_type=True)
    """
    return betainc(b, a, 1 - jnp.clip((x - loc) / scale, 0, 1))


@in_float64_once
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x.

    >>> logsf(0.5, 2.5, 1.3)
    Array(-0.27840558, dtype=float32, weak_type=True)
    """
    return jnp.log(betainc(b, a, 1 - jnp.clip((x - loc) / scale, 0, 1)))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
