"""Formulas of sines, arc functions and error functions, of float32 and float64, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.primitives.kernels import double_trigonometry
from functad.primitives.kernels.plain_arithmetic import Formula
from functad.primitives.kernels.quarter_turns import HALF_PI, ROUNDER, half_pi_parts, reduced, turned
from functad.primitives.kernels.vector_math import (
    at_most,
    exp2_of_product,
    exp2_wide,
    expm1_of_moderate,
    polynomial,
    times_exp,
)

_F32, _F64, _U32 = np.float32, np.float64, np.uint32
_LOG2_E = 1.4426950408889634

# --- sine, cosine, tangent --------------------------------------------------------------------------

# (sin(r) − r) / r³ and (cos(r) − 1 + r²/2) / r⁴ as polynomials in r², for |r| ≤ 0.93
_SIN = (2.7473707e-06, -0.00019844995, 0.0083333617, -0.16666667)
_COS = (2.4284487e-05, -0.0013885783, 0.041666608)

_LARGE = 2.0**18  # numbers from here on have a way of their own, which vectors seldom take
_SMALL = 2.0**-12  # sin(x) rounds to x up to here

# A float32 of at least 2^(s + 23) is a multiple of 2^s: of its multiplier 2/π only 2^s · 2/π mod 4 matters. That, times
# 2^−s, as the sum of two float64: (least size, high, low) for s = 0, 24, …
_TWO_OVER_PI = (
    (0.0, 0.6366197723675814, -3.935735335036497e-17),
    (2.0**47, 3.4308817435903483 * 2.0**-24, 1.0190525440657723e-16 * 2.0**-24),
    (2.0**71, 0.08267188988231296 * 2.0**-48, 2.8658837463471963e-18 * 2.0**-48),
    (2.0**95, 0.1536837791107848 * 2.0**-72, 1.1892889840965575e-17 * 2.0**-72),
    (2.0**119, 1.9578379245607584 * 2.0**-96, 7.769584704001829e-17 * 2.0**-96),
)
_HALF_PI_IN_TWO = (1.5707963267341256, 6.077100506506192e-11)  # the first of 33 bits, so that its products are exact
_SINGLES = 0xFFFFFFFFE0000000  # the bits of a float64 that a float32 has, too


def sin(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        return k.libm("sin", x) if k.prefers_libm else double_trigonometry.sin(k, x)
    return k.rarely(k.absolute(x) >= _LARGE, _sin(k, x, reduced), _sin_of_large, x)


def cos(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        return k.libm("cos", x) if k.prefers_libm else double_trigonometry.cos(k, x)
    return k.rarely(k.absolute(x) >= _LARGE, _cos(k, x, reduced), _cos_of_large, x)


def tan(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        return k.libm("tan", x) if k.prefers_libm else double_trigonometry.tan(k, x)
    return k.rarely(k.absolute(x) >= _LARGE, _tan(k, x, _reduced_usual), tan_of_any_size, x)


def _sin_of_large(k: Any, x: Any) -> Any:
    return _sin(k, x, _reduced_large)


def _cos_of_large(k: Any, x: Any) -> Any:
    return _cos(k, x, _reduced_large)


def tan_of_any_size(k: Any, x: Any) -> Any:
    """The tangent of a float32, without a branch."""
    return _tan(k, x, _reduced_wide)


def _sin(k: Any, x: Any, reduce: Formula) -> Any:
    quarter, r, lost = reduce(*k.strictly((x,)))
    sine, cosine = _sin_cos_of_single(k, r, lost)
    return turned(k, quarter, cosine, k.where(k.absolute(x) < _SMALL, x, sine))


def _cos(k: Any, x: Any, reduce: Formula) -> Any:
    quarter, r, lost = reduce(*k.strictly((x,)))
    sine, cosine = _sin_cos_of_single(k, r, lost)
    return turned(k, quarter + 1, cosine, sine)


def _tan(k: Any, x: Any, reduce: Formula) -> Any:
    """The quotient of sine and cosine, which are float64."""
    quarter, r = reduce(k, x)
    sine, cosine = _sin_cos(k, r)
    odd = (quarter & 1) != 0
    return k.where(x == 0, x, k.cast(k.where(odd, -cosine, sine) / k.where(odd, sine, cosine), _F32))


def _reduced_usual(k: Any, x: Any) -> tuple[Any, Any]:
    """`_reduced_wide` for |x| < 2^18."""
    wide = k.cast(x, _F64)
    turns = k.fma(wide, k.constant(1 / HALF_PI, _F64), k.constant(ROUNDER[_F64], _F64))
    n = turns - ROUNDER[_F64]
    first, second = k.constants(_HALF_PI_IN_TWO, _F64)
    return k.cast(k.bits(turns), _U32), k.fma(-n, second, k.fma(-n, first, wide))


def _reduced_large(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """`reduced` for all numbers, by way of float64."""
    quarter, wide = _reduced_wide(k, x)
    high = k.from_bits(k.bits(wide) & _SINGLES, _F64)
    return quarter, k.cast(high, _F32), k.cast(wide - high, _F32)


def _reduced_wide(k: Any, x: Any) -> tuple[Any, Any]:
    """The number of quarter turns nearest to x (modulo 2^32), and the angle that remains, as a float64."""
    k, x = k.strictly((x,))  # what the product rounds off counts once
    wide = k.cast(x, _F64)
    size = k.absolute(wide)
    high, low = (k.constant(value, _F64) for value in _TWO_OVER_PI[0][1:])
    for least, *values in _TWO_OVER_PI[1:]:
        beyond = size >= least
        high, low = (k.where(beyond, value, old) for value, old in zip(values, (high, low)))
    product = wide * high
    rest = k.fma(wide, low, k.product_error(wide, high, product))
    n = product + ROUNDER[_F64]
    r = ((product - (n - ROUNDER[_F64])) + rest) * HALF_PI
    return k.cast(k.bits(n), _U32), r


def _sin_cos(k: Any, r: Any) -> tuple[Any, Any]:
    z = r * r
    sine = k.fma(r * z, polynomial(k, z, _SIN), r)
    cosine = k.fma(z * z, polynomial(k, z, _COS), 1 - 0.5 * z)
    return sine, cosine


def _sin_cos_of_single(k: Any, r: Any, lost: Any) -> tuple[Any, Any]:
    """Sine and cosine of r + lost, in float32: what 1 − r²/2 rounds off is added with the smaller terms."""
    z, minus_half = r * r, k.constant(-0.5, _F32)
    first = k.fma(z, minus_half, k.constant(1, _F32))
    sine = r + k.fma(r * z, polynomial(k, z, _SIN), lost * first)
    rest = k.fma(k.fma(r, r, -z), minus_half, k.fma(-r, lost, k.fma(z, minus_half, 1 - first)))
    return sine, first + k.fma(z * z, polynomial(k, z, _COS), rest)


# --- arc functions ----------------------------------------------------------------------------------

# (asin(x) − x) / x³ for |x| ≤ 1/2, (atan(x) − x) / x³ for |x| ≤ 1, as polynomials in x²
_ASIN = {
    np.dtype(_F32): (0.04216636, 0.024179496, 0.045470376, 0.074952975, 0.16666752),
    np.dtype(_F64): (
        *(0.031912219037099204, -0.01622419036751763, 0.01952823447716616, 0.006527982518738358),
        *(0.012169211040734368, 0.013885235375902267, 0.01735970479111943, 0.022371758047476528),
        *(0.030381959137121883, 0.04464285682832473, 0.07500000000337016, 0.16666666666665408),
    ),
}
_ATAN = {
    np.dtype(_F32): (
        *(-0.0017870689, 0.0108854855, -0.031124059, 0.0579042, -0.08400377),
        *(0.109511547, -0.1426405, 0.19998531, -0.333333),
    ),
    np.dtype(_F64): (
        *(-2.0258553686418124e-05, 0.00022302240791747431, -0.0011640717890763228, 0.0038559749416698296),
        *(-0.009184559169025499, 0.016978035684154957, -0.025826796570098676, 0.034067810816924296),
        *(-0.04092638221322187, 0.04673949607993049, -0.05239233000353443, 0.05877307770553663),
        *(-0.06665860362971407, 0.07692212930523097, -0.09090901235393148, 0.1111111067874887),
        *(-0.1428571427133479, 0.1999999999975502, -0.3333333333333186),
    ),
}
# Less half the pattern of x: the pattern of 1 / (2√x), to three parts in a hundred.
_HALF_INVERSE_ROOT = {np.dtype(_F32): 0x5EB759DF, np.dtype(_F64): 0x5FD6EB50C7B537A9}
_ATAN_BY_LOGARITHM = 0.46  # x / (1 + x²), what a relative error of x counts in atan(x): nearly constant from 1/2 to 1


def asin(k: Any, x: Any) -> Any:
    """From 1/2 on π/2 − 2 asin(√((1 − x) / 2)), where what root and difference round off is added in the end."""
    if x.dtype == _F64 and k.prefers_libm:
        return k.libm("asin", x)
    large, root, rest = _asin_parts(k, x)
    minus_two, (quarter, low) = k.constant(-2, x.dtype), half_pi_parts(k, x.dtype)
    first = k.fma(root, minus_two, quarter)
    lost = k.fma(root, minus_two, quarter - first) + low
    return k.copysign(k.where(large, first + k.fma(rest, minus_two, lost), root + rest), x)


def acos(k: Any, x: Any) -> Any:
    """π/2 − asin(x); beyond ±1/2 twice an arc from 0 or π. What the differences round off is added in the end."""
    if x.dtype == _F64 and k.prefers_libm:
        return k.libm("acos", x)
    large, root, rest = _asin_parts(k, x)
    (one, two, zero), (quarter, low) = k.constants((1, 2, 0), x.dtype), half_pi_parts(k, x.dtype)
    end = k.where(x < 0, 2 * quarter, zero)
    begin = k.where(large, end, quarter)
    times = k.copysign(one, x) * k.where(large, two, -one)
    first = k.fma(times, root, begin)
    lost = k.fma(begin, low / quarter, k.fma(times, root, begin - first))
    return first + k.fma(times, rest, lost)


def _asin_parts(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """Whether |x| > 1/2; then √((1 − |x|) / 2), otherwise |x|; and what the arc sine of that is more than it."""
    size, half, dtype = k.absolute(x), k.constant(0.5, x.dtype), x.dtype
    large = size > half
    halved = k.fma(size, -half, half)
    root = k.sqrt(halved)
    near = k.from_bits(_HALF_INVERSE_ROOT[dtype] - (k.bits(halved) >> 1), dtype.type)
    lost = k.where(large, k.fma(-root, root, halved) * near, k.constant(0, dtype))
    z, root = k.where(large, halved, size * size), k.where(large, root, size)
    return large, root, k.fma(root * z, polynomial(k, z, _ASIN[dtype]), lost)


def atan(k: Any, x: Any) -> Any:
    """Beyond 1, π/2 − atan(1 / |x|), where what quotient and difference round off is added in the end."""
    if x.dtype == _F64 and k.prefers_libm:
        return k.libm("atan", x)
    size = at_most(k, k.absolute(x), 1e30)
    large, one, (quarter, low) = size > 1, k.constant(1, x.dtype), half_pi_parts(k, x.dtype)
    ratio = k.where(large, 1 / size, size)
    cube, series = _atan_series(k, ratio)
    first = quarter - ratio
    lost = ((quarter - first) - ratio) + low
    lost = k.fma(k.fma(-ratio, size, one), k.constant(-_ATAN_BY_LOGARITHM, x.dtype), lost)
    return k.copysign(k.where(large, first + k.fma(-cube, series, lost), k.fma(cube, series, ratio)), x)


def atan2(k: Any, y: Any, x: Any) -> Any:
    """The angle of the point with ordinate y and abscissa x."""
    if x.dtype == _F64 and k.prefers_libm:
        return k.libm("atan2", y, x)
    width, height = k.absolute(x), k.absolute(y)
    steep = height > width
    longer, shorter = k.where(steep, height, width), k.where(steep, width, height)
    both = (width == height) & (width == np.inf)
    (one, zero), (quarter, low) = k.constants((1, 0), x.dtype), half_pi_parts(k, x.dtype)
    ratio = k.where(both, one, shorter / k.where(longer == 0, one, longer))
    left = k.from_bits(k.bits(x), np.dtype(f"i{x.dtype.itemsize}")) < 0
    begin = k.where(steep, quarter, k.where(left, 2 * quarter, zero))
    sign = k.where(steep ^ left, -one, one)
    first = k.fma(sign, ratio, begin)
    cube, series = _atan_series(k, ratio)
    rest = k.fma(sign * cube, series, k.fma(sign, ratio, begin - first))
    arc = first + k.fma(begin, low / quarter, rest)
    return k.where((x != x) | (y != y), x + y, k.copysign(arc, y))


def _atan_series(k: Any, x: Any) -> tuple[Any, Any]:
    """Two numbers whose product is atan(x) − x, for |x| ≤ 1. Even and odd powers by themselves would lose an ulp."""
    z = x * x
    return x * z, k.horner(z, k.constants(_ATAN[x.dtype], x.dtype))


# --- error functions --------------------------------------------------------------------------------

# erf(x) / x − 1 as a polynomial in x² for |x| < 0.85; log2(1 − erf(x)) / x for 0.85 ≤ x ≤ 3.95
_ERF_SMALL = (-0.000631514186, 0.00505109729, -0.0268025494, 0.112827174, -0.376125718, 0.12837916)
_ERF_LARGE = (0.000311197714, -0.00465850352, 0.0330877745, -0.151960435, -0.917072779, -1.62812397)
_ERF_IS_SMALL = 0.85
# −ln(1 − erf(x)) / x − 1, for 0 ≤ x ≤ 5.95
_ERF_DOUBLE = (
    *(-3.585950913456844e-15, 1.6123897931006847e-13, -3.3598420315128945e-12, 4.296831585380791e-11),
    *(-3.757043156577797e-10, 2.358590803701228e-09, -1.0766071733578624e-08, 3.4565261971851146e-08),
    *(-6.5699015731573e-08, -1.173289882228223e-08, 5.705696984373701e-07, -2.03692577469118e-06),
    *(3.1324405454697847e-06, 3.1703686495126403e-06, -2.957634152146248e-05, 6.44209531457584e-05),
    *(2.5904246628391034e-05, -0.0005901323335312644, 0.0016962076438662764, -0.00020919484920535334),
    *(-0.019128446993633794, 0.1027726033013502, 0.6366197723675899, 0.12837916709551256),
)

# (x + 3) e^(x²) erfc(x) as a polynomial in (x − 3) / (x + 3), for 0 ≤ x ≤ 10.5
_ERFC = (
    *(3.9558415075960856e-05, 9.587323884684372e-05, -0.0002874088426760114, -0.0005457927164284486),
    *(0.0030379403675072766, -0.0012125314937172934, -0.026827854666081688, 0.11952774701813977),
    *(-0.3104672203683723, 0.5902283579203889, -0.8833944539655227, 1.0740069070861673),
)
# erf(x) / x as a polynomial in x² for |x| ≤ 1/2, and (x + 4) e^(x²) erfc(x) in (x − 4) / (x + 4) for 1/2 ≤ x ≤ 27.5
_ERF_NEAR_ZERO = (
    *(1.4723214762719855e-06, -1.4845583669810084e-05, 0.00012053324310301528, -0.0008548297524307522),
    *(0.005223977370325059, -0.026866170632715684, 0.11283791670924813, -0.37612638903183465),
    *(1.1283791670955126,),
)
_ERFC_DOUBLE = (
    *(-1.2699088173754415e-08, 1.2257018354280943e-09, 1.211813417893261e-07, -7.587199409730022e-08),
    *(-8.448121176498026e-07, 1.424323790207097e-06, 4.694360274042404e-06, -1.8860883184208403e-05),
    *(-3.635415711198442e-06, 0.00017681279912229878, -0.0004550525631590873, -0.00028095885883776066),
    *(0.006112055627700347, -0.026370053341361433, 0.07638151491282007, -0.17401093723985608),
    *(0.3308515878777816, -0.5408538313132376, 0.7732087022652439, -0.976548729080882),
    *(1.095995661000491,),
)


def erf(k: Any, x: Any) -> Any:
    """1 − e^−g(|x|) with the sign of x, where g(x) = −ln(1 − erf(x)) is nearly a parabola."""
    if x.dtype == _F32:
        return _erf_single(k, x)
    size = at_most(k, k.absolute(x), 5.95)
    ratio = polynomial(k, size, _ERF_DOUBLE)
    g = k.fma(size, ratio, size)
    return k.copysign(-expm1_of_moderate(k, -g, k.fma(-size, ratio, g - size)), x)


def _erf_single(k: Any, x: Any) -> Any:
    """1 − 2^−h(|x|), and near 0 a series, which keeps the digits that the difference would lose."""
    size, square = at_most(k, k.absolute(x), 3.95), x * x
    small = k.fma(size, polynomial(k, square, _ERF_SMALL), size)
    large = 1 - exp2_of_product(k, size, polynomial(k, size, _ERF_LARGE))
    return k.copysign(k.where(size < _ERF_IS_SMALL, small, large), x)


def erfc(k: Any, x: Any) -> Any:
    """e^−x² times a polynomial in a quotient that is between −1 and 1; float64 near 0 as 1 − erf(x)."""
    if x.dtype == _F64:
        return k.libm("erfc", x) if k.prefers_libm else _erfc_double(k, x)
    size = at_most(k, k.cast(k.absolute(x), _F64), 10.5)
    inverse = 1 / (size + 3)
    factor = polynomial(k, (size - 3) * inverse, _ERFC) * inverse
    tail = exp2_wide(k, size * size * -_LOG2_E) * factor
    return k.cast(k.where(k.cast(x, _F64) < 0, 2 - tail, tail), _F32)


def _erfc_double(k: Any, x: Any) -> Any:
    """What (size + 4)^−1 and x² round off counts as part of the exponent."""
    size, z, one = at_most(k, k.absolute(x), 27.3), x * x, k.constant(1, _F64)
    above, square = size + 4, size * size
    inverse = 1 / above
    lost = k.fma(-inverse, size - (above - 4), k.fma(-inverse, above, one))
    eight = 8 * inverse
    y = k.fma(-eight, lost, 1 - eight)  # (size − 4) / (size + 4)
    factor = _by_eights(k, y, k.constants(_ERFC_DOUBLE, _F64)) * inverse
    tail = times_exp(k, factor, -square, lost - k.product_error(size, size, square))
    near = k.fma(-x, polynomial(k, z, _ERF_NEAR_ZERO), one)
    return k.where(k.absolute(x) < 0.5, near, k.where(x < 0, 2 - tail, tail))


def _by_eights(k: Any, x: Any, constants: Sequence[Any]) -> Any:
    """A polynomial as several of eight terms in x, so that fewer operations wait for one another; |x| < 1."""
    square = x * x
    eighth = (square * square) * (square * square)
    parts = [k.horner(x, constants[max(0, end - 8) : end]) for end in range(len(constants), 0, -8)]
    return k.horner(eighth, parts[::-1])
