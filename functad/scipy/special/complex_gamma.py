"""The gamma function of complex numbers, and its logarithm, in complex128.

Knows Stirling's formula, the recurrence that leads to where it is accurate, and the reflection on the left.
"""

from __future__ import annotations

import math
from typing import Any

from functad import numpy as jnp
from functad.api import jvp
from functad.custom_derivatives import custom_jvp
from functad.primitives import elementwise as el
from functad.scipy.special.gamma_ratios import sign_of_gamma, stirling_correction

_SHIFT = 10


def log_gamma(z: Any) -> Any:
    """log Γ(z), analytic off the negative real axis, on which it is the limit from above; NaN at poles."""
    x, y = jnp.real(z), jnp.imag(z)
    mirrored = x < 0
    w = jnp.where(mirrored, 1 - z, z)
    shifted = w + _SHIFT
    stirling = (shifted - 0.5) * jnp.log(shifted) - shifted + 0.5 * math.log(2 * math.pi)
    right = (stirling + stirling_correction(shifted)) - sum(jnp.log(w + k) for k in range(_SHIFT))
    # log Γ(z) = log π − log sin(πz) − log Γ(1 − z), and sin(πz) = (is/2) e^(−iπsz) (1 − e^(2πisz)) with s = ±1,
    # of whose factors none has a cut in the half-plane where s is the sign of Im z.
    turn = jnp.where(jnp.signbit(y), -1j, 1j).astype(z.dtype) * math.pi
    factor = -jnp.expm1(2 * turn * (z - jnp.rint(x)))
    log_sine = jnp.log(jnp.where(mirrored, factor, 1.0)) - turn * (z - 0.5) - math.log(2)
    out = jnp.where(mirrored, math.log(math.pi) - log_sine - right, right)
    return jnp.where(_is_pole(x, y), complex(math.nan, math.nan), out)


@custom_jvp
def gamma(z: Any) -> Any:
    """Γ(z); real on the real axis."""
    x, y = jnp.real(z), jnp.imag(z)
    on_axis = sign_of_gamma(x) * jnp.exp(el.lgamma(x))
    value = jnp.exp(log_gamma(jnp.where(_is_pole(x, y), 1.0, z)))
    value = jnp.where(y == 0, el.complex(on_axis, jnp.zeros_like(x)), value)
    return jnp.where(_is_pole(x, y), complex(math.nan, math.nan), value)


@gamma.defjvp
def _gamma_jvp(primals: Any, tangents: Any) -> Any:
    out = gamma(*primals)
    return out, out * jvp(log_gamma, primals, tangents)[1]  # dΓ(z) = Γ(z) d log Γ(z)


def _is_pole(x: Any, y: Any) -> Any:
    return (y == 0) & (x <= 0) & (x == jnp.floor(x))
