"""The beta-binomial distribution: a binomial one whose p is a beta variable of shapes a and b.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import betaln
from functad.scipy.stats.shared import in_float64_once, inside, invalid


@in_float64_once
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k; NaN where n is negative, or a or b not positive.

    >>> pmf(0, 1, 1.0, 1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    z = jnp.floor(k) - loc
    within = (z >= 0) & (z <= n)
    y = inside(within, z, 0)
    ways = -jnp.log1p(n) - betaln(n - y + 1, y + 1)
    found = ways + betaln(y + a, n - y + b) - betaln(a, b)
    return invalid((n < 0) | (a <= 0) | (b <= 0), jnp.where(within, found, -np.inf))


def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 5, 2.5, 0.7)
    Array(0.09011395, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, n, a, b, loc))


__all__ = ["logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
