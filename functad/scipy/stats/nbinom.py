"""The negative binomial distribution: failures before n successes, each trial one with probability p.

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

    >>> pmf(0, 1, 0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = k - loc
    y = inside(z >= 0, z, 0)
    ways = -jnp.log(n + y) - betaln(n, y + 1)
    return jnp.where(z >= 0, ways + xlogy(n, p) + xlog1py(y, -p), -np.inf)


def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 2.5, 0.4)
    Array(0.15937878, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, p, loc))


__all__ = ["logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
