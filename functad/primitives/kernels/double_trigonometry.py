"""Sine, cosine and tangent of float64, to an ulp at arguments of every size, free of branches.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.primitives.kernels.error_free import product_of, sum_of
from functad.primitives.kernels.plain_arithmetic import Formula
from functad.primitives.kernels.quarter_turns import HALF_PI, ROUNDER, reduced, turned

_F64 = np.float64
_HALF_PI_LOW = 6.123233995736766e-17  # what float64 rounds off
_SMALL = 2.0**-27  # sin(x) and tan(x) round to x up to here

# (sin(r) − r) / r³ and (cos(r) − 1 + r²/2) / r⁴ as polynomials in r², for |r| ≤ 0.786
_SIN = (
    *(1.589642504312125e-10, -2.5050751926578388e-08, 2.7557313653784555e-06, -0.0001984126982970218),
    *(0.008333333333322288, -0.16666666666666632),
)
_COS = (
    *(-1.1382421433684955e-11, 2.0876143347719632e-09, -2.755731725776766e-07, 2.480158729873891e-05),
    *(-0.001388888888888738, 0.041666666666666664),
)


def sin(k: Any, x: Any) -> Any:
    return _by_size(k, x, _sin(k, x, reduced), _sin_of_large)


def cos(k: Any, x: Any) -> Any:
    return _by_size(k, x, _cos(k, x, reduced), _cos_of_large)


def tan(k: Any, x: Any) -> Any:
    return _by_size(k, x, _tan(k, x, reduced), _tan_of_large)


def _by_size(k: Any, x: Any, usual: Any, of_large: Formula) -> Any:
    return k.rarely(k.absolute(x) >= _LARGE, usual, of_large, x, optimized=False)


def _sin_of_large(k: Any, x: Any) -> Any:
    return _sin(k, x, _reduced_large)


def _cos_of_large(k: Any, x: Any) -> Any:
    return _cos(k, x, _reduced_large)


def _tan_of_large(k: Any, x: Any) -> Any:
    return _tan(k, x, _reduced_large)


def _sin(k: Any, x: Any, reduce: Formula) -> Any:
    quarter, r, tail = reduce(*k.strictly((x,)))
    return k.where(k.absolute(x) < _SMALL, x, _turned(k, quarter, r, tail))


def _cos(k: Any, x: Any, reduce: Formula) -> Any:
    quarter, r, tail = reduce(*k.strictly((x,)))
    return _turned(k, quarter + 1, r, tail)


def _tan(k: Any, x: Any, reduce: Formula) -> Any:
    """The sine by the cosine, and what is left of the division, and of them."""
    quarter, r, tail = reduce(*k.strictly((x,)))
    (sine, sine_rest), (cosine, cosine_rest) = (sum_of(*parts) for parts in _sin_cos(k, r, tail))
    odd = (quarter & 1) != 0
    above, above_rest = k.where(odd, -cosine, sine), k.where(odd, -cosine_rest, sine_rest)
    below, below_rest = k.where(odd, sine, cosine), k.where(odd, sine_rest, cosine_rest)
    inverse = 1 / below
    quotient = above * inverse
    product = quotient * below
    left = (above - product) - k.product_error(quotient, below, product)
    tangent = k.fma(left + k.fma(-quotient, below_rest, above_rest), inverse, quotient)
    return k.where(k.absolute(x) < _SMALL, x, tangent)


def _turned(k: Any, quarter: Any, r: Any, tail: Any) -> Any:
    """The sine of r + tail and so many quarters of a turn."""
    (sine, sine_rest), (cosine, cosine_rest) = _sin_cos(k, r, tail)
    return turned(k, quarter, cosine + cosine_rest, sine + sine_rest)


def _sin_cos(k: Any, r: Any, tail: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Sine and cosine of r + tail, each as a sum of a number and a smaller one."""
    z = r * r
    half, square = 0.5 * z, z * z
    first = 1 - half
    sine_rest = k.fma(r * z, _by_pairs(k, z, square, _SIN), tail * first)
    cosine_rest = k.fma(square, _by_pairs(k, z, square, _COS), ((1 - first) - half) - r * tail)
    return (r, sine_rest), (first, cosine_rest)


