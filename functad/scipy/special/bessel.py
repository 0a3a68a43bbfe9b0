"""Modified Bessel functions of orders 0 and 1, and those of the first kind of all orders up to one.

Knows how those scaled by e^−|x|, which are primitives, make the others; and the recurrence of orders, both ways.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import custom_jvp
from functad.errors import ArgumentError
from functad.lax import scan
from functad.numpy.bessel import bessel_i0, bessel_i1
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.primitives import incomplete
from functad.scipy.special.exponential_integrals import power_series
from functad.scipy.special.widening import in_float64


def i0(x: Any) -> Array:
    """I0(x), element-wise.

    >>> i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return in_float64("i0", bessel_i0, x, stays_weak=True)


def i0e(x: Any) -> Array:
    """e^−|x| I0(x), element-wise.

    >>> i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return incomplete.bessel_i0e(*promote_args_inexact("i0e", x))


def i1(x: Any) -> Array:
    """I1(x), element-wise.

    >>> i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return in_float64("i1", bessel_i1, x, stays_weak=True)


def i1e(x: Any) -> Array:
    """e^−|x| I1(x), element-wise.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return incomplete.bessel_i1e(*promote_args_inexact("i1e", x))


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Array:
    """J₀(z) … J_v(z), the Bessel functions of the first kind, stacked along a new first axis.

    Args:
        z: real, of any shape.
        v: the last order, an integer ≥ 0.
        n_iter: up to |z| = n_iter, and at least 50 and v, orders are gone through downwards; beyond upwards.

    Returns:
        An array of shape (v + 1, *z.shape).

    >>> bessel_jn(jnp.asarray([1.0]), v=1)[:, 0]
    Array([0.7651977 , 0.44005057], dtype=float32)
    """
    if not all(isinstance(k, int) and k >= 0 for k in (v, n_iter)):
        raise ArgumentError(f"bessel_jn: v and n_iter must be integers that are not negative, got {v!r} and {n_iter!r}")
    return in_float64("bessel_jn", lambda z: first_kind(v, max(n_iter, v, 50), z), z)


# --- the first kind -----------------------------------------------------------------------------------


@partial(custom_jvp, nondiff_argnums=(0, 1))
def first_kind(v: int, most: int, z: Any) -> Any:
    size = jnp.abs(z)
    downwards = _downwards(v, most, jnp.clip(size, 1e-8, float(most)))
    upwards = _upwards(v, jnp.clip(size, float(most), 1e300))
    orders = jnp.arange(v + 1, dtype=z.dtype).reshape((v + 1,) + (1,) * z.ndim)
    tiny = jnp.power((jnp.minimum(size, 1.0) / 2)[None], orders) / jnp.exp(el.lgamma(orders + 1))
    out = jnp.where(size > most, jnp.where(size < jnp.inf, upwards, 0.0), downwards)
    out = jnp.where(size < 1e-8, tiny, jnp.where(jnp.isnan(z), z, out))
    return jnp.where((z < 0)[None] & (jnp.remainder(orders, 2.0) == 1), -out, out)


@first_kind.defjvp
def _first_kind_jvp(v: int, most: int, primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    values = first_kind(v + 1, max(most, v + 1), z)
    below = jnp.concatenate([-values[1:2], values[:v]])  # J₋₁ = −J₁
    return values[: v + 1], t[None] * 0.5 * (below - values[1:])  # dJ_k = (J_(k−1) − J_(k+1)) / 2 dz


def _downwards(v: int, most: int, z: Any) -> Any:
    """Miller's algorithm for 1e-8 ≤ z ≤ most: J_k ∝ values that start far above, and J₀ + 2 J₂ + 2 J₄ + … = 1."""
    first = most + 20 + 10 * math.ceil(most ** (1 / 3))

    def step(carry: Any, k: Any) -> Any:
        above, here, total, scalings = carry
        below = 2 * (k + 1) / z * here - above
        is_large = jnp.abs(below) > _LARGE
        above, here, total = (jnp.where(is_large, a / _LARGE, a) for a in (here, below, total))
        total = total + jnp.where(jnp.remainder(k, 2.0) == 0, jnp.where(k == 0, 1.0, 2.0), 0.0) * here
        scalings = scalings + is_large.astype(z.dtype)
        return (above, here, total, scalings), (here, scalings)

    zero = jnp.zeros_like(z)
    start = (zero, zero + 1e-200, zero, zero)
    middle, _ = scan(lambda c, k: (step(c, k)[0], None), start, jnp.arange(first, v, -1, dtype=z.dtype))
    (_, _, total, all_scalings), (values, scalings) = scan(step, middle, jnp.arange(v, -1, -1, dtype=z.dtype))
    missing = all_scalings[None] - scalings
    for i in range(3):  # three of them underflow in any case
        values = jnp.where(missing > i, values / _LARGE, values)
    return jnp.flip(values, 0) / total[None]


_LARGE = 1e150


def _upwards(v: int, z: Any) -> Any:
    """From J₀ and J₁ by Hankel's expansions (DLMF 10.17.3), for z ≥ 50 and z ≥ v."""
    sin, cos = jnp.sin(z), jnp.cos(z)
    scale = 1 / (math.sqrt(math.pi) * jnp.sqrt(z))
    (p, q), (r, s) = (hankel_parts(order, z) for order in (0, 1))
    first = scale * (p * (cos + sin) - q * (sin - cos))  # the angles z − π/4 and z − 3π/4, times √2
    second = scale * (r * (sin - cos) + s * (sin + cos))

    def step(carry: Any, k: Any) -> Any:
        below, here = carry
        return (here, 2 * k / z * here - below), here

    _, values = scan(step, (first, second), jnp.arange(1, v + 1, dtype=z.dtype))
    return jnp.concatenate([first[None], values])


def hankel_parts(order: int, z: Any) -> tuple[Any, Any]:
    terms = [1.0]
    for k in range(1, 22):
        terms.append(terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    signed = [(-1) ** (k // 2) * term for k, term in enumerate(terms)]
    inverse = 1 / z
    square = inverse * inverse
    return power_series(signed[::2], square), inverse * power_series(signed[1::2], square)
