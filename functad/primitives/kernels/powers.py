"""Powers x^y of float32 and float64, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.

x^y = 2^E with E = y log2(x), up to 1074. For float64 so many digits of E before the point leave too few behind it: the
logarithm is a sum of two float64 there (after Dekker, A floating-point technique for extending precision, 1971).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.primitives.kernels.error_free import sum_of
from functad.primitives.kernels.quarter_turns import ROUNDER
from functad.primitives.kernels.vector_math import (
    EXP2,
    at_least,
    at_most,
    exp2_wide,
    log2_wide,
    polynomial,
    scaled,
)

_F32, _F64, _I32, _I64 = np.float32, np.float64, np.int32, np.int64
_ROUNDER = 422212465065984.0  # adding it rounds to a 16th, so many of which then stand in the lowest bits
_INFINITE, _ZERO = 1025.0, -1080.0  # 2^E is so from here on

# Of float64: 1 / m for the 32 parts of 1 ≤ m < 2, but 1 and 1/2 for the first and the last one, to so few bits that
# products with numbers of the part, less 1, are exact; and −log2 of them in two parts, sums of the first of which with
# exponents are exact.
_INVERSE_WIDE = tuple(
    n / 128
    for n in (
        *(128, 122, 118, 116, 112, 109, 106, 104, 101, 99, 96, 94, 92, 90, 88, 86),
        *(84, 83, 81, 80, 78, 77, 75, 74, 72, 71, 70, 69, 68, 67, 66, 64),
    )
)
_LOG2_WIDE = tuple(round(-math.log2(c) * 2**42) / 2**42 for c in _INVERSE_WIDE)
_LOG2_WIDE_REST = (
    *(0.0, 7.323377874614652e-14, -9.459192232399996e-15, -8.107893466726174e-14, -1.9917399279874596e-14),
    *(1.2961666388058281e-14, 1.912060077712148e-14, -2.262651135603261e-14, -2.7629769684614264e-14),
    *(-7.565086961224304e-14, -8.00418555854124e-14, -1.5420422453235895e-15, -7.531150579247643e-14),
    *(-9.67451159139632e-14, 8.443284155858175e-14, -3.733907276649932e-14, -9.995925486528699e-14),
    *(5.216949214960851e-14, -9.279374689841753e-14, 6.33385952568616e-14, -1.02668366941445e-13),
    *(6.451544227870716e-14, 4.663533492831079e-14, -8.937120568078598e-14, 6.728996427240727e-14),
    *(-1.002010237055886e-13, 4.3421195976986995e-14, 7.202031406534323e-14, -6.781363655020842e-14),
    *(-1.1228105090517402e-13, 4.390985973169353e-15, 0.0),
)
_LOG2_E_WIDE, _LOG2_E_WIDE_LOW = 1.4426950408889634, 2.0355273740931033e-17
# (log2(1 + r) − r log2(e) + r² log2(e) / 2) / r³ for −0.0206 ≤ r ≤ 0.0313
_LOG2_CUBIC = (
    *(0.12427634654977882, -0.1442933416268056, 0.1603065431309831, -0.18033692978449126, 0.20609928901049937),
    *(-0.2404491734601179, 0.2885390081781631, -0.360673760222243, 0.4808983469629878),
)
# 2^(j / 16) in two parts; (2^f − 1) / f for |f| ≤ 1/32
_EXP2_PARTS = (
    *(1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484),
    *(1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407),
    *(1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474),
)
_EXP2_PARTS_REST = (
    *(0.0, 8.551889705537965e-17, -3.046782079812471e-17, 8.912812676025408e-17, 3.982015231465646e-17),
    *(4.658027591836937e-17, 2.5382502794888315e-17, 7.70094837980299e-17, -9.667293313452913e-17),
    *(-3.483994556892796e-17, 7.949834809697621e-17, 2.4707192569797888e-17, 8.199010020581497e-17),
    *(2.960140695448873e-17, 3.283107224245627e-17, -1.0619946056195963e-16),
)
_EXP2_WIDE = (
    *(1.5701063417160853e-05, 0.00015403669241678464, 0.0013333549089275612, 0.00961812910741275),
    *(0.05550410866537879, 0.24022650695910083, 0.6931471805599452),
)

# Of float32: the same for numbers near to 32 values of m from 1 to 2 − 1/32.
_INVERSE = tuple(
    n / 128
    for n in (
        *(128, 124, 120, 117, 114, 110, 108, 105, 102, 100, 98, 95, 93, 91, 89, 87),
        *(85, 84, 82, 80, 79, 77, 76, 74, 73, 72, 71, 69, 68, 67, 66, 65),
    )
)
_LOG2 = tuple(round(-math.log2(c) * 2**17) / 2**17 for c in _INVERSE)
_LOG2_REST = tuple(-math.log2(c) - high for c, high in zip(_INVERSE, _LOG2))
# (log2(1 + r) − r log2(e)) / r² for −0.0198 ≤ r ≤ 0.0169
_LOG2_OF_ONE_PLUS = (0.290270501, -0.36076657, 0.480897992, -0.721347513)
_LOG2_E, _LOG2_E_LOW = 1.4426950216293335, 1.9259629911293902e-08
_SINGLE_ROUNDER = 12582912.0
_BELOW_ONE = 0x3F7E0000  # the pattern of 1, less half of a 32nd

InTwo = tuple[Any, Any]  # a number, and what it rounds off


def pow(k: Any, x: Any, y: Any) -> Any:
    """x^y with the special cases of C99, Annex F."""
    if x.dtype == _F64 and k.prefers_libm:
        return k.libm("pow", x, y)
    usual_power, (least, beyond), largest = _USUAL[x.dtype.itemsize]
    usual, exponent = usual_power(k, x, y)
    is_normal = k.bits(x) - least < beyond - least  # unsigned: and positive
    is_usual = is_normal & (k.absolute(exponent) < largest)
    return k.rarely(~is_usual, usual, _everywhere, x, y)


def _of_usual_float32(k: Any, x: Any, y: Any) -> InTwo:
    """2^E with E = y log2(x), and E, where x and 2^E are positive normal numbers.

    With x = 2^e m and c near 1 / m, one of 32, log2(x) = e − log2(c) + log2(1 + r), where r = c m − 1 is exact.
    """
    strict, base, exponent = k.strictly((x, y))
    pattern = k.bits(base)
    parts = k.from_bits(pattern - _BELOW_ONE, _I32)  # exponent, and which of the 32 m is nearest
    place = parts >> 18
    m = k.from_bits(pattern - (k.bits(parts) & 0xFF800000), _F32)
    r = strict.product_error(strict.value_at(_INVERSE, place, _F32), m, strict.constant(1, _F32))
    e = strict.cast(parts >> 23, _F32)
    scale = strict.constant(_LOG2_E, _F32)
    bits = r * scale
    high, lost = sum_of(e + strict.value_at(_LOG2, place, _F32), bits)
    low = k.fma(r, k.constant(_LOG2_E_LOW, _F32), strict.value_at(_LOG2_REST, place, _F32))
    low = k.fma(r * r, polynomial(k, r, _LOG2_OF_ONE_PLUS), low)
    low = low + (lost + strict.product_error(r, scale, bits))
    product = exponent * high
    rest = k.fma(exponent, low, strict.product_error(exponent, high, product))
    total = product + rest
    n = total + _SINGLE_ROUNDER
    fraction = (product - (n - _SINGLE_ROUNDER)) + rest
    mantissa = k.fma(fraction, polynomial(k, fraction, EXP2), k.constant(1, _F32))
    return k.from_bits(k.bits(mantissa) + (k.bits(n) << 23), _F32), total


def _everywhere(k: Any, x: Any, y: Any) -> Any:
    """x^y wherever x and y are."""
    dtype = x.dtype
    size = k.absolute(x)
    magnitude = _of_float64(k, size, y) if dtype == _F64 else _by_float64(k, size, y)
    one = (y == 0) | (x == 1) | ((size == 1) & (k.absolute(y) == np.inf))
    magnitude = k.where(one, k.constant(1, dtype), magnitude)
    half = y * 0.5
    whole = k.trunc(y) == y
    odd = whole & (k.trunc(half) != half)
    negative = k.from_bits(k.bits(x), _I64 if dtype == _F64 else _I32) < 0
    power = k.where(negative & odd, -magnitude, magnitude)
    undefined = (x < 0) & (size < np.inf) & (y == y) & ~whole
    return k.where(undefined, k.constant(np.nan, dtype), power)


def _by_float64(k: Any, x: Any, y: Any) -> Any:
    """x^y of float32 for x ≥ 0; anything where that is 1 for all x, or for all y."""
    exponent = k.cast(y, _F64) * log2_wide(k, k.cast(x, _F64))
    return k.cast(exp2_wide(k, exponent), _F32)


def _of_usual_float64(k: Any, x: Any, y: Any) -> InTwo:
    """2^E with E = y log2(x), and E, where x and 2^E are positive normal numbers."""
    strict, base, exponent = k.strictly((x, y))
    high, low = _log2(k, strict, *_mantissa_and_exponent(strict, base))
    product = exponent * high
    rest = k.fma(exponent, low, strict.product_error(exponent, high, product))
    n, mantissa = _exp2(k, strict, product, rest)
    if k.has_parts:
        return k.ldexp(mantissa, n - _ROUNDER), product
    return k.from_bits(k.bits(mantissa) + ((k.bits(n) >> 4) << 52), _F64), product


def _of_float64(k: Any, x: Any, y: Any) -> Any:
    """x^y for x ≥ 0; anything where that is 1 for all x, or for all y."""
    strict, base, exponent = k.strictly((x, y))
    tiny = base < 2.0**-1022
    m, e = _mantissa_and_exponent(strict, k.where(tiny, base * 2.0**54, base))
    high, low = _log2(k, strict, m, k.where(tiny, e - 54, e))
    at_ends = k.where(x == 0, k.constant(-np.inf, _F64), x)
    inside = (x > 0) & (x < np.inf)
    high, low = k.where(inside, high, at_ends), k.where(inside, low, k.constant(0, _F64))
    product = exponent * high
    near = at_least(strict, at_most(strict, product, _INFINITE), _ZERO)
    rest = k.fma(exponent, low, strict.product_error(exponent, high, near))
    n, mantissa = _exp2(k, strict, near, rest)
    infinite, zero = k.constant(np.inf, _F64), k.constant(0, _F64)
    whole = strict.floor(n - _ROUNDER) + ROUNDER[_F64]
    power = k.where(product >= _INFINITE, infinite, k.where(product <= _ZERO, zero, scaled(k, mantissa, whole)))
    return k.where(product == product, power, product)


def _mantissa_and_exponent(k: Any, x: Any) -> InTwo:
    """m and e with x = 2^e m and 1 ≤ m < 2, of a positive normal number."""
    if k.has_parts:
        m, e = k.frexp(x)
        return m, e
    pattern = k.bits(x)
    m = k.from_bits((pattern & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000, _F64)
    return m, k.cast(k.cast(k.from_bits(pattern >> 52, _I64), _I32), _F64) - 1023


def _log2(k: Any, strict: Any, m: Any, e: Any) -> InTwo:
    """e + log2(m), to 2^-64 of itself: e − log2(c) + log2(1 + r) for c near 1 / m, where r = c m − 1 is exact."""
    place = strict.bits(m) >> 47
    r = strict.product_error(strict.value_at(_INVERSE_WIDE, place, _F64), m, strict.constant(1, _F64))
    square = r * r
    scale, minus_half = strict.constant(_LOG2_E_WIDE, _F64), strict.constant(-0.5 * _LOG2_E_WIDE, _F64)
    linear, quadratic = r * scale, square * minus_half
    rest = k.fma(r, k.constant(_LOG2_E_WIDE_LOW, _F64), strict.value_at(_LOG2_WIDE_REST, place, _F64))
    rest = k.fma(square, k.constant(-0.5 * _LOG2_E_WIDE_LOW, _F64), rest)
    rest = k.fma(strict.product_error(r, r, square), minus_half, rest)
    errors = strict.product_error(r, scale, linear) + strict.product_error(square, minus_half, quadratic)
    total, lost = sum_of(e + strict.value_at(_LOG2_WIDE, place, _F64), linear)
    total, more_lost = sum_of(total, quadratic)
    *higher, cubic = k.constants(_LOG2_CUBIC, _F64)
    rest = k.fma(square * square, k.horner(r, higher), rest + ((lost + more_lost) + errors))
    return total, k.fma(r * square, cubic, rest)


def _exp2(k: Any, strict: Any, x: Any, rest: Any) -> InTwo:
    """n, a number of 16ths to which the rounder was added, and 2^(x + rest) by 2 to the whole ones of them."""
    n = (x + rest) + _ROUNDER
    f = (x - (n - _ROUNDER)) + rest
    place = strict.bits(n)
    part, part_rest = (strict.value_at(table, place, _F64) for table in (_EXP2_PARTS, _EXP2_PARTS_REST))
    return n, part + k.fma(part, f * polynomial(k, f, _EXP2_WIDE), part_rest)


# For each format, by its bytes: the usual power, the patterns of the least normal number and of infinity, and up to
# which exponent of 2 results are normal numbers.
_USUAL = {
    4: (_of_usual_float32, (0x00800000, 0x7F800000), 126.0),
    8: (_of_usual_float64, (0x0010000000000000, 0x7FF0000000000000), 1022.0),
}
