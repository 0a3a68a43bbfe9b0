"""Integrals of e^t/t, e^−t/t^n, sin t/t and cos t/t.

Knows their series near 0; further out continued fractions, and Laplace transforms by a Gauss–Laguerre rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.errors import DifferentiationError
from functad.primitives import elementwise as el
from functad.scipy.special.widening import in_float64

_NEAR = 2.0  # up to here series: they lose two digits at most


def expi(x: Any) -> Array:
    """Ei(x), the integral of e^t/t from −∞ to x, a principal value for positive x, element-wise.

    >>> expi(1.0)
    Array(1.895118, dtype=float32)
    """
    return in_float64("expi", _expi, x)


def exp1(x: Any) -> Array:
    """E₁(x), the integral of e^−t/t from x to ∞, element-wise; NaN for negative x.

    >>> exp1(1.0)
    Array(0.2193839, dtype=float32)
    """
    return in_float64("exp1", lambda x: jnp.where(x < 0, jnp.nan, -_expi(-jnp.abs(x))), x)


def expn(n: Any, x: Any) -> Array:
    """E_n(x), the integral of e^(−xt)/t^n over t ≥ 1, for integers n ≥ 0 and x ≥ 0, element-wise; differentiable in x.

    >>> expn(2, 1.0)
    Array(0.1484955, dtype=float32)
    """
    return in_float64("expn", _expn, n, x)


def sici(x: Any) -> tuple[Array, Array]:
    """Si(x), the integral of sin(t)/t from 0 to x, and Ci(x), that of cos(t)/t from ∞ to |x|, element-wise.

    >>> sici(1.0)
    (Array(0.9460831, dtype=float32), Array(0.3374039, dtype=float32))
    """
    sine, cosine = in_float64("sici", _sici, x)
    return sine, cosine


@cache
def _laguerre() -> list[tuple[float, float]]:
    """Points and weights of the rule of 40 points: for x ≥ 4 it gives ∫ e^−t/(ix + t) dt to float64's accuracy."""
    points, weights = np.polynomial.laguerre.laggauss(40)
    return list(zip(points.tolist(), weights.tolist()))


def power_series(coefficients: Sequence[float], x: Any) -> Any:
    """Σ coefficients[k] x^k."""
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


# --- Ei and E1 ----------------------------------------------------------------------------------------

_FAR = 40.0  # from here on the asymptotic series reaches float64's accuracy


@custom_jvp
def _expi(x: Any) -> Any:
    size = jnp.abs(x)
    inside = jnp.where((x < -_NEAR) | (x > _FAR), 1.0, x)
    series = _EULER + jnp.log(jnp.abs(inside)) + inside * power_series(_EXPONENTIAL_SERIES, inside)
    below = -_expn_fraction(1.0, jnp.maximum(size, _NEAR))
    right = jnp.maximum(size, _FAR)
    root = jnp.exp(right / 2)  # e^x overflows before the quotient does
    above = root * (power_series(_FACTORIALS, 1 / right) / right) * root
    out = jnp.where(x < -_NEAR, below, jnp.where(x > _FAR, above, series))
    return jnp.where(x == jnp.inf, jnp.inf, out)


@_expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _expi(x), t * (jnp.exp(x) / x)  # d Ei(x) = e^x / x dx


_EULER = float(np.euler_gamma)
_EXPONENTIAL_SERIES = [1 / (k * math.factorial(k)) for k in range(1, 120)]
_FACTORIALS = [float(math.factorial(k)) for k in range(40)]


# --- E_n ----------------------------------------------------------------------------------------------


@custom_jvp
def _expn(n: Any, x: Any) -> Any:
    near = jnp.clip(x, 5e-324, _NEAR)
    out = jnp.where(x < _NEAR, _expn_series(n, near), _expn_fraction(n, jnp.maximum(x, _NEAR)))
    out = jnp.where(n == 0, jnp.exp(-x) / x, out)
    at_0 = jnp.where(n > 1, 1 / jnp.where(n > 1, n - 1, 1.0), jnp.inf)
    out = jnp.where(x == 0, at_0, jnp.where(x == jnp.inf, 0.0, out))
    return jnp.where((n < 0) | (x < 0), jnp.nan, out + 0 * n)


