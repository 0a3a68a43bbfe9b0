"""Formulas of the logarithm of a sum of two powers, which vanishes where the larger operand cancels what is added.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.

Near its zeros up to 50 bits cancel, and 24 are to be left: there a float32 result comes from pairs of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.primitives.kernels.vector_math import exp, exp2, exp2_wide, log1p, log2_of_one_plus, polynomial

_F32, _F64 = np.float32, np.float64
_LOG2_E = 1.4426950408889634
_ROUNDER = 6755399441055744.0  # adding it rounds to an integer, which then stands in the lowest bits
_CANCELS = 2.0**-10  # of the larger operand: smaller results are computed from pairs

# (2^r − 1) / r for |r| ≤ 1/2, to 38 bits
_EXP2 = (
    *(1.325080551750225e-06, 1.5303700711365693e-05, 0.00015403475186530786, 0.0013333478473685416),
    *(0.00961812913523614, 0.055504109063258665, 0.24022650695888503, 0.6931471805568324),
)
# log1p(p) / p for 0 ≤ p ≤ 1, to 40 bits
_LOG1P = (
    *(0.00032552168604054284, -0.002799228584141647, 0.011320424011110997, -0.029010997546993378),
    *(0.05400414697999852, -0.08021112257135836, 0.1029723046589254, -0.12249774442965769),
    *(0.14229846053874007, -0.16657944946065484, 0.1999909826782333, -0.24999943207098252),
    *(0.3333333144208243, -0.4999999997492939, 0.999999999999444),
)
# ln(2) in three parts. Products with the first two are exact: of exponents, and of float32 numbers.
_LN2_FOR_EXPONENTS = (0.693147180559663, 2.8235290563014906e-13, 1.667085920830552e-25)
_LN2_FOR_SINGLES = (0.6931471787393093, 1.8206359961303598e-09, 2.373786426741311e-18)
_EXP_TAIL = (  # 1/11!, …, 1/5!
    *(2.505210838544172e-08, 2.755731922398589e-07, 2.7557319223985893e-06, 2.48015873015873e-05),
    *(0.0001984126984126984, 0.001388888888888889, 0.008333333333333333),
)
_EXP_HEAD = (  # 1/4!, …, 1
    *((0.041666666666666664, 2.3129646346357427e-18), (0.16666666666666666, 9.25185853854297e-18)),
    *((0.5, 0.0), (1.0, 0.0)),
)
_HALVINGS = 4  # of the argument of e^x − 1, whose square then counts little

Unrounded = tuple[Any, Any]  # a number, and what it has rounded off


def logaddexp(k: Any, x: Any, y: Any) -> Any:
    """ln(e^x + e^y)."""
    return _log_add(k, x, y, _LOG2_E, lambda gap: log1p(k, exp(k, -gap)), logaddexp_near_zero)


def logaddexp2(k: Any, x: Any, y: Any) -> Any:
    """log2(2^x + 2^y)."""
    return _log_add(k, x, y, 1.0, lambda gap: log2_of_one_plus(k, exp2(k, -gap)), logaddexp2_near_zero)


def _log_add(k: Any, x: Any, y: Any, scale: float, excess: Callable[[Any], Any], near: Callable[..., Any]) -> Any:
    """The larger of x and y, and what the smaller adds to it, by the distance of the two; scale = log2 of the base."""
    distance = x - y
    if x.dtype == _F64 or k.is_zero(x) or k.is_zero(y):
        total = k.maximum(x, y) + excess(k.absolute(distance))
    else:  # two float32 numbers may cancel, and their distance is rounded: not so in softplus
        total = _by_float64(k, x, y, scale, near)
    return k.where(distance == distance, total, x + y)  # ∞ − ∞ is no number, but equal infinities are their own sum


def _by_float64(k: Any, x: Any, y: Any, scale: float, near: Callable[..., Any]) -> Any:
    wide_x, wide_y = k.cast(x, _F64), k.cast(y, _F64)
    larger = k.maximum(wide_x, wide_y)
    power = exp2_wide(k, -scale * k.absolute(wide_x - wide_y), _EXP2)
    added = power if scale == _LOG2_E else power * _LOG2_E
    total = k.fma(added, polynomial(k, power, _LOG1P), larger)
    return k.rarely(cancels(k, larger, total), k.cast(total, _F32), near, x, y)


def cancels(k: Any, larger: Any, total: Any) -> Any:
    """Whether the total, a float64 that the larger operand is part of, has lost too many bits."""
    return k.absolute(total) < _CANCELS * k.absolute(larger)


# --- near the zeros ---------------------------------------------------------------------------------


def logaddexp_near_zero(k: Any, x: Any, y: Any) -> Any:
    """ln(e^x + e^y) of float32 x and y, where that is far smaller than the larger one."""
    return _log_of_sum(*_strictly_wide(k, x, y), _excess_of_exp, 1.0)


def logaddexp2_near_zero(k: Any, x: Any, y: Any) -> Any:
    """log2(2^x + 2^y) of float32 x and y, where that is far smaller than the larger one."""
    return _log_of_sum(*_strictly_wide(k, x, y), _excess_of_exp2, _LOG2_E)


def _strictly_wide(k: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    k, x, y = k.strictly((x, y))
    return k, k.cast(x, _F64), k.cast(y, _F64)


def _log_of_sum(k: Any, x: Any, y: Any, excess: Callable[..., tuple[Any, Unrounded]], unit: float) -> Any:
    """unit · ln(1 + s), where 1 + s is the sum of both powers: 2^n + excess each, and s is small."""
    larger, smaller = excess(k, k.maximum(x, y)), excess(k, k.minimum(x, y))
    total, lost = (larger[0] - 1) + smaller[0], larger[1][1] + smaller[1][1]
    for part in (larger[1][0], smaller[1][0]):
        total, rounded_off = _two_sum(total, part)
        lost = lost + rounded_off
    s = total + lost
    return k.cast(unit * (s - s * s * (0.5 - s * (1 / 3 - 0.25 * s))), _F32)


def _excess_of_exp(k: Any, x: Any) -> tuple[Any, Unrounded]:
    """2^n and e^x − 2^n, for n near x / ln(2)."""
    with_rounder = x * _LOG2_E + _ROUNDER
    n = with_rounder - _ROUNDER
    high, middle, low = _LN2_FOR_EXPONENTS
    r = _two_sum(x - n * high, -(n * middle))
    return _scaled_excess(k, with_rounder, (r[0], r[1] - n * low))


def _excess_of_exp2(k: Any, x: Any) -> tuple[Any, Unrounded]:
    """2^n and 2^x − 2^n, for n near x."""
    with_rounder = x + _ROUNDER
    f = x - (with_rounder - _ROUNDER)
    high, middle, low = _LN2_FOR_SINGLES
    r = _two_sum(f * high, f * middle)
    return _scaled_excess(k, with_rounder, (r[0], r[1] + f * low))


def _scaled_excess(k: Any, with_rounder: Any, r: Unrounded) -> tuple[Any, Unrounded]:
    """2^n and 2^n (e^r − 1)."""
    power = k.from_bits((k.bits(with_rounder) << 52) + 0x3FF0000000000000, _F64)
    high, low = _expm1(k, r)
    return power, (power * high, power * low)


def _expm1(k: Any, x: Unrounded) -> Unrounded:
    """e^x − 1 for |x| ≤ ln(2) / 2."""
    part = 2.0**-_HALVINGS
    q = x[0] * part, x[1] * part
    tail = polynomial(k, q[0], _EXP_TAIL)
    series = tail, tail * 0
    for coefficient in _EXP_HEAD:
        product = _product(k, q, series)
        high, low = _two_sum(k.constant(coefficient[0], _F64), product[0])
        series = high, low + (product[1] + coefficient[1])
    result = _product(k, q, series)
    for _ in range(_HALVINGS):  # e^2q − 1 = 2 (e^q − 1) + (e^q − 1)²
        square = _product(k, result, result)
        high, low = _two_sum(2 * result[0], square[0])
        result = high, low + (2 * result[1] + square[1])
    return result


def _product(k: Any, x: Unrounded, y: Unrounded) -> Unrounded:
    high = x[0] * y[0]
    return high, k.product_error(x[0], y[0], high) + (x[0] * y[1] + x[1] * y[0])


def _two_sum(x: Any, y: Any) -> Unrounded:
    """x + y and what it rounds off, exactly (Knuth, The Art of Computer Programming, 4.2.2, theorem B)."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)
