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
from functad.primitives.kernels.vector_math import (
    EXP2,
    at_least,
    at_most,
    exp2_wide,
    expm1_tail,
    exponent_and_mantissa,
    log2_wide,
    log_parts,
    polynomial,
    scaled,
)

_F32, _F64, _I32, _I64 = np.float32, np.float64, np.int32, np.int64
_THIRD, _THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
_FIFTH, _FIFTH_LOW = 0.2, -1.1102230246251566e-17
_TWO_LOG2_E, _TWO_LOG2_E_LOW = 2.8853900817779268, 4.0710547481862066e-17
_LN2, _LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
_ROUNDER = 6755399441055744.0  # adding it rounds to an integer, which then stands in the lowest bits
_INFINITE, _ZERO = 1025.0, -1080.0  # 2^E is so from here on

# (artanh(s) − s − s³/3 − s⁵/5) / s⁷ as a polynomial in s², for |s| ≤ 0.1716
_ARTANH = (
    *(0.05783180209405219, 0.05860905995273481, 0.06667101024572636, 0.07692303194530649),
    *(0.0909090911304029, 0.11111111111070332, 0.142857142857143),
)

# 1 / m for 32 values of m from 1 to 2 − 1/32, to so few bits that products with numbers near m, less 1, are exact; and
# −log2 of them in two parts, sums of the first of which with exponents are exact.
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
    e, m = exponent_and_mantissa(strict, base)
    high, low = _log2(k, strict, m - 1, e)
    product = exponent * high
    n, mantissa = _exp2(k, strict, product, k.fma(exponent, low, strict.product_error(exponent, high, product)))
    return k.from_bits(k.bits(mantissa) + (k.bits(n) << 52), _F64), product


def _of_float64(k: Any, x: Any, y: Any) -> Any:
    """x^y for x ≥ 0; anything where that is 1 for all x, or for all y."""
    strict, base, exponent = k.strictly((x, y))
    high, low = _log2(k, strict, *log_parts(strict, base))
    at_ends = k.where(x == 0, k.constant(-np.inf, _F64), x)
    inside = (x > 0) & (x < np.inf)
    high, low = k.where(inside, high, at_ends), k.where(inside, low, k.constant(0, _F64))
    product = exponent * high
    near = at_least(strict, at_most(strict, product, _INFINITE), _ZERO)
    rest = k.fma(exponent, low, strict.product_error(exponent, high, near))
    n, mantissa = _exp2(k, strict, near, rest)
    infinite, zero = k.constant(np.inf, _F64), k.constant(0, _F64)
    power = k.where(product >= _INFINITE, infinite, k.where(product <= _ZERO, zero, scaled(k, mantissa, n)))
    return k.where(product == product, power, product)


def _log2(k: Any, strict: Any, f: Any, e: Any) -> InTwo:
    """e + log2(1 + f), to 2^-66 of itself, for √½ ≤ 1 + f ≤ √2. With s = f / (2 + f), ln(1 + f) = 2 artanh(s)."""
    below = f + 2
    below_rest = f - (below - 2)
    inverse = 1 / below
    s = f * inverse
    s_rest = k.fma(-s, below_rest, -strict.product_error(s, below, f)) * inverse
    z = s * s
    z_rest = k.fma(s + s, s_rest, strict.product_error(s, s, z))
    square = z * z
    square_rest = k.fma(z + z, z_rest, strict.product_error(z, z, square))
    third, third_rest = _times(k, strict, (z, z_rest), _THIRD, _THIRD_LOW)
    fifth, fifth_rest = _times(k, strict, (square, square_rest), _FIFTH, _FIFTH_LOW)
    series, lost = sum_of(third, fifth)
    series_rest = k.fma(square * z, polynomial(k, z, _ARTANH), lost + (third_rest + fifth_rest))
    product = s * series
    product_rest = k.fma(s_rest, 1 + series, k.fma(s, series_rest, strict.product_error(s, series, product)))
    half, lost = sum_of(s, product)
    bits, bits_rest = _times(k, strict, (half, lost + product_rest), _TWO_LOG2_E, _TWO_LOG2_E_LOW)
    total, lost = sum_of(e, bits)
    return sum_of(total, lost + bits_rest)


def _exp2(k: Any, strict: Any, x: Any, rest: Any) -> InTwo:
    """n, an integer to which the rounder was added, and a number near 1 with 2^(x + rest) = 2^n times that number."""
    n = x + _ROUNDER
    fraction = x - (n - _ROUNDER)
    r, r_rest = _times(k, strict, (fraction, rest), _LN2, _LN2_LOW)
    total, lost = sum_of(strict.constant(1, _F64), r)
    tail = expm1_tail(k, r)
    return n, total + (lost + k.fma(r_rest, total + tail, tail))


def _times(k: Any, strict: Any, x: InTwo, high: float, low: float) -> InTwo:
    """The product of a sum of two float64 and of two constants."""
    factor = strict.constant(high, _F64)
    product = factor * x[0]
    rest = k.fma(x[0], k.constant(low, _F64), strict.product_error(x[0], factor, product))
    return product, k.fma(x[1], factor, rest)


# For each format, by its bytes: the usual power, the patterns of the least normal number and of infinity, and up to
# which exponent of 2 results are normal numbers.
_USUAL = {
    4: (_of_usual_float32, (0x00800000, 0x7F800000), 126.0),
    8: (_of_usual_float64, (0x0010000000000000, 0x7FF0000000000000), 1022.0),
}
