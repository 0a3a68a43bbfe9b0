"""Bessel functions of the first and second kind of one integer order, under SciPy's names.

Knows the integral that gives those of the second kind for small arguments; those of the first kind are made elsewhere.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import custom_jvp
from functad.errors import ArgumentError
from functad.scipy.special.bessel import first_kind, hankel_parts
from functad.scipy.special.widening import in_float64

_FAR = 25.0
_POINTS, _TERMS = 80, 36  # enough for e^−60 of a rounding at _FAR


def j0(x: Any) -> Array:
    """J₀(x), the Bessel function of the first kind, element-wise.

    >>> j0(1.0)
    Array(0.7651977, dtype=float32)
    """
    return in_float64("j0", partial(_first, 0), x)


def j1(x: Any) -> Array:
    """J₁(x), the Bessel function of the first kind, element-wise.

    >>> j1(1.0)
    Array(0.4400506, dtype=float32)
    """
    return in_float64("j1", partial(_first, 1), x)


def jv(v: int, x: Any) -> Array:
    """J_v(x), the Bessel function of the first kind of a known integer order v, of the shape of x; also called `jn`.

    >>> jv(2, 1.0)
    Array(0.1149035, dtype=float32)
    """
    return in_float64("jv", partial(_first, _order("jv", v)), x)


jn = jv


def y0(x: Any) -> Array:
    """Y₀(x), the Bessel function of the second kind, element-wise; NaN for negative x.

    >>> y0(1.0)
    Array(0.0882570, dtype=float32)
    """
    return in_float64("y0", partial(_second, 0), x)


def y1(x: Any) -> Array:
    """Y₁(x), the Bessel function of the second kind, element-wise; NaN for negative x.

    >>> y1(1.0)
    Array(-0.7812128, dtype=float32)
    """
    return in_float64("y1", partial(_second, 1), x)


def yn(n: int, x: Any) -> Array:
    """Y_n(x), the Bessel function of the second kind of a known integer order n, of the shape of x; NaN for negative x.

    >>> yn(2, 1.0)
    Array(-1.6506826, dtype=float32)
    """
    return in_float64("yn", partial(_second, _order("yn", n)), x)


def _order(name: str, v: Any) -> int:
    known = np.asarray(v) if isinstance(v, (int, float, np.generic, np.ndarray)) else np.asarray(np.nan)
    if known.ndim or known != np.rint(known):
        raise ArgumentError(f"{name}: the order must be one known integer, got {v!r}")
    return int(known)


def _first(v: int, x: Any) -> Any:
    sign = (-1) ** v if v < 0 else 1  # J₋ₙ = (−1)ⁿ Jₙ
    return sign * first_kind(abs(v), max(abs(v), 50), x)[abs(v)]


# --- the second kind ----------------------------------------------------------------------------------


@partial(custom_jvp, nondiff_argnums=(0,))
def _second(n: int, x: Any) -> Any:
    if n < 0:
        return (-1) ** n * _second(-n, x)
    near, far = jnp.clip(x, 1e-300, _FAR), jnp.clip(x, _FAR, 1e300)
    below, here = (jnp.where(x < _FAR, *pair) for pair in zip(_by_integrals(near), _by_expansions(far)))
    if n == 0:
        here = below
    for k in range(1, n):
        # Once it has overflowed it stays there, instead of becoming the difference of two infinities.
        below, here = here, jnp.where(here == -jnp.inf, here, 2 * k / x * here - below)
    here = jnp.where(x == 0, -jnp.inf, jnp.where(x == jnp.inf, 0.0, here))
    return jnp.where((x < 0) | jnp.isnan(x), jnp.nan, here)


@_second.defjvp
def _second_jvp(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _second(n, x), t * (0.5 * (_second(n - 1, x) - _second(n + 1, x)))  # dYₙ = (Yₙ₋₁ − Yₙ₊₁) / 2 dx


@cache
def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sines of the points of the midpoint rule on [0, π], which is exact here; weights for J₀, and for Y₀'s sum."""
    angles = (np.arange(_POINTS) + 0.5) * (math.pi / _POINTS)
    ones = np.full(_POINTS, 1 / _POINTS)
    series = sum((-1) ** k * np.cos(2 * k * angles) / k for k in range(1, _TERMS + 1)) / _POINTS
    return np.sin(angles), ones, series


def _by_integrals(x: Any) -> tuple[Any, Any]:
    """Y₀ and Y₁ for small x."""
    sines, ones, series = _rule()
    angles = x[..., None] * sines
    cosine, sine = jnp.cos(angles), sines * jnp.sin(angles)
    # J₂ₖ(x) = 1/π ∫ cos(2kθ) cos(x sin θ) dθ, and π/2 Y₀ = (log(x/2) + γ) J₀ − 2 Σ (−1)ᵏ J₂ₖ / k (DLMF 10.8.3)
    log = jnp.log(x / 2) + np.euler_gamma
    first, its_slope = jnp.sum(cosine * ones, -1), -jnp.sum(sine * ones, -1)
    zeroth = log * first - 2 * jnp.sum(cosine * series, -1)
    slope = first / x + log * its_slope + 2 * jnp.sum(sine * series, -1)
    return zeroth * (2 / math.pi), -slope * (2 / math.pi)  # Y₁ = −Y₀′


def _by_expansions(x: Any) -> tuple[Any, Any]:
    """Y₀ and Y₁ for large x (DLMF 10.17.4)."""
    sin, cos = jnp.sin(x), jnp.cos(x)
    scale = 1 / (math.sqrt(math.pi) * jnp.sqrt(x))
    (p, q), (r, s) = (hankel_parts(order, x) for order in (0, 1))
    return scale * (p * (sin - cos) + q * (cos + sin)), scale * (s * (sin - cos) - r * (sin + cos))
