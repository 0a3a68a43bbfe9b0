"""Formulas of exponentials, logarithms, powers and hyperbolic functions, of float32 and float64, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.

Each is straight-line code without library calls, so that loops over it become vector instructions. Polynomials are
minimax fits of the relative error. Choices keep NaN: `where(x > limit, limit, x)`, never the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.records import Record

_F32, _F64, _I32, _I64 = np.float32, np.float64, np.int32, np.int64
_LOG2_E = 1.4426950408889634
_LN2 = 0.6931471805599453
_LOG10_E = 0.4342944819032518
_LOG2_E_LOW, _LOG10_E_LOW = 2.0355273740931033e-17, 1.098319650216765e-17  # what float64 rounds off
_LOG10_2 = (0.301025390625, 4.605038981195214e-06)  # the first, of 11 bits: its products with exponents are exact


class _Format(Record):
    """Facts and coefficients of a floating-point format."""

    signed: Any  # the integer type of the same size
    mantissa_bits: int
    one: int  # the pattern of 1
    root_half: int  # the pattern of √½
    rounder: float  # adding it rounds to an integer, which then stands in the lowest bits
    least_normal: float
    ln2_high: float  # products with exponents are exact
    ln2_low: float
    log_tiny: float  # e^x rounds to 0 from here on
    log_huge: float  # e^x is infinite from here on
    tanh_is_small: float
    tanh_is_one: float
    exp: tuple[float, ...]  # (e^r − 1 − r) / r² for |r| ≤ ln(2) / 2
    sinh: tuple[float, ...]  # (sinh(x) − x) / x³ as a polynomial in x², for |x| ≤ 1
    tanh: tuple[tuple[float, ...], ...]  # (tanh(x) − x) / x³ as a quotient of polynomials in x², where x is small


_SINGLE = _Format(
    signed=_I32,
    mantissa_bits=23,
    one=0x3F800000,
    root_half=0x3F3504F3,
    rounder=12582912.0,
    least_normal=2.0**-126,
    ln2_high=0.693359375,
    ln2_low=-0.00021219444,
    log_tiny=-104.0,
    log_huge=89.0,
    tanh_is_small=0.65,
    tanh_is_one=9.1,
    exp=(0.0013868435, 0.008366432, 0.04166746, 0.16666545, 0.49999997),
    sinh=(2.7822132e-06, 0.00019842896, 0.0083333105, 0.16666667),
    tanh=((-0.0015379713, -0.333333015), (0.404599407, 1.0)),
)
_DOUBLE = _Format(
    signed=_I64,
    mantissa_bits=52,
    one=0x3FF0000000000000,
    root_half=0x3FE6A09E667F3BCD,
    rounder=6755399441055744.0,
    least_normal=2.0**-1022,
    ln2_high=0.693147180559663,
    ln2_low=2.8235290563031577e-13,
    log_tiny=-746.0,
    log_huge=710.0,
    tanh_is_small=0.7,
    tanh_is_one=19.1,
    exp=(
        *(2.5068020339639565e-08, 2.76263128750241e-07, 2.755736284252406e-06, 2.4801504510253864e-05),
        *(0.00019841269768643399, 0.0013888888932304007, 0.00833333333336688, 0.041666666666573864),
        *(0.16666666666666624, 0.5000000000000006),
    ),
    sinh=(
        *(7.775752561971856e-13, 1.6056685940236983e-10, 2.505213068221491e-08, 2.755731910847548e-06),
        *(0.0001984126984158924, 0.008333333333332915, 0.16666666666666669),
    ),
    tanh=(
        (-0.00019890983834304314, -0.020492739717415227, -0.33333333333333296),
        (0.00020624651701050704, 0.023283255271783530, 0.46147821915219963, 1.0),
    ),
)


_FORMATS = {np.dtype(_F32): _SINGLE, np.dtype(_F64): _DOUBLE}


def _format(x: Any) -> _Format:
    return _FORMATS[x.dtype]


def polynomial(k: Any, x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's rule; the coefficient of the highest power comes first.

    Long ones are two in x², of the even and the odd powers: fewer operations wait for one another.
    """
    constants = k.constants(coefficients, x.dtype)
    if len(constants) < machine_model.LONG_POLYNOMIAL:
        return k.horner(x, constants)
    square = x * x
    return k.fma(k.horner(square, constants[-2::-2][::-1]), x, k.horner(square, constants[::-2][::-1]))


