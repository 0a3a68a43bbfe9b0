"""Quotients of gamma functions in float64: what is large in their logarithms is cancelled before it is rounded.

Knows Stirling's formula and the limits at poles; dtypes are `widening`'s.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from functad import numpy as jnp
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.primitives import elementwise as el
from functad.primitives.kernels.gamma_coefficients import STIRLING

_FROM = 10.0  # from here on Stirling's formula with its correction reaches float64's accuracy
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@custom_jvp
def log_beta(a: Any, b: Any) -> Any:
    """log |B(a, b)|; infinite at poles of Γ(a) and Γ(b), unless Γ(a + b) has one as well: there the limit along a."""
    a, b = without_common_pole(a, b), without_common_pole(b, a)
    low, high = jnp.minimum(a, b), jnp.maximum(a, b)
    far = jnp.maximum(high, _FROM)
    some = jnp.where(low + far < _FROM, 0.0, jnp.minimum(low, _FROM))
    both = jnp.maximum(low, _FROM)
    direct = el.lgamma(low) + (el.lgamma(high) - el.lgamma(low + high))
    one_large = el.lgamma(low) - log_rise(far, some)
    # Both large: Stirling's formula for each, and log B is −(low log(1 + high/low) + high log(1 + low/high)) and less.
    large = (
        (_HALF_LOG_TWO_PI - 0.5 * jnp.log(far))
        + (stirling_correction(both) + stirling_correction(far) - stirling_correction(both + far))
        - ((both - 0.5) * jnp.log1p(far / both) + far * jnp.log1p(both / far))
    )
    out = jnp.where((high < _FROM) | (low + high < _FROM), direct, jnp.where(low < _FROM, one_large, large))
    out = jnp.where((high == jnp.inf) & (low > 0), -jnp.inf, out)
    return jnp.where(is_pole(a) | is_pole(b), jnp.where(jnp.isnan(a + b), jnp.nan, jnp.inf), out)


@log_beta.defjvp
def _log_beta_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (a_dot, b_dot) = primals, tangents
    of_sum = el.digamma(a + b)  # d log B(a, b) = (ψ(a) − ψ(a + b)) da + (ψ(b) − ψ(a + b)) db
    return log_beta(a, b), a_dot * (el.digamma(a) - of_sum) + b_dot * (el.digamma(b) - of_sum)


def log_rise(z: Any, m: Any) -> Any:
    """log Γ(z + m) − log Γ(z) for z and z + m ≥ 10, in terms that are no larger than the result."""
    total = z + m
    return (
        m * (jnp.log(total) - 1) + (z - 0.5) * jnp.log1p(m / z) + (stirling_correction(total) - stirling_correction(z))
    )


@custom_jvp
def pochhammer(z: Any, m: Any) -> Any:
    """Γ(z + m) / Γ(z), and its limit along integers m where z is a pole of Γ."""
    total, mirrored = z + m, _is_mirrored(z, m)
    start, rise = jnp.where(mirrored, 1 - z - m, z), m
    end = start + rise
    far = (start >= _FROM) & (end >= _FROM)
    safe_start, safe_rise = jnp.where(far, start, _FROM), jnp.where(far, rise, 0.0)
    exponent = jnp.where(far, log_rise(safe_start, safe_rise), el.lgamma(end) - el.lgamma(start))
    odd = jnp.where(jnp.remainder(m, 2.0) == 1, -1.0, 1.0)
    sign = jnp.where(mirrored, odd, sign_of_gamma(end) * sign_of_gamma(start))
    out = sign * jnp.exp(exponent)
    out = jnp.where(is_pole(start), 0.0, jnp.where(is_pole(end), jnp.inf, out))
    return jnp.where(m == 0, 1.0, jnp.where(jnp.isnan(total), jnp.nan, out))


@partial(pochhammer.defjvp, symbolic_zeros=True)
def _pochhammer_jvp(primals: Any, tangents: Any) -> Any:
    (z, m), (z_dot, m_dot) = primals, tangents
    out, total = pochhammer(z, m), z + m
    # d (z)_m = (z)_m ((ψ(z + m) − ψ(z)) dz + ψ(z + m) dm), and the same of (−1)^m (1 − z − m)_m where that is (z)_m
    mirrored = _is_mirrored(z, m)
    first, last = jnp.where(mirrored, 1 - z, z), jnp.where(mirrored, 1 - total, total)
    # Where z alone is a pole, (z)_m is 0, and Γ(z + m) times the slope (−1)^z Γ(1 − z) of 1 / Γ(z) its slope.
    vanishes = is_pole(z) & jnp.logical_not(is_pole(total))
    sign = sign_of_gamma(total) * jnp.where(jnp.remainder(z, 2.0) == 1, -1.0, 1.0)
    of_zero = sign * jnp.exp(el.lgamma(jnp.where(vanishes, total, 1.0)) + el.lgamma(jnp.where(vanishes, 1 - z, 1.0)))
    slope = jnp.where(vanishes, of_zero, out * (el.digamma(last) - el.digamma(jnp.where(vanishes, 1.0, first))))
    change = 0.0 if isinstance(z_dot, SymbolicZero) else z_dot * slope
    if not isinstance(m_dot, SymbolicZero):
        change = change + m_dot * (out * el.digamma(total))
    return out, change


def _is_mirrored(z: Any, m: Any) -> Any:
    """Where (z)_m = (−1)^m (1 − z − m)_m is taken, which holds for integers m."""
    return ((z <= -_FROM) | is_pole(z)) & (m == jnp.rint(m)) & (z + m <= 0)


def sign_of_gamma(x: Any) -> Any:
    """The sign of Γ(x) away from its poles."""
    return jnp.where((x > 0) | (jnp.remainder(jnp.floor(x), 2.0) == 0), 1.0, -1.0)


def is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


def without_common_pole(a: Any, b: Any) -> Any:
    """1 − a − b, which has the same |B(a, b)|, where poles of Γ(a) and Γ(a + b) cancel; a elsewhere."""
    return jnp.where(has_common_pole(a, b), 1 - a - b, a)


def has_common_pole(a: Any, b: Any) -> Any:
    """Whether Γ(a) and Γ(a + b) have poles that cancel: then B(a, b) = (−1)^b B(1 − a − b, b)."""
    return is_pole(a) & is_pole(a + b) & (b > 0)


def stirling_correction(x: Any) -> Any:
    """log Γ(x) − ((x − 1/2) log x − x + log(2π)/2) for x ≥ 10 (Abramowitz & Stegun 6.1.41)."""
    inverse = 1 / x
    square, total = inverse * inverse, 0.0
    for coefficient in STIRLING:
        total = total * square + coefficient
    return total * inverse
