"""The Faddeeva function w(z) = e^(−z²) erfc(−iz), and Dawson's integral, a part of it on the real axis.

Knows the trapezoidal rule for w's integral, corrected for the pole of the integrand: M. Al Azah and S. N.
Chandler-Wilde, "Computation of the complex error function using modified trapezoidal rules" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from functad import numpy as jnp
from functad.api import jvp
from functad.array import Array
from functad.custom_derivatives import custom_jvp
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.scipy.special.normals import FAR, far_series
from functad.scipy.special.widening import in_float64

_POINTS = 12
_STEP = math.sqrt(math.pi / _POINTS)
_AT_STEPS = [k * _STEP for k in range(1, _POINTS)]
_BETWEEN = [(k + 0.5) * _STEP for k in range(_POINTS)]
_FAR = 1e8  # from here on w is i/(√π z) to the last digit
_NO_POLE = 60.0  # e^−60 is nothing beside w, which falls as 1/z


def wofz(z: Any) -> Array:
    """e^(−z²) erfc(−iz), the Faddeeva function, element-wise; always complex.

    >>> wofz(1.0).round(4)
    Array(0.3679+0.6072j, dtype=complex64)
    """
    (z,) = promote_args_inexact("wofz", z)
    return in_float64("wofz", _wofz, z, of_complex=_wofz) if jnp.iscomplexobj(z) else wofz(z + 0j)


def dawsn(x: Any) -> Array:
    """e^(−x²) times the integral of e^(t²) from 0 to x, Dawson's integral, element-wise.

    >>> dawsn(1.0)
    Array(0.5380795, dtype=float32)
    """
    return in_float64("dawsn", _dawsn, x)


@custom_jvp
def _wofz(z: Any) -> Any:
    x, y = jnp.real(z), jnp.imag(z)
    is_lower = y < 0
    upper_x, upper_y = jnp.where(is_lower, -x, x), jnp.abs(y)
    real, imag = _first_quadrant(jnp.abs(upper_x), upper_y)
    imag = jnp.where(upper_x < 0, -imag, imag)  # w(−z̄) = w̄(z)
    twice_x, twice_y = _gaussian(x, y)
    real = jnp.where(is_lower, 2 * twice_x - real, real)  # w(−z) = 2e^(−z²) − w(z)
    imag = jnp.where(is_lower, 2 * twice_y - imag, imag)
    return el.complex(real, imag)


@_wofz.defjvp
def _wofz_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    out, scale = _wofz(z), 1j / math.sqrt(math.pi)
    is_far = (jnp.abs(z) > FAR) & (jnp.imag(z) >= 0)
    return out, t * _slope(lambda z: 2 * scale - 2 * z * out, lambda z: scale * far_series(z, 1), is_far, z)


@custom_jvp
def _dawsn(x: Any) -> Any:
    size = jnp.abs(x)
    _, imag = _first_quadrant(size, jnp.zeros_like(size))
    return jnp.copysign(imag * (math.sqrt(math.pi) / 2), x)


@_dawsn.defjvp
def _dawsn_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = _dawsn(x)
    return out, t * _slope(lambda x: 1 - 2 * x * out, lambda x: 0.5 * far_series(x, 1), jnp.abs(x) > FAR, x)


def _slope(near: Callable[[Any], Any], series: Callable[[Any], Any], is_far: Any, x: Any) -> Any:
    """A slope by its formula, of which the terms cancel far out: there it is that of the series."""
    far = jnp.where(is_far, x, FAR)
    _, far_slope = jvp(series, (far,), (jnp.ones_like(far),))
    return jnp.where(is_far, far_slope, near(jnp.where(is_far, 0.0, x)))


def _gaussian(x: Any, y: Any) -> tuple[Any, Any]:
    """The parts of e^(−z²), where it overflows too."""
    size, angle = jnp.exp((y - x) * (y + x)), 2 * x * jnp.where(x == 0, jnp.sign(y), y)
    sine = jnp.sin(angle)
    return size * jnp.cos(angle), jnp.where(sine == 0, -sine, -size * sine)


def _first_quadrant(x: Any, y: Any) -> tuple[Any, Any]:
    """The parts of w(x + iy) for x, y ≥ 0."""
    far = (x > _FAR) | (y > _FAR)
    near_x, near_y = jnp.where(far, 1.0, x), jnp.where(far, 1.0, y)
    z = el.complex(near_x, near_y)
    place = near_x / _STEP
    fraction = place - jnp.floor(place)
    high = near_y >= jnp.maximum(near_x, math.pi / _STEP)  # the pole is so far that the rule needs no correction
    at_steps = ~high & (near_y < near_x) & (fraction >= 0.25) & (fraction <= 0.75)
    # w(z) = i/π ∫ e^(−t²) / (z − t) dt, by points of distance h: at multiples of h, or halfway between them, whichever
    # are farther from z; what these rules miss is the residue of the pole, 2e^(−z²) / (1 ∓ e^(−2πiz/h)).
    safe = jnp.where(at_steps, z, 1.0)
    steps = 1 / safe + 2 * safe * sum(math.exp(-t * t) / (safe * safe - t * t) for t in _AT_STEPS)
    safe = jnp.where(at_steps, 1.0, z)
    between = 2 * safe * sum(math.exp(-t * t) / (safe * safe - t * t) for t in _BETWEEN)
    rule = jnp.where(at_steps, steps, between) * (1j * _STEP / math.pi)
    without = high | (near_y * (2 * math.pi / _STEP) > _NO_POLE)
    low = jnp.where(without, 0.0, near_y)
    turn = jnp.exp(el.complex(low * (2 * math.pi / _STEP), -2 * math.pi * fraction))
    residue = 2 * el.complex(*_gaussian(near_x, low)) / (1 + jnp.where(at_steps, -turn, turn))
    near = rule + jnp.where(without, 0.0, residue)
    radius = jnp.hypot(x, y)
    real, imag = ((part / radius) / (math.sqrt(math.pi) * radius) for part in (y, x))
    is_infinite = jnp.isinf(radius)
    real, imag = (jnp.where(is_infinite, 0.0, part) for part in (real, imag))
    return jnp.where(far, real, jnp.real(near)), jnp.where(far, imag, jnp.imag(near))
