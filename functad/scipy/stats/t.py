"""Student's distribution of df degrees of freedom.

Knows special functions alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.scipy.special import gammaln
from functad.scipy.stats.shared import in_float64_once


@in_float64_once
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> pdf(0.0, 1.0)
    Array(0.3183099, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    factor = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * jnp.log(np.pi * df) - jnp.log(scale)
    return factor - (df + 1) / 2 * jnp.log1p(z * z / df)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, 3.5)
    Array(0.318317, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


__all__ = ["logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
