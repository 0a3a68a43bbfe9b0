"""The multinomial distribution: how often each of some outcomes comes in n trials.

Knows special functions alone.

Shapes:
    The result has the joint shape of x and p without the last axis.

Raises:
    DTypeError: x or n are no integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.numpy.promotion import promote_args_inexact
from functad.scipy.special import gammaln, xlogy


def logpmf(x: Any, n: Any, p: Any) -> Array:
    """The logarithm of the probability of counts; −∞ where their sum is not n.

    Args:
        x: integers of shape (…, k).
        n: their sum, an integer.
        p: probabilities of shape (…, k).

    >>> import functad.numpy as jnp
    >>> logpmf(jnp.array([1, 0]), 1, jnp.array([0.5, 0.5]))
    Array(-0.6931472, dtype=float32)
    """
    (q,) = promote_args_inexact("multinomial.logpmf", p)
    counts, trials = jnp.asarray(x), jnp.asarray(n)
    if kind_of(counts.dtype) not in "iu" or kind_of(trials.dtype) not in "iu":
        raise DTypeError(f"multinomial: x and n must be integers, got {counts.dtype} and {trials.dtype}")
    probabilities = jnp.asarray(q)
    total = counts.sum(-1)
    counts, size, wide = (v.astype(np.float64) for v in (counts, trials, probabilities))  # for what cancels
    found = gammaln(size + 1) + jnp.sum(xlogy(counts, wide) - gammaln(counts + 1), -1)
    return jnp.where(total == trials, found, -np.inf).astype(probabilities.dtype)


def pmf(x: Any, n: Any, p: Any) -> Array:
    """The probability of counts.

    >>> import functad.numpy as jnp
    >>> pmf(jnp.array([1, 0]), 1, jnp.array([0.5, 0.5]))
    Array(0.5, dtype=float32)
    """
    return jnp.exp(logpmf(x, n, p))


__all__ = ["logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
