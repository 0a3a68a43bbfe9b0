"""The Box–Cox transformations, powers that become logarithms as the exponent goes to 0.

Knows the series that makes them, and their derivatives, accurate there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.scipy.special.exponential_integrals import power_series
from functad.scipy.special.widening import in_float64

_NEAR = 0.5
_SERIES = [1 / math.factorial(k + 1) for k in range(16)]  # of (e^u − 1) / u


def boxcox(x: Any, lmbda: Any) -> Array:
    """(x^λ − 1) / λ, and log(x) where λ is 0, element-wise; NaN for negative x.

    >>> boxcox(2.0, 0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    return in_float64("boxcox", lambda x, power: _transformed(jnp.log, x, x, power), x, lmbda, stays_weak=True)


def boxcox1p(x: Any, lmbda: Any) -> Array:
    """((1 + x)^λ − 1) / λ, and log(1 + x) where λ is 0, element-wise; NaN for x below −1.

    >>> boxcox1p(1.0, 2.0)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return in_float64("boxcox1p", lambda x, power: _transformed(jnp.log1p, x, 1 + x, power), x, lmbda, stays_weak=True)


def _transformed(log: Callable[[Any], Any], x: Any, base: Any, power: Any) -> Any:
    """(base^λ − 1) / λ, where the logarithm of the base is log(x)."""
    at_zero = (base == 0) & (power > 0)  # where the logarithm is infinite, and the power has derivatives
    exponent = jnp.where(at_zero, power, 1.0)
    end = (jnp.power(jnp.where(at_zero, base, 1.0), exponent) - 1) / exponent
    return jnp.where(at_zero, end, _of_log(log(jnp.where(at_zero, 1.0, x)), power))


def _of_log(log: Any, power: Any) -> Any:
    """(e^(λ log) − 1) / λ."""
    product = power * log
    near = (jnp.abs(product) < _NEAR) | (power == 0)
    small = jnp.where(near & jnp.isfinite(log), product, 0.0)
    safe = jnp.where(near, 1.0, power)
    return jnp.where(near, log * power_series(_SERIES, small), jnp.expm1(safe * log) / safe)