def at_most(k: Any, x: Any, limit: float) -> Any:
    return k.where(x > limit, k.constant(limit, x.dtype), x)


def at_least(k: Any, x: Any, limit: float) -> Any:
    return k.where(x < limit, k.constant(limit, x.dtype), x)


# --- exponentials -----------------------------------------------------------------------------------

_LOGISTIC_SHIFT = 64
EXP2 = (0.0001532928, 0.001339097, 0.0096184993, 0.055503596, 0.24022648, 0.6931472)  # (2^r − 1) / r for |r| ≤ 1/2


def exp(k: Any, x: Any) -> Any:
    n, r = _exp_reduced(k, at_least(k, at_most(k, x, _format(x).log_huge), _format(x).log_tiny))
    return scaled(k, _exp_near_zero(k, r), n)


def exp2(k: Any, x: Any) -> Any:
    kind = _format(x)
    x = at_least(k, at_most(k, x, round(kind.log_huge * _LOG2_E) + 1.0), round(kind.log_tiny * _LOG2_E) - 1.0)
    n = x + kind.rounder
    r = x - (n - kind.rounder)
    if x.dtype == _F32:
        return scaled(k, k.fma(r, polynomial(k, r, EXP2), k.constant(1, _F32)), n)
    return scaled(k, _exp_near_zero(k, r * _LN2), n)


def expm1(k: Any, x: Any) -> Any:
    n, r, tail = _expm1_parts(k, at_least(k, at_most(k, x, _format(x).log_huge), -40.0))
    half = _power_of_two(k, n, -1)  # half of 2^n, for 2^n may be too large
    result = k.fma(half, tail, k.fma(half, r, half - 0.5))
    return k.where(k.absolute(x) < 1e-17, x, result + result)  # keeps −0, and the subnormal numbers


def logistic(k: Any, x: Any) -> Any:
    """1 / (1 + e^−x): below 0 as 1 / (1 + e^|x|), above as 1 less that."""
    kind = _format(x)
    n, r = _exp_reduced(k, at_most(k, k.absolute(x), -kind.log_tiny))
    down = k.constant(2.0**-_LOGISTIC_SHIFT, x.dtype)  # for e^|x| may be too large
    power = _power_of_two(k, n, -_LOGISTIC_SHIFT)
    inverse = k.from_bits(2 * kind.one - k.bits(power), x.dtype)
    excess = k.fma(inverse, down, _expm1_near_zero(k, r))  # (1 + e^|x|) / 2^n − 1
    small = down / k.fma(power, excess, power)
    return k.where(x < 0, small, 1 - small)


def sinh(k: Any, x: Any) -> Any:
    quarter, lost = _quarter_exp_of_size(k, x)
    z = x * x
    small = k.fma(x * z, polynomial(k, z, _format(x).sinh), x)
    large = k.copysign(2 * (quarter + (lost - 0.0625 / quarter)), x)
    return k.where(k.absolute(x) < 1, small, large)


def cosh(k: Any, x: Any) -> Any:
    quarter, lost = _quarter_exp_of_size(k, x)
    return 2 * (quarter + (lost + 0.0625 / quarter))


def tanh(k: Any, x: Any) -> Any:
    """1 − 2 / (e^2|x| + 1), near 0 |x| plus a quotient of polynomials: one division for both; with the sign of x."""
    kind, size = _format(x), k.absolute(x)
    n, excess = _exp_parts(k, at_most(k, size, kind.tanh_is_one), 2.0)
    half, z, is_small = _power_of_two(k, n, -1), x * x, size < kind.tanh_is_small
    (one, minus_one), (above, below) = k.constants((1, -1), x.dtype), kind.tanh
    numerator = k.where(is_small, size * z * polynomial(k, z, above), minus_one)
    denominator = k.where(is_small, polynomial(k, z, below), k.fma(half, excess, half + 0.5))
    return k.copysign(k.where(is_small, size, one) + numerator / denominator, x)


