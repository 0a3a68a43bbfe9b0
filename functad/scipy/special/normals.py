"""Error functions, and the distribution function of the normal distribution with its logarithm and inverse.

Knows their numerics in the tails; derivatives are given where composing would lose digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.api import jvp
from functad.array import Array
from functad.custom_derivatives import custom_jvp
from functad.errors import ArgumentError
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.scipy.special.widening import in_float64

_SMALLEST = 5e-324  # the smallest positive float64
FAR = 10.0  # from here on the series in 1/x² gives all digits
_ROOT_2, _ROOT_PI, _ROOT_TWO_PI = math.sqrt(2), math.sqrt(math.pi), math.sqrt(2 * math.pi)


def erf(x: Any) -> Array:
    """The error function 2/√π ∫₀ˣ exp(−t²) dt, element-wise.

    >>> erf(0.5)
    Array(0.5204999, dtype=float32, weak_type=True)
    """
    return el.erf(*promote_args_inexact("erf", x))


def erfc(x: Any) -> Array:
    """1 − erf(x), accurate for large x, element-wise.

    >>> erfc(0.5)
    Array(0.4795001, dtype=float32, weak_type=True)
    """
    return el.erfc(*promote_args_inexact("erfc", x))


def erfinv(x: Any) -> Array:
    """The y with erf(y) = x, element-wise.

    >>> erfinv(0.5)
    Array(0.4769363, dtype=float32, weak_type=True)
    """
    return el.erf_inv(*promote_args_inexact("erfinv", x))


def erfcinv(x: Any) -> Array:
    """The y with erfc(y) = x, element-wise, for x in 0 … 2.

    >>> erfcinv(0.5)
    Array(0.4769363, dtype=float32)
    """
    return in_float64("erfcinv", lambda x: -math.sqrt(0.5) * _ndtri(0.5 * x), x)


def erfcx(x: Any) -> Array:
    """exp(x²) erfc(x), which neither under- nor overflows for positive x, element-wise.

    >>> erfcx(30.0)
    Array(0.01879589, dtype=float32)
    """
    return in_float64("erfcx", _erfcx, x)


def _scaled_coefficients(n: int) -> tuple[float, list[float]]:
    """Weideman (SIAM J. Numer. Anal. 31, 1994): exp(x²) erfc(x) as a polynomial in (L − x) / (L + x), and L."""
    length = math.sqrt(n / math.sqrt(2))
    points = length * np.tan(np.arange(-2 * n + 1, 2 * n) * np.pi / (4 * n))
    values = np.concatenate([[0], np.exp(-(points**2)) * (length**2 + points**2)])
    terms = np.real(np.fft.fft(np.fft.fftshift(values))) / (4 * n)
    return length, [float(c) for c in terms[n:0:-1]]


_LENGTH, _COEFFICIENTS = _scaled_coefficients(40)


@custom_jvp
def _erfcx(x: Any) -> Any:
    size = jnp.abs(x)
    positive = jnp.where(size < FAR, _erfcx_near(jnp.minimum(size, FAR)), _erfcx_far(jnp.maximum(size, FAR)))
    return jnp.where(x < 0, 2 * jnp.exp(x * x) - positive, positive)


def _erfcx_near(x: Any) -> Any:
    below = _LENGTH + x
    series = jnp.polyval(jnp.asarray(_COEFFICIENTS, x.dtype), (_LENGTH - x) / below)
    return (2 * series / below + 1 / _ROOT_PI) / below


def _erfcx_far(x: Any) -> Any:
    return far_series(x, -1) / _ROOT_PI


def far_series(x: Any, sign: int) -> Any:
    """1/x (1 ± 1/(2x²) (1 ± 3/(2x²) (1 ± 5/(2x²) …))) of |x| ≥ FAR."""
    inverse = 1 / x
    step = (0.5 * sign) * inverse * inverse
    series = 1.0
    for odd in range(23, 0, -2):
        series = 1 + odd * step * series
    return inverse * series


@_erfcx.defjvp
def _erfcx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out, is_far = _erfcx(x), x > FAR
    far = jnp.where(is_far, x, FAR)
    _, far_slope = jvp(_erfcx_far, (far,), (jnp.ones_like(far),))
    near_slope = (
        2 * jnp.where(is_far, 0.0, x) * out - 2 / _ROOT_PI
    )  # d exp(x²) erfc(x) = (2x exp(x²) erfc(x) − 2/√π) dx
    return out, t * jnp.where(is_far, far_slope, near_slope)  # far out its terms cancel


def ndtr(x: Any) -> Array:
    """The distribution function of the standard normal distribution, element-wise.

    >>> ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return in_float64("ndtr", _ndtr, x)


def _ndtr(x: Any) -> Any:
    return 0.5 * el.erfc(x / -_ROOT_2)


def log_ndtr(x: Any, series_order: int = 3) -> Array:
    """The logarithm of `ndtr`, accurate in both tails, of the shape of x; `series_order` changes nothing.

    >>> log_ndtr(-30.0)
    Array(-454.3212, dtype=float32)
    """
    if not isinstance(series_order, int) or not 0 <= series_order <= 30:
        raise ArgumentError(f"log_ndtr: series_order must be an integer of 0 … 30, got {series_order!r}")
    return in_float64("log_ndtr", _log_ndtr, x)


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    low = jnp.minimum(x, -1.0)
    tail = jnp.log(0.5 * _erfcx(low / -_ROOT_2)) - low * low / 2
    center = jnp.log1p(-0.5 * el.erfc(jnp.maximum(x, -1.0) / _ROOT_2))
    return jnp.where(x < -1, tail, center)


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    # d log Φ(x) = φ(x) / Φ(x) dx; for negative x both have the factor exp(−x²/2)
    low, high = jnp.minimum(x, 0.0), jnp.maximum(x, 0.0)
    slope = jnp.where(
        x < 0,
        math.sqrt(2 / math.pi) / _erfcx(low / -_ROOT_2),
        jnp.exp(-high * high / 2) / _ROOT_TWO_PI / _ndtr(high),
    )
    return _log_ndtr(x), t * slope


def ndtri(p: Any) -> Array:
    """The x with ndtr(x) = p, element-wise.

    >>> ndtri(0.975)
    Array(1.959964, dtype=float32)
    """
    return in_float64("ndtri", _ndtri, p)


@custom_jvp
def _ndtri(p: Any) -> Any:
    side = jnp.minimum(p, 1 - p)
    center = _ROOT_2 * el.erf_inv(2 * p - 1)
    inside = jnp.clip(side, _SMALLEST, 0.05)
    target = jnp.log(inside)
    x = -jnp.sqrt(-2 * target)
    for _ in range(5):  # Newton's method for log Φ(x) = log p, which is concave
        x = x - (_log_ndtr(x) - target) * _erfcx(x / -_ROOT_2) * math.sqrt(math.pi / 2)
    tail = jnp.where(side == 0, -jnp.inf, x) * jnp.where(p < 0.5, 1.0, -1.0)
    return jnp.where(side < 0, jnp.nan, jnp.where(side < 0.05, tail, center))


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    (p,), (t,) = primals, tangents
    x = _ndtri(p)
    return x, t * (_ROOT_TWO_PI * jnp.exp(x * x / 2))  # Φ'(x) = exp(−x²/2) / √(2π)
