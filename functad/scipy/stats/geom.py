"""The geometric distribution: trials up to the first success, each one with probability p.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import xlog1py
from functad.scipy.stats.shared import elementwise, inside


@elementwise
def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k.

    >>> pmf(2, 0.5)
    Array(0.25, dtype=float32, weak_type=True)
    """
    y = k - loc
    return jnp.where(y > 0, xlog1py(inside(y > 0, y, 1) - 1, -p) + jnp.log(p), -np.inf)


def pmf(k: Any, p: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 0.35)
    Array(0.2275, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, p, loc))


__all__ = ["logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