def _exp_parts(k: Any, x: Any, scale: float) -> tuple[Any, Any]:
    """n and s with e^(scale x) = 2^n (1 + s), where an error of x may be one of the result; n has the rounder added."""
    kind = _format(x)
    unit = k.constant(scale * _LOG2_E, x.dtype)
    n = k.fma(x, unit, k.constant(kind.rounder, x.dtype))
    if x.dtype == _F64:
        return n, _expm1_near_zero(k, k.fma(n - kind.rounder, k.constant(-_LN2, _F64), scale * x))
    r = k.fma(x, unit, kind.rounder - n)
    return n, r * polynomial(k, r, EXP2)


def times_exp(k: Any, factor: Any, x: Any, lost: Any) -> Any:
    """factor · e^(x + lost), for a moderate factor, −800 < x ≤ 0 and what x has rounded off."""
    n, r = _exp_reduced(k, x, lost)
    return scaled(k, k.fma(factor, _expm1_near_zero(k, r), factor), n)


def exp2_of_product(k: Any, x: Any, y: Any) -> Any:
    """2^(x y) of float32 x and y, where that is normal; the product is not rounded."""
    n = k.fma(x, y, k.constant(_SINGLE.rounder, _F32))
    r = k.fma(x, y, _SINGLE.rounder - n)
    return _power_of_two(k, n, 0) * k.fma(r, polynomial(k, r, EXP2), k.constant(1, _F32))


def expm1_of_moderate(k: Any, x: Any, lost: Any) -> Any:
    """e^(x + lost) − 1, for |x| < 80 and what x has rounded off."""
    n, r, tail = _expm1_parts(k, x)
    power = _power_of_two(k, n, 0)
    return k.fma(power, lost + tail, k.fma(power, r, power - 1))


def _exp_reduced(k: Any, x: Any, lost: Any = None) -> tuple[Any, Any]:
    """n, an integer to which the rounder was added, and r of small size with x + lost = n ln(2) + r."""
    kind, dtype = _format(x), x.dtype
    n = k.fma(x, k.constant(_LOG2_E, dtype), k.constant(kind.rounder, dtype))
    whole = n - kind.rounder
    r, low = k.fma(whole, k.constant(-kind.ln2_high, dtype), x), k.constant(-kind.ln2_low, dtype)
    return n, k.fma(whole, low, r) if lost is None else r + k.fma(whole, low, lost)


