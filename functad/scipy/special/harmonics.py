"""Spherical harmonics.

Knows the recurrence of normalised associated Legendre functions over degrees.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError, TracerError
from functad.lax import scan
from functad.numpy.promotion import promote_args_inexact
from functad.tracing import Tracer


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None) -> Array:
    """The spherical harmonic of degree n and order m, orthonormal on the sphere, element-wise.

    Args:
        n, m: integers, |m| ≤ n.
        theta: the angle from the pole, 0 to π.
        phi: the angle around the axis.
        diff_n: accepted for SciPy's sake; only None.
        n_max: the largest degree; needed where n is traced. Larger degrees are taken for it.

    Returns:
        A complex array of the shape to which all of them broadcast, of rank 1 at least.

    Raises:
        ShapeError: they do not broadcast.
        TracerError: n is traced, and `n_max` not given.
        ArgumentError: `diff_n` is given.

    >>> sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.0]), jnp.array([0.0]))
    Array([0.4886025+0.j], dtype=complex64)
    """
    if diff_n is not None:
        raise ArgumentError("sph_harm_y: there is no diff_n: differentiate with functad.grad or functad.jvp")
    if n_max is None:
        if isinstance(n, Tracer):
            raise TracerError("sph_harm_y: give n_max=, the largest degree as a Python integer, where n is traced")
        n_max = int(np.max(np.asarray(n), initial=0))
    theta, phi = promote_args_inexact("sph_harm_y", theta, phi)
    n, m, theta, phi = jnp.broadcast_arrays(jnp.asarray(n), jnp.asarray(m), jnp.atleast_1d(theta), jnp.asarray(phi))
    order = jnp.abs(m)
    legendre = _legendre(n_max, jnp.minimum(n, n_max), order, theta)
    angle = order.astype(phi.dtype) * phi
    sign = jnp.where((m < 0) & (order % 2 == 1), -1.0, 1.0)  # Y(n, −m) = (−1)^m conj Y(n, m)
    turned = jnp.where(m < 0, -1.0, 1.0) * jnp.sin(angle)
    size = sign.astype(theta.dtype) * legendre
    return jnp.asarray(size * jnp.cos(angle) + 1j * (size * turned.astype(theta.dtype)))


def _legendre(n_max: int, n: Any, m: Any, theta: Any) -> Any:
    """P(n, m) of cos θ, normalised, with the sign (−1)^m of Condon and Shortley; 0 for m > n."""
    degree, order = n.astype(theta.dtype), m.astype(theta.dtype)
    cosine, sine = jnp.cos(theta), jnp.sin(theta)

    def step(carry: Any, k: Any) -> Any:
        before, last, diagonal, out = carry
        grow = jnp.sqrt((2 * k + 1) / jnp.maximum(2 * k, 1.0))
        diagonal = jnp.where((k > 0) & (k <= order), -grow * sine * diagonal, diagonal)
        is_above = k > order
        squares = jnp.where(is_above, k * k - order * order, 1.0)
        slope = jnp.sqrt(jnp.maximum(4 * k * k - 1, 0.0) / squares)
        inner = jnp.where(is_above, (k - 1) * (k - 1) - order * order, 0.0)
        damp = jnp.sqrt(jnp.maximum(inner, 0.0) / jnp.maximum(4 * (k - 1) * (k - 1) - 1, 1.0))
        value = jnp.where(is_above, slope * (cosine * last - damp * before), jnp.where(k == order, diagonal, 0.0))
        return (last, value, diagonal, jnp.where(k == degree, value, out)), None

    zero = jnp.zeros_like(theta)
    start = (zero, zero, zero + 1 / math.sqrt(4 * math.pi), zero)
    return scan(step, start, jnp.arange(n_max + 1, dtype=theta.dtype))[0][3]
