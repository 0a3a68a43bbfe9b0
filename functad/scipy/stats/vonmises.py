"""The von Mises distribution on a circle: density exp(κ cos x) / (2π I₀(κ)).

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import i0e
from functad.scipy.stats.shared import elementwise, invalid


@elementwise
def logpdf(x: Any, kappa: Any) -> Array:
    """The logarithm of the density; NaN where kappa is not positive.

    >>> pdf(0.0, 1.0)
    Array(0.3417105, dtype=float32, weak_type=True)
    """
    return invalid(kappa <= 0, -2 * kappa * jnp.square(jnp.sin(x / 2)) - jnp.log(2 * np.pi * i0e(kappa)))


def pdf(x: Any, kappa: Any) -> Array:
    """The density.

    >>> pdf(0.5, 1.7)
    Array(0.37957898, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, kappa))


__all__ = ["logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
