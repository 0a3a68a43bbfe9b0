"""The uniform distribution from loc to loc + scale.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import elementwise, fractions


@elementwise
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> cdf(3.0, 2.0, 4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return jnp.where((x < loc) | (x > loc + scale), -np.inf, -jnp.log(scale))


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5)
    Array(1., dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, loc, scale))


@elementwise
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x.

    >>> cdf(0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return jnp.where(x < loc, 0, jnp.where(x > loc + scale, 1, (x - loc) / scale))


@elementwise
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """What is not exceeded with probability q; NaN outside of 0 … 1.

    >>> ppf(0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return loc + scale * fractions(q)


__all__ = ["cdf", "logpdf", "pdf", "ppf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
