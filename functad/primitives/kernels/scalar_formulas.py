"""Formulas of roundings, signs, neighbours and half precision: short recipes of exact operations.

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


def nextafter(k: Any, x: Any, y: Any) -> Any:
    """The number next to x in the direction of y; y where they are equal."""
    pattern = k.bits(x)
    one = k.constant(1, pattern.dtype)
    outwards = (y > x) == (x > 0)
    step = k.from_bits(k.where(outwards, pattern + one, pattern - one), x.dtype)
    tiny = k.copysign(k.from_bits(k.constant(1, pattern.dtype), x.dtype), y)
    moved = k.where(x == 0, tiny, step)
    return k.where(x == y, y, k.where((x != x) | (y != y), x + y, moved))


# --- half precision: its values live in registers as float32 ----------------------------------------


def f16(k: Any, x: Any) -> Any:
    """x rounded to float16, as a float32 value."""
    return from_bits_f16(k, bits_f16(k, x))


def bits_f16(k: Any, x: Any) -> Any:
    """The pattern of the float16 nearest to x."""
    if kind_of(x.dtype) in "iub":
        x = k.cast(x, np.float32)  # as NumPy converts them
    elif x.dtype == np.float64:
        x = _to_odd(k, x)
    return k.half_bits(x)


def from_bits_f16(k: Any, pattern: Any) -> Any:
    """The float32 value of a pattern of float16."""
    return k.from_half_bits(pattern)


def _to_odd(k: Any, x: Any) -> Any:
    """x in float32, rounded towards the odd neighbour, so that a second rounding to float16 is right."""
    single = k.cast(x, np.float32)
    pattern = k.bits(single)
    back = k.cast(single, np.float64)
    one = k.constant(1, np.uint32)
    inexact = (back != x) & (x == x) & ((pattern & one) == 0)
    odd = k.where(k.absolute(back) > k.absolute(x), pattern - one, pattern + one)
    return k.from_bits(k.where(inexact, odd, pattern), np.float32)
