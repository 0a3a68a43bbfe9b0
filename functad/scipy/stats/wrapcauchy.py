"""The Cauchy distribution wrapped around a circle: density (1 − c²) / (2π (1 + c² − 2c cos x)) on 0 … 2π.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.stats.shared import PI_TWICE_LOG, elementwise, invalid


@elementwise
def logpdf(x: Any, c: Any) -> Array:
    """The logarithm of the density; NaN unless c is between 0 and 1.

    >>> pdf(0.0, 0.5)
    Array(0.4774648, dtype=float32, weak_type=True)
    """
    distance = jnp.square(1 - c) + 4 * c * jnp.square(jnp.sin(x / 2))  # 1 + c² − 2c cos x
    found = jnp.log1p(c) + jnp.log1p(-c) - PI_TWICE_LOG - jnp.log(distance)
    return invalid((c <= 0) | (c >= 1), jnp.where((x >= 0) & (x <= 2 * np.pi), found, -np.inf))


def pdf(x: Any, c: Any) -> Array:
    """The density.

    >>> pdf(0.5, 0.3)
    Array(0.257043, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, c))


__all__ = ["logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
