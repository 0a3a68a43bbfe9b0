"""The binomial distribution: how many of n trials succeed, each with probability p.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import betaln, xlog1py, xlogy
from functad.scipy.stats.shared import in_float64_once, inside


@in_float64_once
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k.

    >>> pmf(1, 2, 0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = k - loc
    within = (z >= 0) & (z <= n)
    y = inside(within, z, 0)
    ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
    return jnp.where(within, ways + xlogy(y, p) + xlog1py(n - y, -p), -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 5, 0.3)
    Array(0.3087, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
