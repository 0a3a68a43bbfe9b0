"""The Bernoulli distribution: 1 with probability p, else 0.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import xlog1py, xlogy
from functad.scipy.stats.shared import elementwise, fractions, inside, invalid


@elementwise
def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k.

    >>> pmf(1, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    y = k - loc
    within = (y == 0) | (y == 1)
    y = inside(within, y, 0)
    return jnp.where(within, xlogy(y, p) + xlog1py(1 - y, -p), -np.inf)


def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(1, 0.3)
    Array(0.29999998, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


@elementwise
def cdf(k: Any, p: Any) -> Array:
    """The probability of at most k; NaN where p is no probability.

    >>> cdf(1, 0.3)
    Array(1., dtype=float32, weak_type=True)
    """
    found = jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1))
    return invalid(jnp.isnan(k) | jnp.isnan(p) | (p < 0) | (p > 1), found)


@elementwise
def ppf(q: Any, p: Any) -> Array:
    """What is not exceeded with probability q; NaN where q or p is no probability.

    >>> ppf(0.75, 0.3)
    Array(1., dtype=float32, weak_type=True)
    """
    return invalid(jnp.isnan(fractions(q)) | jnp.isnan(fractions(p)), jnp.where(q <= 1 - p, 0, 1))


__all__ = ["cdf", "logpmf", "pmf", "ppf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
