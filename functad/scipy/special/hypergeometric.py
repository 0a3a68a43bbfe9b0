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
from functad.scipy.special.gamma_ratios import is_pole, sign_of_gamma
from functad.scipy.special.slopes import exactly, with_slope
from functad.scipy.special.widening import in_float64

_MOST_TERMS = 3000
_EPSILON = 2.0**-54
_SHORTEST = 0.125  # series are summed as far as for this x at least: derivatives at 0 are later terms


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


def _sum_series(ratio: Callable[[Any], Any], bound: Callable[[Any], Any], shape_of: Any) -> tuple[Any, Any]:
    """Σ t_k = 1 + r(0) + r(0) r(1) + … and Σ k t_k, until a bound of every term, whose ratios are these, is small."""

    def unfinished(state: Any) -> Any:
        k, _, total, _, size = state
        return (k < _MOST_TERMS) & jnp.any((size > _EPSILON * jnp.abs(total)) & jnp.isfinite(total))

    def step(state: Any) -> Any:
        k, term, total, weighted, size = state
        term = term * ratio(k)
        return k + 1, term, total + term, weighted + (k + 1) * term, size * bound(k)

    one = jnp.ones_like(shape_of)
    start = (jnp.asarray(0.0, one.dtype), one, one, jnp.zeros_like(one), one)
    _, _, total, weighted, _ = while_loop(unfinished, step, start)
    return total, weighted


def _apart(x: Any) -> Any:
    """x, and 1 where it is 0."""
    return jnp.where(x == 0, 1.0, x)


def _at_least_one(x: Any) -> Any:
    return el.stop_gradient(jnp.maximum(jnp.abs(x), 1.0))


def _gamma_ratio(above: Any, below: Any) -> Any:
    """Γ(above) / Γ(below), 0 where `below` is a pole."""
    safe = jnp.where(is_pole(below), 1.0, below)
    ratio = sign_of_gamma(above) * sign_of_gamma(safe) * jnp.exp(el.lgamma(above) - el.lgamma(safe))
    return jnp.where(is_pole(below), 0.0, ratio)


# --- Kummer -------------------------------------------------------------------------------------------


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    a, b, x = jnp.broadcast_arrays(a, b, x)
    # M(a, b, x) = e^x M(b − a, b, −x): no alternating signs
    is_negative = x < 0
    first, size = jnp.where(is_negative, b - a, a), jnp.where(is_negative, -x, x)
    reach = jnp.maximum(100.0, 4 * (jnp.abs(first) + 1) * (jnp.abs(b - first) + 1))
    is_far = (size > reach) & jnp.logical_not(is_pole(first))
    near, far = jnp.where(is_far, 0.0, size), jnp.where(is_far, size, 100.0)
    safe_b = jnp.where(is_pole(b), b + 0.5, b)
    series, _ = _sum_series(
        lambda k: (first + k) / (safe_b + k) * (near / (k + 1)),
        lambda k: _at_least_one(first + k) / jnp.abs(safe_b + k) * (jnp.maximum(near, _SHORTEST) / (k + 1)),
        near,
    )
    close = jnp.where(is_negative, jnp.exp(jnp.where(is_negative, x, 0.0)), 1.0) * series
    expansion, term = jnp.ones_like(far), jnp.ones_like(far)
    for k in range(40):
        following = term * ((b - first + k) * (1 - first + k) / ((k + 1) * far))
        smaller = jnp.abs(following) < jnp.abs(term)
        term = jnp.where(smaller, following, 0.0)
        expansion = expansion + term
    growth = jnp.exp(jnp.maximum(x, 0.0) + (first - safe_b) * jnp.log(far))
    away = _gamma_ratio(safe_b, jnp.where(is_far, first, 1.0)) * growth * expansion
    out = jnp.where(is_far, away, close)
    return jnp.select(
        [jnp.isnan(a + b + x), is_pole(b), a == 0], [jnp.nan, jnp.inf, exactly(jnp.ones_like(out), out)], out
    )


# --- Gauss --------------------------------------------------------------------------------------------