@partial(_expn.defjvp, symbolic_zeros=True)
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (n_dot, t) = primals, tangents
    if not isinstance(n_dot, SymbolicZero):
        raise DifferentiationError("expn has no derivative in n, which is an integer; differentiate in x")
    t = jnp.zeros_like(x) if isinstance(t, SymbolicZero) else t
    lower = jnp.where(n == 0, (1 + 1 / x) * jnp.exp(-x) / x, _expn(jnp.maximum(n - 1, 0.0), x))
    return _expn(n, x), -t * lower  # d E_n(x) = −E_(n−1)(x) dx, and E_(−1)(x) = (1 + 1/x) e^−x / x


def _expn_series(n: Any, x: Any) -> Any:
    """(−x)^(n−1) / (n−1)! (ψ(n) − log x) − Σ (−x)^k / (k! (k − n + 1)) over k ≠ n − 1 (DLMF 8.19.8)."""
    order = jnp.maximum(n, 1.0)
    total, power = jnp.zeros_like(x + n), 1.0
    for k in range(28):
        divisor = k + 1 - order
        total = total + jnp.where(divisor == 0, 0.0, power / jnp.where(divisor == 0, 1.0, divisor))
        power = -power * x / (k + 1)
    sign = jnp.where(jnp.remainder(order, 2.0) == 1, 1.0, -1.0)
    scale = sign * jnp.exp((order - 1) * jnp.log(x) - el.lgamma(order))
    return scale * (el.digamma(order) - jnp.log(x)) - total


def _expn_fraction(n: Any, x: Any) -> Any:
    """e^−x / (x + n − 1·n / (x + n + 2 − 2 (n + 1) / (x + n + 4 − …))) (DLMF 8.19.17, contracted)."""
    start, below = x + n, x + n + 2 * 50
    for k in range(50, 0, -1):
        below = start + 2 * (k - 1) - k * (n + k - 1) / below
    return jnp.exp(-x) / below


# --- Si and Ci ----------------------------------------------------------------------------------------

_SICI_FAR = 4.0
_LARGEST = float(np.finfo(np.float64).max)
_SINE_SERIES = [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(19)]
_COSINE_SERIES = [0.0] + [(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(1, 19)]


@custom_jvp
def _sici(x: Any) -> tuple[Any, Any]:
    size = jnp.abs(x)
    near = jnp.minimum(size, _SICI_FAR)
    square = near * near
    sine, cosine = near * power_series(_SINE_SERIES, square), power_series(_COSINE_SERIES, square)
    far = jnp.clip(size, _SICI_FAR, _LARGEST)
    inverse = 1 / far
    # Si(x) = π/2 − f cos x − g sin x and Ci(x) = f sin x − g cos x, with f and g the parts of ∫ e^(−xt)/(t − i) dt
    scaled = [(point * inverse, weight) for point, weight in _laguerre()]
    f = inverse * sum(weight / (1 + t * t) for t, weight in scaled)
    g = inverse * sum(weight * t / (1 + t * t) for t, weight in scaled)
    sin, cos = jnp.sin(far), jnp.cos(far)
    is_near = size < _SICI_FAR
    si = jnp.where(is_near, sine, (math.pi / 2 - f * cos) - g * sin)
    ci = jnp.where(is_near, _EULER + jnp.log(near) + cosine, f * sin - g * cos)
    ci = jnp.where(jnp.isinf(x), jnp.where(x > 0, 0.0, jnp.nan), ci)
    si = jnp.where(jnp.isinf(x), math.pi / 2, si)
    return jnp.copysign(si, x), ci


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _sici(x), (t * jnp.sinc(x / math.pi), t * (jnp.cos(x) / x))  # d Si(x) = sin x / x dx, d Ci(x) = cos x / x dx