def _expm1_parts(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """n, r and a smaller tail with e^x = 2^n (1 + r + tail); n has the rounder added."""
    n, r = _exp_reduced(k, x)
    series = expm1_tail(k, r)
    if x.dtype == _F32:
        return n, r, series
    whole = n - _DOUBLE.rounder
    high = k.fma(whole, k.constant(-_DOUBLE.ln2_high, _F64), x)
    return n, r, series + k.fma(whole, k.constant(-_DOUBLE.ln2_low, _F64), high - r)  # what the reduction rounded off


def expm1_tail(k: Any, r: Any) -> Any:
    """e^r − 1 − r for |r| ≤ ln(2) / 2."""
    return r * r * polynomial(k, r, _format(r).exp)


def _expm1_near_zero(k: Any, r: Any) -> Any:
    return k.fma(r * r, polynomial(k, r, _format(r).exp), r)


def _exp_near_zero(k: Any, r: Any) -> Any:
    return k.fma(r, _expm1_ratio(k, r), k.constant(1, r.dtype))


def _expm1_ratio(k: Any, r: Any) -> Any:
    """(e^r − 1) / r for |r| ≤ ln(2) / 2: r times it is added to what is larger, so that it is never rounded itself."""
    return k.fma(r, polynomial(k, r, _format(r).exp), k.constant(1, r.dtype))


def _power_of_two(k: Any, n: Any, shift: int) -> Any:
    """2^(n + shift) where that is normal; n has the rounder added, whose bits get lost in front."""
    kind = _format(n)
    return k.from_bits((k.bits(n) << kind.mantissa_bits) + (kind.one + (shift << kind.mantissa_bits)), n.dtype)


def scaled(k: Any, x: Any, n: Any) -> Any:
    """2^n x for x near 1, right for results that are subnormal or infinite, too; n has the rounder added."""
    kind, pattern = _format(x), k.bits(n)
    if k.has_parts:
        return k.ldexp(x, n - kind.rounder)
    tiny = n < kind.rounder - 64
    plain, raised = (k.constant(kind.one + (s << kind.mantissa_bits), pattern.dtype) for s in (-1, 64))
    correction = k.where(tiny, k.constant(2.0**-64, x.dtype), k.constant(2, x.dtype))
    power = k.from_bits((pattern << kind.mantissa_bits) + k.where(tiny, raised, plain), x.dtype)
    return x * power * correction


def _quarter_exp_of_size(k: Any, x: Any) -> tuple[Any, Any]:
    """e^|x| / 4, which is finite where sinh and cosh are, and what it has rounded off."""
    n, r = _exp_reduced(k, at_most(k, k.absolute(x), _format(x).log_huge + 0.5))
    ratio, power = _expm1_ratio(k, r), _power_of_two(k, n, -2)
    step = power * r
    quarter = k.fma(step, ratio, power)
    return quarter, k.fma(step, ratio, power - quarter)


# --- logarithms -------------------------------------------------------------------------------------

# (ln(1 + f) − f + f²/2) / f³ for √½ ≤ 1 + f ≤ √2
_LOG = (-0.076363996, 0.1276220, -0.13159613, 0.14201581, -0.16623409, 0.20001242, -0.2500082, 0.33333331)
# (2 artanh(s) − 2s) / s³ as a polynomial in s², for |s| ≤ 0.1716
_ARTANH = (
    *(0.14797664746480335, 0.15313885134505342, 0.18183570568532864, 0.22222198457000555),
    *(0.2857142874348733, 0.3999999999940984, 0.6666666666666735),
)


def log(k: Any, x: Any) -> Any:
    f, e = log_parts(k, x)
    return _log_at_ends(k, x, log_sum(k, f, e))


def log_in_two(k: Any, x: Any) -> tuple[Any, Any]:
    """The logarithm of a finite x > 0, and what it has rounded off."""
    f, e = log_parts(k, x)
    whole = e * _format(x).ln2_high
    total = whole + f
    rest = (f - (total - whole)) + _log_tail(k, f, e * _format(x).ln2_low)
    high = total + rest
    return high, rest - (high - total)


def log2(k: Any, x: Any) -> Any:
    return _log_to_base(k, x, _LOG2_E, _LOG2_E_LOW, (1.0, 0.0))


def log10(k: Any, x: Any) -> Any:
    return _log_to_base(k, x, _LOG10_E, _LOG10_E_LOW, _LOG10_2)


def _log_to_base(k: Any, x: Any, scale: float, scale_low: float, unit: tuple[float, float]) -> Any:
    """(scale + scale_low) · ln(x), of which `unit` is the value at 2 in two parts; adds what the sums round off."""
    f, e = log_parts(k, x)
    dtype = x.dtype
    high, low = k.constant(scale, dtype), k.constant(scale - float(dtype.type(scale)) + scale_low, dtype)
    product = f * high
    lost = k.fma(f, low, k.fma(f, high, -product))
    rest = k.fma(_log_tail(k, f, k.constant(0, dtype)), high, k.fma(e, k.constant(unit[1], dtype), lost))
    whole = e * unit[0]
    total = whole + product
    return _log_at_ends(k, x, total + (rest + (product - (total - whole))))


def log_parts(k: Any, x: Any) -> tuple[Any, Any]:
    """f and e with x = 2^e (1 + f), for x > 0."""
    kind = _format(x)
    if k.has_parts:
        m, e = k.frexp(x)
        large = m >= k.from_bits(k.constant(kind.root_half + (1 << kind.mantissa_bits), kind.signed), x.dtype)
        return k.where(large, m * 0.5, m) - 1, k.where(large, e + 1, e)
    tiny = x < kind.least_normal
    e, m = exponent_and_mantissa(k, k.where(tiny, x * 2.0**kind.mantissa_bits, x))
    return m - 1, k.where(tiny, e - float(kind.mantissa_bits), e)


def log1p(k: Any, x: Any) -> Any:
    result = k.copysign(log_sum(k, *_log1p_parts(k, x)), x)
    infinite, undefined = k.constant(-np.inf, x.dtype), k.constant(np.nan, x.dtype)
    return k.where(x < np.inf, k.where(x > -1, result, k.where(x == -1, infinite, undefined)), x)


def _log1p_parts(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """f, e and what f has rounded off, with 1 + x = 2^e (1 + f + lost)."""
    kind = _format(x)
    u = x + 1
    e, m = exponent_and_mantissa(k, u)
    power = k.bits(m) - k.bits(u) + kind.one  # the pattern of 2^−e
    inverse = k.from_bits(k.where(u < 1e30, power, k.constant(0, power.dtype)), x.dtype)
    return m - 1, e, (x - (u - 1)) * inverse


def log2_of_one_plus(k: Any, x: Any) -> Any:
    """log2(1 + x), for 0 ≤ x ≤ 1; exact at its ends."""
    f, e, lost = _log1p_parts(k, x)
    return k.fma(log_sum(k, f, k.constant(0, x.dtype), lost), k.constant(_LOG2_E, x.dtype), e)


def exponent_and_mantissa(k: Any, x: Any) -> tuple[Any, Any]:
    """e (as a float) and m between √½ and √2 with x = 2^e m, of a normal number."""
    kind, pattern = _format(x), k.bits(x)
    root_half, places = k.constant(kind.root_half, pattern.dtype), k.constant(kind.mantissa_bits, kind.signed)
    exponent = k.from_bits(pattern - root_half, kind.signed) >> places
    m = k.from_bits(pattern - k.bits(exponent << places), x.dtype)
    return k.cast(k.cast(exponent, _I32), x.dtype), m


def log_sum(k: Any, f: Any, e: Any, lost: Any = None) -> Any:
    """e ln(2) + ln(1 + f + lost), where lost is no larger than f's rounding, or than that of 1."""
    kind = _format(f)
    low = e * k.constant(kind.ln2_low, f.dtype)
    if lost is not None:
        low = low + lost * (1 - f + f * f)
    return k.fma(e, k.constant(kind.ln2_high, f.dtype), f + _log_tail(k, f, low))


def _log_tail(k: Any, f: Any, low: Any) -> Any:
    """ln(1 + f) − f + low, for √½ ≤ 1 + f ≤ √2."""
    if f.dtype == _F32:
        return k.fma(f * f, k.fma(f, polynomial(k, f, _LOG), k.constant(-0.5, _F32)), low)
    half_square = 0.5 * (f * f)
    s = f / (2 + f)  # ln(1 + f) = 2 artanh(s), and 2s = f − f²/2 + s f²/2
    z = s * s
    return k.fma(s, k.fma(z, polynomial(k, z, _ARTANH), half_square), low) - half_square


def _log_at_ends(k: Any, x: Any, result: Any) -> Any:
    """The result, but −∞ at 0, NaN below, and x itself where that is ∞ or NaN."""
    if k.has_parts:
        return k.log_at_ends(result, x)
    below = k.where(x == 0, k.constant(-np.inf, x.dtype), k.constant(np.nan, x.dtype))
    return k.where(x < np.inf, k.where(x > 0, result, below), x)


# --- float32 by way of float64 ----------------------------------------------------------------------

# (ln(1 + f) − f + f²/2) / f³ for √½ ≤ 1 + f ≤ √2, to 36 bits
_LOG_WIDE = (
    *(0.05386518508647829, -0.09862926830611222, 0.09988530257479572, -0.09924570933911088, 0.11014786150357804),
    *(-0.12498284594034677, 0.1429017477048984, -0.16666855158441723, 0.1999991124270402, -0.24999997075400074),
    0.33333333893925185,
)
# (2^r − 1) / r for |r| ≤ 1/2, to 34 bits
_EXP2_WIDE = (
    *(1.5196132281479363e-05, 0.00015466756769789842, 0.0013333935133771088, 0.009618038130015522),
    *(0.05550410365929998, 0.24022651066582923, 0.6931471807045535),
)


def cbrt(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        return _cbrt_double(k, x)
    size = k.cast(k.absolute(x), _F64)
    return k.copysign(k.cast(exp2_wide(k, log2_wide(k, size) * (1 / 3)), _F32), x)


def _cbrt_double(k: Any, x: Any) -> Any:
    """2^(log2(x) / 3) to 34 bits, then a step of Newton's method, whose residual is computed with twice the digits."""
    size = k.absolute(x)
    tiny = size < 2.0**-900
    size = k.where(tiny, size * 2.0**108, size)
    third = log2_wide(k, size) * (1 / 3)
    n = third + _DOUBLE.rounder
    root = exp2_wide(k, third - (n - _DOUBLE.rounder)) * _power_of_two(k, n, 0)
    square = root * root
    cube = square * root
    residual = (cube - size) + k.fma(k.fma(root, root, -square), root, k.fma(square, root, -cube))
    root = root - residual / (3 * square)
    ordinary = (size > 0) & (size < np.inf)
    return k.where(ordinary, k.copysign(k.where(tiny, root * 2.0**-36, root), x), x)


def rsqrt(k: Any, x: Any) -> Any:
    """1 / √x, with a step of Newton's method for what root and quotient round off."""
    root = 1 / k.sqrt(x)
    product = x * root
    residual = k.fma(-product, root, k.constant(1, x.dtype)) - k.fma(x, root, -product) * root
    return k.where(residual == residual, k.fma(0.5 * root, residual, root), root)


def asinh(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        size = k.absolute(x)
        # asinh(x) = log1p(x + x² / (1 + √(1 + x²))); of large x ln(2x), whose 2x may be infinite
        square = size * size
        return k.copysign(_log1p_or_log_twice(k, size, size + square / (k.sqrt(square + 1) + 1)), x)
    size = k.cast(k.absolute(x), _F64)
    large = k.cast(_log_wide(k, size + k.sqrt(size * size + 1)), _F32)
    return k.where(k.absolute(x) < 2.0**-13, x, k.copysign(large, x))


def acosh(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        beyond = x - 1  # acosh(x) = log1p(x − 1 + √((x − 1)² + 2 (x − 1)))
        result = _log1p_or_log_twice(k, x, beyond + k.sqrt(k.fma(beyond, beyond, 2 * beyond)))
        return k.where(x < 1, k.constant(np.nan, _F64), result)
    wide = k.cast(x, _F64)
    result = k.cast(_log_wide(k, wide + k.sqrt(wide * wide - 1)), _F32)
    return k.where(x < 1, k.constant(np.nan, _F32), result)


def atanh(k: Any, x: Any) -> Any:
    if x.dtype == _F64:
        size = k.absolute(x)  # atanh(x) = log1p(2x / (1 − x)) / 2
        result = 0.5 * log1p(k, k.fma(2 * size, size / (1 - size), 2 * size))
        return k.where(size > 1, k.constant(np.nan, _F64), k.copysign(result, x))
    size = k.cast(k.absolute(x), _F64)
    large = k.cast(0.5 * _log_wide(k, (1 + size) / (1 - size)), _F32)
    return k.where(k.absolute(x) < 2.0**-14, x, k.copysign(large, x))


def _log1p_or_log_twice(k: Any, x: Any, y: Any) -> Any:
    """log1p(y) of float64; where x is large, ln(2x)."""
    is_large = x > 2.0**60
    unit = k.where(is_large, k.constant(_LN2, _F64), k.constant(0, _F64))
    return log1p(k, k.where(is_large, x, y)) + unit


def _log_wide(k: Any, x: Any) -> Any:
    """ln(x) of a float64 that is normal or 0."""
    return log2_wide(k, x, _LN2)


def log2_wide(k: Any, x: Any, unit: float = 1.0) -> Any:
    """unit · log2(x) of a float64 that is normal or 0."""
    e, m = exponent_and_mantissa(k, x)
    f = m - 1
    z = f * f
    logarithm = k.fma(z * f, polynomial(k, f, _LOG_WIDE), f - 0.5 * z)
    return _log_at_ends(k, x, k.fma(logarithm, k.constant(_LOG2_E * unit, _F64), e * unit))


def exp2_wide(k: Any, x: Any, series: Sequence[float] = _EXP2_WIDE) -> Any:
    """2^x as a float64 that rounds to the right float32, among them 0 and ∞."""
    x = at_least(k, at_most(k, x, 200.0), -200.0)
    n = x + _DOUBLE.rounder
    r = x - (n - _DOUBLE.rounder)
    return k.fma(r, polynomial(k, r, series), k.constant(1, _F64)) * _power_of_two(k, n, 0)