def _by_pairs(k: Any, x: Any, square: Any, coefficients: Sequence[float]) -> Any:
    """A polynomial as one in x² whose coefficients are linear in x: fewer operations wait for one another."""
    fifth, fourth, third, second, first, constant = (k.constant(c, _F64) for c in coefficients)
    upper = k.fma(k.fma(fifth, x, fourth), square, k.fma(third, x, second))
    return k.fma(upper, square, k.fma(first, x, constant))


# --- large numbers ----------------------------------------------------------------------------------

_LARGE = 2.0**40  # numbers from here on have a way of their own, which vectors seldom take
# The first 1200 bits of the fraction of 2/π.
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1c"
    "b129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f"
    "6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b",
    16,
)
_BITS = 1200
_STEP_BITS = 5
_STEP = 1 << _STEP_BITS  # there is a row for so many exponents
_LOWEST = 1075  # the exponent field of a number that is a multiple of 1, and of nothing larger
_FIRST = _LOWEST // _STEP  # the first row is for those and for all smaller numbers
_DOWN = 512  # from _HUGE on numbers are made smaller by 2^-_DOWN
_HUGE = 2.0 ** (_FIRST * _STEP + _DOWN - 1023)  # where row _DOWN / _STEP begins


@functools.cache
def _rows() -> tuple[tuple[float, ...], ...]:
    """Row j: 2/π less a multiple of 2^(21 − 32j), as the sum of four float64, each what those before it leave off.

    Numbers of row j > 0 are multiples of 2^(32j − 19), and times what is left out, of four quarters. From _HUGE on the
    words are larger by 2^_DOWN, as numbers are smaller: so none is subnormal.
    """
    modulus = 4 << (_LOWEST - _STEP * _FIRST)
    rows = []
    for j in range(2048 // _STEP - _FIRST):
        shift = _STEP * j
        unit = 1 << (_BITS - shift)
        rest = (_TWO_OVER_PI + modulus // 2 * unit) % (modulus * unit) - modulus // 2 * unit
        words = []
        for _ in range(4):
            word = rest / unit
            numerator, denominator = word.as_integer_ratio()
            rest -= numerator * unit // denominator
            words.append(math.ldexp(word, -(shift % _DOWN)))
        rows.append(tuple(words))
    return tuple(rows)


def _reduced_large(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """`reduced` for all numbers: x times a row, and what each product rounds off (after Payne and Hanek, 1983).

    Errors are below 2^-114. C libraries may have larger ones: glibc's sines near 2^-56 lose a quarter of their digits.
    """
    size = k.absolute(x)
    least = k.constant(2.0**52, _F64)
    row = (k.bits(k.where(size > least, size, least)) >> (52 + _STEP_BITS)) - _FIRST
    x = k.where(size < _HUGE, x, x * 2.0**-_DOWN)
    first, second, third, fourth = k.row_of(_rows(), row)
    a, a_error = product_of(k, x, first)
    b, b_error = product_of(k, x, second)
    c, c_error = product_of(k, x, third)
    whole = a - 4 * k.rint(0.25 * a)
    high, high_error = sum_of(a_error, b)
    n = k.rint(whole + high)
    turns, turns_error = sum_of(whole - n, high)
    middle, middle_error = sum_of(high_error, b_error)
    middle, more_error = sum_of(middle, c)
    turns, lost = sum_of(turns, middle)
    rest = lost + ((turns_error + middle_error) + (more_error + (c_error + x * fourth)))
    r = turns * HALF_PI
    tail = k.product_error(turns, k.constant(HALF_PI, _F64), r) + (turns * _HALF_PI_LOW + rest * HALF_PI)
    return k.bits(n + ROUNDER[_F64]), r, tail
