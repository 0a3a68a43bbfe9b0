"""Modified Bessel functions of the first kind of any real order, under SciPy's names.

Knows their power series, the expansion for large orders, and the recurrence that leads from there to small ones.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, partial
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.errors import DifferentiationError
from functad.lax import scan
from functad.scipy.special.exponential_integrals import power_series
from functad.scipy.special.gammas import rgamma
from functad.scipy.special.widening import in_float64

_NEAR = 40.0  # up to there the power series is summed, of so many terms
_TERMS = 100
_LARGE_ORDER = 30  # from there on the expansion in 1/order gives all digits with so many terms
_EXPANSION = 13


def iv(v: Any, x: Any) -> Array:
    """I_v(x), the modified Bessel function of the first kind of real order v, element-wise.

    NaN for negative x, unless v is an integer. The derivative is that in x: there is none in v.

    >>> iv(0.5, 1.0)
    Array(0.9376749, dtype=float32)
    """
    return in_float64("iv", partial(_first, False), v, x)


def ive(v: Any, x: Any) -> Array:
    """e^−|x| I_v(x), which does not overflow where I_v(x) would, element-wise; otherwise as `iv`.

    >>> ive(0.5, 1000.0)
    Array(0.01261566, dtype=float32)
    """
    return in_float64("ive", partial(_first, True), v, x)


@partial(custom_jvp, nondiff_argnums=(0,))
def _first(is_scaled: bool, v: Any, x: Any) -> Any:
    """iv, or ive."""
    v, x = jnp.broadcast_arrays(v, x)
    size, is_whole = jnp.abs(x), v == jnp.rint(v)
    order = jnp.where(is_whole, jnp.abs(v), v)  # I₋ₙ = Iₙ
    near, far = jnp.minimum(size, _NEAR), jnp.clip(size, 1e-300, 1e300)
    by_series = _series(order, near) * (jnp.exp(-near) if is_scaled else 1.0)
    out = jnp.where(
        (size <= _NEAR) & (jnp.abs(order) < _LARGE_ORDER), by_series, _by_large_orders(is_scaled, order, far)
    )
    at_0 = jnp.where(order == 0, 1.0, jnp.where(order > 0, 0.0, jnp.copysign(jnp.inf, rgamma(order + 1))))
    out = jnp.where(size == 0, at_0, jnp.where(size == jnp.inf, 0.0 if is_scaled else jnp.inf, out))
    out = jnp.where((x < 0) & (jnp.remainder(order, 2.0) == 1), -out, out)  # Iₙ(−x) = (−1)ⁿ Iₙ(x)
    return jnp.where(jnp.isnan(v) | jnp.isnan(x) | (x < 0) & ~is_whole, jnp.nan, out)


@partial(_first.defjvp, symbolic_zeros=True)
def _first_jvp(is_scaled: bool, primals: Any, tangents: Any) -> Any:
    (v, x), (t_order, t) = primals, tangents
    if not isinstance(t_order, SymbolicZero):
        raise DifferentiationError("iv and ive have no derivative in the order v; differentiate in x")
    out = _first(is_scaled, v, x)
    slope = 0.5 * (_first(is_scaled, v - 1, x) + _first(is_scaled, v + 1, x))  # dIᵥ = (Iᵥ₋₁ + Iᵥ₊₁) / 2 dx
    return out, t * (slope - jnp.sign(x) * out if is_scaled else slope)


def _series(v: Any, x: Any) -> Any:
    """(x/2)ᵛ Σ (x²/4)ᵏ / (k! Γ(v + k + 1)) (DLMF 10.25.2), for orders up to _LARGE_ORDER."""
    square = x * x / 4

    def step(carry: Any, k: Any) -> Any:
        term, total = carry
        term = term * (square / (k * (v + k)))
        return (term, total + term), None

    ones = jnp.ones_like(x)
    (_, total), _ = scan(step, (ones, ones), jnp.arange(1, _TERMS, dtype=x.dtype))
    return jnp.power(x / 2, v) * rgamma(v + 1) * total


def _by_large_orders(is_scaled: bool, v: Any, x: Any) -> Any:
    """By the expansion for large orders, from which small ones are reached downwards: Iᵥ₋₁ = Iᵥ₊₁ + 2v/x Iᵥ."""
    size = jnp.abs(v)
    steps = jnp.ceil(jnp.maximum(_LARGE_ORDER - size, 0.0))
    first = size + steps
    here, exponent, of_second_kind = _expanded(first, x)
    above, exponent_above, _ = _expanded(first + 1, x)

    def step(carry: Any, k: Any) -> Any:
        here, above = carry
        below = above + 2 * (first - k) / x * here
        return (jnp.where(k < steps, below, here), jnp.where(k < steps, here, above)), None

    (here, _), _ = scan(
        step, (here, above * jnp.exp(exponent_above - exponent)), jnp.arange(_LARGE_ORDER, dtype=x.dtype)
    )
    # I₋ᵥ = Iᵥ + 2/π sin(πv) Kᵥ, where Kᵥ matters for large orders alone.
    second = 2 / math.pi * _sine_of_pi_times(size) * of_second_kind
    second = jnp.where((v < 0) & (steps == 0), second * jnp.exp(-exponent - (2 if is_scaled else 1) * x), 0.0)
    if is_scaled:
        return here * jnp.exp(exponent) + second
    root = jnp.exp(x / 2)  # eˣ overflows before the product does
    scaled = here * jnp.exp(jnp.maximum(exponent, -300.0)) * root * root
    return jnp.where(exponent > -300, scaled, here * jnp.exp(exponent + x)) + second


def _expanded(v: Any, x: Any) -> tuple[Any, Any, Any]:
    """a, e and b of Iᵥ(x) = a e^(e + x) and Kᵥ(x) = b e^−(e + x) (DLMF 10.41.3 and 4)."""
    ratio = x / v
    root = jnp.hypot(1.0, ratio)
    t, even, odd = 1 / root, 0.0, 0.0
    square, inverse = t * t, 1 / v
    for k, coefficients in reversed(list(enumerate(_expansion()))):
        term = t ** (k % 2) * power_series(coefficients, square) * jnp.power(square, k // 2)
        even, odd = (even * inverse + term, odd * inverse) if k % 2 == 0 else (even * inverse, odd * inverse + term)
    scale = 1 / jnp.sqrt(v * root)
    exponent = v * (1 / (root + ratio) - jnp.arcsinh(1 / ratio))  # v η − x, without its large terms
    return scale * (even + odd) / math.sqrt(2 * math.pi), exponent, scale * (even - odd) * math.sqrt(math.pi / 2)


@cache
def _expansion() -> list[list[float]]:
    """The coefficients of Uₖ(t) / tᵏ in powers of t² (DLMF 10.41.9)."""
    rows = [[Fraction(1)]]
    for k in range(_EXPANSION - 1):
        row = [Fraction(0)] * (k + 2)
        for i, c in enumerate(rows[-1]):
            degree = k + 2 * i  # of the term c t^degree of Uₖ
            row[i] += c * (Fraction(degree, 2) + Fraction(1, 8 * (degree + 1)))
            row[i + 1] -= c * (Fraction(degree, 2) + Fraction(5, 8 * (degree + 3)))
        rows.append(row)
    return [[float(c) for c in row] for row in rows]


def _sine_of_pi_times(v: Any) -> Any:
    nearest = jnp.rint(v)
    return jnp.sin(math.pi * (v - nearest)) * jnp.where(jnp.remainder(nearest, 2.0) == 1, -1.0, 1.0)
