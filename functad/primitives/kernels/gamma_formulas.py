"""Formulas of the gamma function's logarithm and of its derivative, in float64, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.primitives.kernels import gamma_coefficients as table
from functad.primitives.kernels.vector_math import log, log_in_two, polynomial

_F64 = np.float64


def lgamma(k: Any, x: Any) -> Any:
    """ln |Γ(x)|, infinite at the poles; below −1/4 a difference, whose errors are those of its terms."""
    return k.rarely(x < -0.25, lgamma_on_the_right(k, x), _lgamma_on_the_left, x)


def _lgamma_on_the_left(k: Any, x: Any) -> Any:
    """ln |Γ(x)| for x < −1/4, as Γ(x) Γ(−x) = −π / (x sin(πx))."""
    size = k.absolute(x)
    upper, sine, cosine = _turn(k, size)
    mirrored = -log(k, size * k.where(upper, cosine * (1 / math.pi), sine)) - lgamma_on_the_right(k, size)
    return k.where(x == k.rint(x), k.constant(np.inf, _F64), mirrored)


def lgamma_on_the_right(k: Any, x: Any) -> Any:
    """ln |Γ(x)| for x ≥ −1/4.

    Up to 5/2 a multiple of (x − 1) (x − 2), with ln |Γ(x)| = ln Γ(1 + x) − ln |x| up to 3/4; then Stirling's formula.
    """
    near, far = x < 0.75, x >= 2.5
    v, t = k.where(near, x, x - 1), x - 0.5
    high, low = log_in_two(k, k.where(near, k.absolute(x), t))
    inverse = 1 / t
    ratio = _ratio(k, far, v, inverse * inverse, table.LGAMMA_NUMERATORS, table.LGAMMA_DENOMINATORS)
    w = k.where(v < 0.5, -v, v - 1)  # the distance from the nearer zero; (v − 1) v = w + w²
    middle = k.fma(w, k.fma(w + 1, ratio, 0.5 * w), 0.5 * w)
    constant = [k.constant(part, _F64) for part in table.HALF_LOG_TWO_PI]
    stirling = k.fma(t, high - 1, constant[0]) + k.fma(t, low, k.fma(ratio, inverse, constant[1]))
    value = k.where(far, stirling, k.where(near, (middle - low) - high, middle))
    return k.where(x < np.inf, k.where(x == 0, k.constant(np.inf, _F64), value), x)


def digamma(k: Any, x: Any) -> Any:
    """ψ(x), the derivative of ln Γ(x); NaN at the poles. Below 0 a difference, whose errors are those of its terms."""
    size, whole = k.absolute(x), k.rint(x)
    upper, sine, cosine = _turn(k, size)
    # ψ(x) = ψ(1 − x) − π cot(πx)
    above = k.copysign(k.where(upper, sine * math.pi**2, cosine), x - whole)
    value = _digamma(k, x, above, k.where(upper, cosine, sine))
    return k.where((x < 0) & (whole == x), k.constant(np.nan, _F64), value)


def digamma_on_the_right(k: Any, x: Any) -> Any:
    """ψ(x) for x ≥ 0."""
    return _digamma(k, x, k.constant(1, _F64), x)


def _digamma(k: Any, x: Any, above: Any, below: Any) -> Any:
    """ψ(x), where above / below is π cot(πx) for x < 0; below 1 by ψ(x) = ψ(1 + x) − 1/x."""
    size, one = k.absolute(x), k.constant(1, _F64)
    v = k.where(x < 1, size, x - 1)
    t, far = v + 0.5, v >= 1.5
    high, low = log_in_two(k, t)
    s = 1 / (t * t)
    ratio = _ratio(k, far, v, s, table.DIGAMMA_NUMERATORS, table.DIGAMMA_DENOMINATORS)
    distance = (v - table.DIGAMMA_ROOT[0]) - table.DIGAMMA_ROOT[1]
    middle = k.fma(distance, k.constant(table.DIGAMMA_SLOPE, _F64), distance * ratio)
    value = k.where(far, high + k.fma(s, ratio, low), middle)
    negative = x < 0
    term = k.where(negative, above, one) / k.where(negative, below, x)
    value = k.where(x < 1, value - term, value)
    return k.where(x == 0, k.constant(np.nan, _F64), k.where(size < np.inf, value, x))


def _ratio(k: Any, far: Any, near_z: Any, far_z: Any, numerators: Any, denominators: Any) -> Any:
    """P(z) / Q(z), of the first polynomials at one point, or where `far` of the second at another."""
    z = k.where(far, far_z, near_z)

    def chosen(pairs: Sequence[Sequence[float]]) -> Any:
        total = k.constant(0, _F64)
        for near, beyond in zip(*pairs):
            total = k.fma(total, z, k.where(far, k.constant(beyond, _F64), k.constant(near, _F64)))
        return total

    return chosen(numerators) / chosen(denominators)


def _turn(k: Any, size: Any) -> tuple[Any, Any, Any]:
    """Whether d, the distance from an integer, is > 1/4; with y = d, or 1/2 − d if it is, sin(πy)/π and cos(πy)."""
    distance = k.absolute(size - k.rint(size))
    upper = distance > 0.25
    y = k.where(upper, 0.5 - distance, distance)
    z = y * y
    sine = k.fma(y * z, polynomial(k, z, table.SINE_OF_TURNS), y)
    return upper, sine, k.fma(z, polynomial(k, z, table.COSINE_OF_TURNS), k.constant(1, _F64))
