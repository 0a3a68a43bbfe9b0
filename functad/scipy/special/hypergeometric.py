"""Gauss's and Kummer's hypergeometric functions of real arguments, element-wise.

Knows their series, and how arguments are brought to where these converge; derivatives in all arguments are the series'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.lax import fori_loop, while_loop
from functad.primitives import elementwise as el
from functad.scipy.special.widening import in_float64

_MOST_TERMS = 3000
_EPSILON = 2.0**-54


def hyp1f1(a: Any, b: Any, x: Any) -> Array:
    """Kummer's function M(a, b, x) = Σ (a)_k x^k / ((b)_k k!), element-wise; differentiable in all three.

    >>> hyp1f1(1.0, 2.0, 1.0)
    Array(1.718282, dtype=float32)
    """
    return in_float64("hyp1f1", _hyp1f1, a, b, x)


def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Array:
    """Gauss's function F(a, b; c; x) = Σ (a)_k (b)_k x^k / ((c)_k k!), continued to x < −1, element-wise.

    Differentiable in all four; infinite for x > 1, unless it is a polynomial.

    >>> hyp2f1(1.0, 1.0, 2.0, 0.5)
    Array(1.386294, dtype=float32)
    """
    return in_float64("hyp2f1", _hyp2f1, a, b, c, x)


# --- series -------------------------------------------------------------------------------------------


def _sum_series(ratio: Callable[[Any], Any], bound: Callable[[Any], Any], shape_of: Any) -> Any:
    """1 + r(0) + r(0) r(1) + …, until a bound of every term, whose ratios are these, is less than a rounding."""

    def unfinished(state: Any) -> Any:
        k, _, total, size = state
        return (k < _MOST_TERMS) & jnp.any((size > _EPSILON * jnp.abs(total)) & jnp.isfinite(total))

    def step(state: Any) -> Any:
        k, term, total, size = state
        term = term * ratio(k)
        return k + 1, term, total + term, size * bound(k)

    one = jnp.ones_like(shape_of)
    return while_loop(unfinished, step, (jnp.asarray(0.0, one.dtype), one, one, one))[2]


def _apart(x: Any) -> Any:
    """x, and 1 where it is 0."""
    return jnp.where(x == 0, 1.0, x)


def _at_least_one(x: Any) -> Any:
    return el.stop_gradient(jnp.maximum(jnp.abs(x), 1.0))


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.rint(x))


def _gamma_ratio(above: Any, below: Any) -> Any:
    """Γ(above) / Γ(below), 0 where `below` is a pole."""
    signs = [jnp.where((x > 0) | (jnp.remainder(jnp.floor(x), 2.0) == 0), 1.0, -1.0) for x in (above, below)]
    is_pole = _is_pole(below)
    safe = jnp.where(is_pole, 1.0, below)
    return jnp.where(is_pole, 0.0, signs[0] * signs[1] * jnp.exp(el.lgamma(above) - el.lgamma(safe)))


# --- Kummer -------------------------------------------------------------------------------------------


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    a, b, x = jnp.broadcast_arrays(a, b, x)
    # M(a, b, x) = e^x M(b − a, b, −x): no alternating signs
    first, size = jnp.where(x < 0, b - a, a), jnp.abs(x)
    reach = jnp.maximum(100.0, 4 * (jnp.abs(first) + 1) * (jnp.abs(b - first) + 1))
    is_far = (size > reach) & jnp.logical_not(_is_pole(first))
    near, far = jnp.where(is_far, 0.0, size), jnp.where(is_far, size, 100.0)
    safe_b = jnp.where(_is_pole(b), b + 0.5, b)
    series = _sum_series(
        lambda k: (first + k) / (safe_b + k) * (near / (k + 1)),
        lambda k: _at_least_one(first + k) / jnp.abs(safe_b + k) * (near / (k + 1)),
        near,
    )
    expansion, term = jnp.ones_like(far), jnp.ones_like(far)
    for k in range(40):
        following = term * ((b - first + k) * (1 - first + k) / ((k + 1) * far))
        smaller = jnp.abs(following) < jnp.abs(term)
        term = jnp.where(smaller, following, 0.0)
        expansion = expansion + term
    growth = jnp.exp(jnp.maximum(x, 0.0) + (first - safe_b) * jnp.log(far))
    away = _gamma_ratio(safe_b, jnp.where(is_far, first, 1.0)) * growth * expansion
    out = jnp.where(is_far, away, jnp.exp(jnp.minimum(x, 0.0)) * series)
    out = jnp.where(_is_pole(b), jnp.inf, out)
    return jnp.where((a == 0) | (x == 0), 1.0 + 0 * out * 0, out)


# --- Gauss --------------------------------------------------------------------------------------------


def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    a, b, c, x = jnp.broadcast_arrays(a, b, c, x)
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    is_polynomial = _is_pole(a) | _is_pole(b)
    # F(a, b; c; x) = (1 − x)^−a F(a, c − b; c; x / (x − 1)); `distance` is that from 1
    turned = (x < 0) & jnp.logical_not(is_polynomial)
    negative = jnp.where(turned, x, 0.0)
    second = jnp.where(turned, c - b, b)
    distance = jnp.where(turned, 1 / (1 - negative), 1 - x)
    z = jnp.where(turned, negative / (negative - 1), x)
    z = jnp.where(is_polynomial, z, jnp.clip(z, 0.0, 0.5))
    value, slope = _near_zero(a, second, c, z)
    continued = jnp.logical_not(is_polynomial) & (distance < 0.5) & (distance > 0)
    value = jnp.where(continued, _towards_one(a, second, c, jnp.where(continued, distance, 0.5), value, slope), value)
    excess = c - a - second
    at_one = _gamma_ratio(c, c - a) * _gamma_ratio(jnp.where(excess > 0, excess, 1.0), c - second)
    grows = excess < 0  # as Γ(c) Γ(a + b − c) / (Γ(a) Γ(b)) times an infinite power
    growth = _gamma_ratio(c, a) * _gamma_ratio(jnp.where(grows, -excess, 1.0), second)
    at_one = jnp.where(excess > 0, at_one, jnp.where(growth < 0, -jnp.inf, jnp.inf))
    value = jnp.where((distance == 0) & jnp.logical_not(is_polynomial), at_one, value)
    value = jnp.where(turned, jnp.power(1 - negative, -a), 1.0) * value
    value = jnp.where((x > 1) & jnp.logical_not(is_polynomial), jnp.inf, value)
    ends_before = is_polynomial & (jnp.where(_is_pole(a), jnp.where(_is_pole(b), b, a), b) > c)
    value = jnp.where(_is_pole(c) & jnp.logical_not(ends_before), jnp.inf, value)
    return jnp.where((a == 0) | (b == 0) | (x == 0), 1.0, jnp.where(jnp.isnan(a + b + c + x), jnp.nan, value))


def _near_zero(a: Any, b: Any, c: Any, z: Any) -> tuple[Any, Any]:
    """F and F′ at |z| ≤ 1/2, and of polynomials anywhere."""

    def series(a: Any, b: Any, c: Any) -> Any:
        reach = jnp.minimum(jnp.abs(z), 0.5)
        return _sum_series(
            lambda k: (a + k) * (b + k) / _apart(c + k) * (z / (k + 1)),
            lambda k: _at_least_one(a + k) * _at_least_one(b + k) / jnp.abs(_apart(c + k)) * (reach / (k + 1)),
            z,
        )

    return series(a, b, c), a * b / _apart(c) * series(a + 1, b + 1, c + 1)


def _towards_one(a: Any, b: Any, c: Any, distance: Any, value: Any, slope: Any) -> Any:
    """F at 1 − distance from F and F′ at 1/2: by Taylor's series, each of which halves the distance from 1."""

    def unfinished(state: Any) -> Any:
        return jnp.any(state[0] > distance)

    def step(state: Any) -> Any:
        here, value, slope = state
        there = jnp.maximum(here / 2, distance)
        new_value, new_slope = _taylor(a, b, c, here, here - there, value, slope)
        active = here > distance
        return there, jnp.where(active, new_value, value), jnp.where(active, new_slope, slope)

    return while_loop(unfinished, step, (jnp.full_like(distance, 0.5), value, slope))[1]


def _taylor(a: Any, b: Any, c: Any, distance: Any, h: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    """F and F′ at z + h, z = 1 − distance, from those at z: z (1 − z) F″ + (c − (a + b + 1) z) F′ = a b F."""
    z = 1 - distance
    product, tilt, drift = z * distance, 2 * distance - 1, c - (a + b + 1) * z

    def step(i: Any, state: Any) -> Any:
        k = jnp.asarray(i, h.dtype)
        before, last, total, weighted = state  # the series' terms k and k + 1; the sums of terms, and of k times them
        following = (k + a) * (k + b) * h * before - (k + 1) * (k * tilt + drift) * last
        following = following * (h / product) / ((k + 2) * (k + 1))
        return last, following, total + following, weighted + (k + 2) * following

    first = slope * h
    _, _, total, weighted = fori_loop(0, 80, step, (value, first, value + first, first))
    return total, jnp.where(h == 0, slope, weighted / _apart(h))
