"""Fresnel's integrals, the dilogarithm and Owen's T function.

Knows the series and quadratures that give them, and the identities that bring arguments into their reach.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import custom_jvp
from functad.primitives import elementwise as el
from functad.scipy.special.exponential_integrals import power_series
from functad.scipy.special.gammas import bernoulli_numbers
from functad.scipy.special.widening import in_float64


def fresnel(x: Any) -> tuple[Array, Array]:
    """S(x) and C(x), the integrals of sin(πt²/2) and of cos(πt²/2) from 0 to x, element-wise.

    >>> fresnel(1.0)
    (Array(0.4382591, dtype=float32), Array(0.7798934, dtype=float32))
    """
    sine, cosine = in_float64("fresnel", _fresnel, x)
    return sine, cosine


def spence(x: Any) -> Array:
    """The integral of log(t)/(1 − t) from 1 to x, the dilogarithm Li₂(1 − x), element-wise; NaN for negative x.

    >>> spence(0.0)
    Array(1.644934, dtype=float32)
    """
    return in_float64("spence", _spence, x)


def owens_t(h: Any, a: Any) -> Array:
    """Owen's T: the integral of exp(−h²(1 + t²)/2) / (2π (1 + t²)) from 0 to a, element-wise.

    >>> owens_t(0.0, 1.0)
    Array(0.125, dtype=float32)
    """
    return in_float64("owens_t", _owens_t, h, a)


# --- Fresnel ------------------------------------------------------------------------------------------

_FRESNEL_FAR = 4.0  # of πx²/2
_SINE_SERIES = [(-1) ** k / ((4 * k + 3) * math.factorial(2 * k + 1)) for k in range(19)]
_COSINE_SERIES = [(-1) ** k / ((4 * k + 1) * math.factorial(2 * k)) for k in range(19)]


@cache
def _hermite() -> list[tuple[float, float]]:
    """Squares of the positive points, and both points' weights, of the Gauss–Hermite rule of 80 points."""
    points, weights = np.polynomial.hermite.hermgauss(80)
    return list(zip((points[40:] ** 2).tolist(), (2 * weights[40:]).tolist()))


@custom_jvp
def _fresnel(x: Any) -> tuple[Any, Any]:
    size = jnp.abs(x)
    angle = size * size * (math.pi / 2)
    near = jnp.minimum(angle, _FRESNEL_FAR)
    sine = size * near * power_series(_SINE_SERIES, near * near)
    cosine = size * power_series(_COSINE_SERIES, near * near)
    # S(x) = 1/2 − f cos − g sin and C(x) = 1/2 + f sin − g cos, where with a = πx²/2 (DLMF 7.7.10)
    # f = 1/(π√2) ∫ e^(−au²) / (1 + u⁴) du and g = 1/(π√2) ∫ e^(−au²) u² / (1 + u⁴) du over all u.
    far = jnp.clip(angle, _FRESNEL_FAR, 1e300)
    scaled = [(square / far, weight) for square, weight in _hermite()]
    scale = 1 / (math.pi * math.sqrt(2) * jnp.sqrt(far))
    f = scale * sum(weight / (1 + q * q) for q, weight in scaled)
    g = scale * sum(weight * q / (1 + q * q) for q, weight in scaled)
    sin, cos = _of_square(x)
    is_near, is_finite = angle < _FRESNEL_FAR, size < 1e150
    far_sine = jnp.where(is_finite, (0.5 - f * cos) - g * sin, 0.5)
    far_cosine = jnp.where(is_finite, (0.5 + f * sin) - g * cos, 0.5)
    s, c = jnp.where(is_near, sine, far_sine), jnp.where(is_near, cosine, far_cosine)
    s, c = (jnp.where(jnp.isnan(x), x, part) for part in (s, c))
    return jnp.copysign(s, x), jnp.copysign(c, x)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    sin, cos = _of_square(x)
    return _fresnel(x), (t * sin, t * cos)  # dS = sin(πx²/2) dx and dC = cos(πx²/2) dx


