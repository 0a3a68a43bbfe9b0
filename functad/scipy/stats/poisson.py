"""The Poisson distribution: how many events there are where mu are expected.

Knows special functions alone.
Source: Evans, Boersma, Blachman and Jagers, "The entropy of a Poisson distribution", SIAM Review 30 (1988), for large
mu.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import gammaincc, gammaln, xlogy
from functad.scipy.stats.shared import in_float64_once, inside


@in_float64_once
def logpmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The logarithm of the probability of k.

    >>> pmf(0, 1.0)
    Array(0.3678794, dtype=float32, weak_type=True)
    """
    z = k - loc
    within = (z >= 0) & (jnp.round(k) == k)
    y = inside(within, z, 0)
    return jnp.where(within, xlogy(y, mu) - gammaln(y + 1) - mu, -np.inf)


def pmf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The probability of k.

    >>> pmf(2, 2.3)
    Array(0.26518464, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpmf(k, mu, loc))


@in_float64_once
def cdf(k: Any, mu: Any, loc: Any = 0) -> Array:
    """The probability of at most k.

    >>> cdf(2, 2.3)
    Array(0.5960388, dtype=float32, weak_type=True)
    """
    y = k - loc
    return jnp.where(y < 0, 0, gammaincc(jnp.floor(1 + inside(y >= 0, y, 0)), mu))


@in_float64_once
def entropy(mu: Any, loc: Any = 0) -> Array:
    """The expected −log of the probability; a sum for small mu, a series in 1/mu for large ones.

    >>> entropy(2.5)
    Array(1.8307266, dtype=float32, weak_type=True)
    """
    small = inside(mu < 100, mu, 1)
    counts = jnp.arange(240.0, dtype=np.float64)
    probabilities = xlogy(counts, small[..., None]) - gammaln(counts + 1) - small[..., None]
    exact = -jnp.sum(jnp.exp(probabilities) * probabilities, -1)
    large = 1 / inside(mu >= 100, mu, 100)
    series = 0.5 * jnp.log(2 * np.pi * np.e / large) - large / 12 - large**2 / 24 - 19 * large**3 / 360
    found = jnp.where(mu < 100, exact, series)
    return jnp.where(mu == 0, 0, found) + 0 * loc


__all__ = ["cdf", "entropy", "logpmf", "pmf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