def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    a, b, c, x = jnp.broadcast_arrays(a, b, c, x)
    in_order = a <= b
    a, b = jnp.where(in_order, a, b), jnp.where(in_order, b, a)
    below = _below_one(a, b, c, jnp.where(x < 1, x, 0.0))
    # A polynomial is exact, but has the slopes in a and b of functions that are none.
    polynomial, _ = _series(a, b, c, jnp.where(is_pole(a) | is_pole(b), x, 0.0))
    polynomial = jnp.where((x < 1) & jnp.logical_not(is_pole(c)), exactly(polynomial, below), polynomial)
    last = jnp.where(is_pole(a) & jnp.logical_not(is_pole(b)), a, b)  # −degree
    is_one = (a == 0) | (b == 0) | (x == 0)
    cases = [
        (jnp.isnan(a + b + c + x), jnp.where(is_one, 1.0, jnp.nan)),
        (is_pole(c) & is_one, 1.0),
        (is_pole(c) & jnp.logical_not(is_pole(last) & (last > c)), jnp.inf),
        (is_pole(last), polynomial),
        (x > 1, jnp.inf),
        (x == 1, _at_one(a, b, c, x)),
    ]
    return jnp.select([where for where, _ in cases], [value for _, value in cases], below)


def _series(a: Any, b: Any, c: Any, z: Any) -> tuple[Any, Any]:
    """F and z F′ at |z| ≤ 1/2, and of polynomials anywhere."""
    reach = el.stop_gradient(jnp.clip(jnp.abs(z), _SHORTEST, 0.5))
    return _sum_series(
        lambda k: (a + k) * (b + k) / _apart(c + k) * (z / (k + 1)),
        lambda k: _at_least_one(a + k) * _at_least_one(b + k) / jnp.abs(_apart(c + k)) * (reach / (k + 1)),
        z,
    )


def _below_one(a: Any, b: Any, c: Any, x: Any) -> Any:
    """F at x < 1, c no pole: by F(a, b; c; x) = (1 − x)^−a F(a, c − b; c; x / (x − 1)) where x is negative."""
    turned = x < 0
    negative, second = jnp.where(turned, x, 0.0), jnp.where(turned, c - b, b)
    z = jnp.where(turned, negative / (negative - 1), x)
    distance = jnp.where(turned, 1 / (1 - negative), 1 - x)  # of z from 1
    is_near = z <= 0.5
    value, slope = _series(a, second, c, jnp.where(is_near, z, 0.5))
    value = jnp.where(is_near, value, _towards_one(a, second, c, jnp.where(is_near, 0.5, distance), value, 2 * slope))
    return jnp.where(turned, jnp.power(1 - negative, -a), 1.0) * value


def _at_one(a: Any, b: Any, c: Any, x: Any) -> Any:
    """F at 1, Γ(c) Γ(c − a − b) / (Γ(c − a) Γ(c − b)) or infinite; its slope is a b / c F(a + 1, b + 1; c + 1; 1)."""

    def value(a: Any, b: Any, c: Any) -> Any:
        excess = c - a - b
        found = _gamma_ratio(c, c - a) * _gamma_ratio(jnp.where(excess > 0, excess, 1.0), c - b)
        grows = excess < 0  # as Γ(c) Γ(a + b − c) / (Γ(a) Γ(b)) times an infinite power
        growth = _gamma_ratio(c, a) * _gamma_ratio(jnp.where(grows, -excess, 1.0), b)
        return jnp.where(excess > 0, found, jnp.where(growth < 0, -jnp.inf, jnp.inf))

    is_taken = (x == 1) & jnp.logical_not(is_pole(a) | is_pole(b) | is_pole(c))
    slope = jnp.where(is_taken, a * b / _apart(c) * value(a + 1, b + 1, c + 1), 0.0)
    return with_slope(value(a, b, c), slope, x)


def _towards_one(a: Any, b: Any, c: Any, distance: Any, value: Any, slope: Any) -> Any:
    """F at 1 − distance from F and F′ at 1/2: by Taylor's series, each of which halves the distance from 1."""

    def unfinished(state: Any) -> Any:
        return jnp.any(state[0] > distance)

    def step(state: Any) -> Any:
        here, value, slope = state
        there = jnp.where(here / 2 > distance, here / 2, distance)
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
