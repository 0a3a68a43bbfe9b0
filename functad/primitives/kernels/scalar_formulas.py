"""Formulas of roundings, signs, neighbours and floats of 16 bits: short recipes of exact operations.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.dtypes import kind_of


def is_finite(k: Any, x: Any) -> Any:
    return k.absolute(x) < np.inf


def float_to_integer(k: Any, x: Any, dtype: Any) -> Any:
    """x towards zero; beyond the dtype's range the end of it, and 0 for NaN."""
    info = np.iinfo(dtype)
    if info.bits < 32:  # its ends are floats, and int32 holds them
        limited = k.where(x > info.max, k.constant(info.max, x.dtype), x)
        limited = k.where(limited < info.min, k.constant(info.min, x.dtype), limited)
        limited = k.where(x != x, k.constant(0, x.dtype), limited)
        return k.cast(k.truncated(limited, np.int32), dtype)
    lowest, highest, zero = (k.constant(value, dtype) for value in (info.min, info.max, 0))
    # Where the highest integer is no float, the limit is rounded up to the next one, and no float lies between.
    result = k.where(x >= float(info.max), highest, k.truncated(x, dtype))
    return k.where(x != x, zero, k.where(x < float(info.min), lowest, result))


def round_away(k: Any, x: Any) -> Any:
    """The nearest integer; from half-way, away from zero."""
    whole = k.trunc(x)
    away = k.where(k.absolute(x - whole) >= 0.5, k.constant(1, x.dtype), k.constant(0, x.dtype))
    return k.copysign(k.where(k.absolute(x) < np.inf, k.absolute(whole) + away, k.absolute(x)), x)


def sign(k: Any, x: Any) -> Any:
    """−1, 0 or 1; ±0 and NaN stay what they are."""
    zero, one = k.constant(0, x.dtype), k.constant(1, x.dtype)
    if kind_of(x.dtype) == "u":
        return k.where(x > 0, one, zero)
    if kind_of(x.dtype) == "i":
        return k.where(x > 0, one, k.where(x < 0, -one, zero))
    return k.where(x > 0, one, k.where(x < 0, -one, x))


def float_remainder(k: Any, x: Any, y: Any) -> Any:
    """What is left of x, of its sign, after taking y away as often as fits, exactly.

    A quotient of no more digits than floats have is rounded to the right integer or to the next one, and then what is
    left is negative; either way it is a float.
    """
    size, unit = k.absolute(x), k.absolute(y)
    times = k.trunc(size / unit)
    rest = -k.product_error(times, unit, size)
    rest = k.where(times == 0, size, k.where(rest < 0, rest + unit, rest))  # also where y is infinite
    usual = times < 2.0 ** np.finfo(x.dtype).nmant
    return k.rarely(~usual, k.copysign(rest, x), _remainder_of_c, x, y, optimized=False)


def _remainder_of_c(k: Any, x: Any, y: Any) -> Any:
    return k.cast(k.libm("fmod", k.cast(x, np.float64), k.cast(y, np.float64)), x.dtype)


def nextafter(k: Any, x: Any, y: Any) -> Any:
    """The number next to x in the direction of y; y where they are equal."""
    pattern = k.bits(x)
    one = k.constant(1, pattern.dtype)
    outwards = (y > x) == (x > 0)
    step = k.from_bits(k.where(outwards, pattern + one, pattern - one), x.dtype)
    tiny = k.copysign(k.from_bits(k.constant(1, pattern.dtype), x.dtype), y)
    moved = k.where(x == 0, tiny, step)
    return k.where(x == y, y, k.where((x != x) | (y != y), x + y, moved))


# --- floats of 16 bits: their values live in registers as float32 -----------------------------------


def f16(k: Any, x: Any) -> Any:
    """x rounded to float16, as a float32 value."""
    return from_bits_f16(k, bits_f16(k, x))


def bits_f16(k: Any, x: Any) -> Any:
    """The pattern of the float16 nearest to x."""
    return k.half_bits(_single(k, x))


def from_bits_f16(k: Any, pattern: Any) -> Any:
    """The float32 value of a pattern of float16."""
    return k.from_half_bits(pattern)


def bf16(k: Any, x: Any) -> Any:
    """x rounded to bfloat16, as a float32 value."""
    return k.from_bits(_rounded_bf16(k, x) & 0xFFFF0000, np.float32)


def bits_bf16(k: Any, x: Any) -> Any:
    """The pattern of the bfloat16 nearest to x."""
    return k.cast(_rounded_bf16(k, x) >> 16, np.uint16)


def from_bits_bf16(k: Any, pattern: Any) -> Any:
    """The float32 value of a pattern of bfloat16: its upper half."""
    return k.from_bits(k.cast(pattern, np.uint32) << 16, np.float32)


def _rounded_bf16(k: Any, x: Any) -> Any:
    """The pattern of a float32 whose upper half is x rounded to bfloat16, halves to even; NaN stays one."""
    x = _single(k, x)
    pattern = k.bits(x)
    is_odd = (pattern >> 16) & 1
    return k.where(x != x, pattern | 0x400000, pattern + (is_odd + 0x7FFF))


def _single(k: Any, x: Any) -> Any:
    """x in float32, such that rounding that to a narrower float rounds x."""
    if isinstance(x, bool) or kind_of(x.dtype) in "iub":  # what Python's `not` gives has no dtype
        return k.cast(x, np.float32)  # as NumPy converts them
    return _to_odd(k, x) if x.dtype == np.float64 else x


def _to_odd(k: Any, x: Any) -> Any:
    """x in float32, rounded towards the odd neighbour, so that a second rounding to 16 bits is right."""
    single = k.cast(x, np.float32)
    pattern = k.bits(single)
    back = k.cast(single, np.float64)
    one = k.constant(1, np.uint32)
    inexact = (back != x) & (x == x) & ((pattern & one) == 0)
    odd = k.where(k.absolute(back) > k.absolute(x), pattern - one, pattern + one)
    return k.from_bits(k.where(inexact, odd, pattern), np.float32)