def _of_square(x: Any) -> tuple[Any, Any]:
    """sin(πx²/2) and cos(πx²/2): with x = 2m + r, x² is 4mr + r² and a multiple of 4, which no angle sees."""
    x = jnp.where(jnp.abs(x) < 1e150, x, 0.0)
    m = jnp.rint(x / 2)
    r = x - 2 * m
    turns = m * r
    angle = (math.pi / 2) * (4 * (turns - jnp.rint(turns)) + r * r)
    return jnp.sin(angle), jnp.cos(angle)


# --- the dilogarithm ----------------------------------------------------------------------------------

_BERNOULLI = [float(b) for b in bernoulli_numbers(22)]
_SPENCE_SERIES = [b / math.factorial(k + 1) for k, b in enumerate(_BERNOULLI)]
_SLOPE_SERIES = [b / math.factorial(k) for k, b in enumerate(_BERNOULLI)]


@custom_jvp
def _spence(x: Any) -> Any:
    is_large = x > 2
    inner = jnp.where(is_large, 1 / jnp.where(is_large, x, 1.0), x)
    is_small = inner < 0.5
    u = -jnp.log(jnp.where(is_small, 1 - inner, inner))
    core = u * power_series(_SPENCE_SERIES, u)  # Li₂(z) = Σ B_k u^(k+1) / (k+1)! with u = −log(1 − z)
    product = jnp.where(inner == 0, 0.0, jnp.log(inner) * jnp.log1p(-inner))
    reflected = (math.pi**2 / 6 - product) - core  # Li₂(1 − x) + Li₂(x) = π²/6 − log(x) log(1 − x)
    out = jnp.where(is_small, reflected, core)
    log_x = jnp.log(x)
    return jnp.where(x < 0, jnp.nan, jnp.where(is_large, -0.5 * log_x * log_x - out, out))  # Landen's identity


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    is_near = (x > 0.5) & (x < 2)
    near, away = jnp.where(is_near, x, 1.0), jnp.where(is_near, 3.0, x)
    # d Li₂(1 − x) = log(x) / (1 − x) dx; near 1 by its series in −log x, every derivative of which is accurate
    series = -power_series(_SLOPE_SERIES, -jnp.log(near)) / near
    return _spence(x), t * jnp.where(is_near, series, jnp.log(away) / (1 - away))


# --- Owen's T -----------------------------------------------------------------------------------------


@cache
def _legendre() -> list[tuple[float, float]]:
    """Points and weights of the Gauss–Legendre rule of 32 points on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(32)
    return list(zip((0.5 + 0.5 * points).tolist(), (0.5 * weights).tolist()))


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    size, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    product = jnp.where(size == 0, 0.0, size * slope)
    quadrature = _owens_t_gently(
        jnp.where(steep, product, size), jnp.where(steep, 1 / jnp.where(steep, slope, 1.0), slope)
    )
    # T(h, a) + T(ah, 1/a) = (P + Q)/2 − PQ with P = Φ(−h), Q = Φ(−ah), for h, a > 0
    p, q = (0.5 * el.erfc(x / math.sqrt(2)) for x in (size, product))
    out = jnp.where(steep, (0.5 * (p + q) - p * q) - quadrature, quadrature)
    return jnp.where(jnp.isnan(h) | jnp.isnan(a), jnp.nan, jnp.where(a < 0, -out, out))


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (h_dot, a_dot) = primals, tangents
    # dT = −exp(−h²/2) erf(ah/√2) / (2√(2π)) dh + exp(−h²(1 + a²)/2) / (2π (1 + a²)) da
    of_h = -jnp.exp(-h * h / 2) * el.erf(a * h / math.sqrt(2)) / (2 * math.sqrt(2 * math.pi))
    of_a = jnp.exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a))
    return _owens_t(h, a), h_dot * of_h + a_dot * of_a


def _owens_t_gently(h: Any, a: Any) -> Any:
    """T(h, a) for h ≥ 0 and 0 ≤ a ≤ 1; beyond ht = 9 the integrand is less than a rounding."""
    end = jnp.minimum(a, 9 / jnp.maximum(h, 1e-300))
    total = jnp.zeros_like(end)
    for point, weight in _legendre():
        t = end * point
        total = total + weight * jnp.exp(-0.5 * jnp.square(jnp.where(h < 1e3, h, 0.0) * t)) / (1 + t * t)
    return jnp.exp(-0.5 * h * h) * end * total / (2 * math.pi)
