"""Words of kernel text that are exact, or nearly: integer division, bits of floats, random bits.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.primitives.kernels import scalar_formulas
from functad.primitives.kernels.plain_arithmetic import plain


def routine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function of numbers with branches or loops, which is no formula, for `special_numba`."""
    function.routine = True  # type: ignore[attr-defined]
    return function


# --- integers ---------------------------------------------------------------------------------------


@plain
def quotient(k: Any, x: Any, y: Any) -> Any:
    """x / y of integers, truncated towards zero; x / 0 sets every bit."""
    divisor = _safe_divisor(k, x, y)
    result = k.quotient(x, divisor)
    if dtypes.kind_of(x.dtype) == "i":
        result = k.where(y == -1, -x, result)  # the lowest integer has no opposite: it wraps
    return k.where(y == 0, ~(x ^ x), result)


@plain
def remainder(k: Any, x: Any, y: Any) -> Any:
    """What is left of x after taking y away as often as fits, of the sign of x; of integers, x where y is 0."""
    if dtypes.kind_of(x.dtype) == "f":
        return k.remainder(x, y)
    result = k.remainder(x, _safe_divisor(k, x, y))
    if dtypes.kind_of(x.dtype) == "i":
        result = k.where(y == -1, x ^ x, result)
    return k.where(y == 0, x, result)


def _safe_divisor(k: Any, x: Any, y: Any) -> Any:
    """y, or 1 where the machine's division would trap."""
    unsafe = (y == 0) | (y == -1) if dtypes.kind_of(x.dtype) == "i" else y == 0
    return k.where(unsafe, k.constant(1, x.dtype), y)


@plain
def steps_left(k: Any, first: Any, last: Any, step: Any) -> Any:
    """How many steps of `step` > 0, an int64, come before `last` is reached or passed on the way up; at least one."""
    distance = k.cast(k.bits(last) - k.bits(first), np.uint64)
    zero, one = k.constant(0, np.uint64), k.constant(1, np.uint64)
    before = k.quotient(distance - k.where(distance == zero, zero, one), k.bits(step))
    most = k.constant(1 << 62, np.uint64)  # so that it is an int64
    return k.cast(k.where(before < most, before + one, most), np.int64)


@plain
def multiply_high(k: Any, x: Any, y: Any) -> Any:
    """The upper half of the 128 bits of a product of 64-bit integers."""
    a, b = k.bits(x), k.bits(y)
    low = k.constant(2**32 - 1, np.uint64)
    a_high, a_low, b_high, b_low = a >> 32, a & low, b >> 32, b & low
    # By halves: the products of 32 bits each, and what the lower ones carry.
    cross = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (cross & low)
    high = a_high * b_high + (cross >> 32) + (other >> 32)
    if dtypes.kind_of(x.dtype) == "i":  # a negative number was read as one larger by 2^64
        zero = k.constant(0, np.uint64)
        high = high - k.where(x < 0, b, zero) - k.where(y < 0, a, zero)
    return k.from_bits(high, x.dtype)


@plain
def threefry2x32(k: Any, key1: Any, key2: Any, x1: Any, x2: Any) -> Any:
    """Encrypt the counter (x1, x2) with the key, all uint32, in 20 rounds.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
    """
    keys = (key1, key2, key1 ^ key2 ^ 0x1BD11BDA)
    x1, x2 = x1 + key1, x2 + key2
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x1 = x1 + x2
            x2 = ((x2 << rotation) | (x2 >> (32 - rotation))) ^ x1
        x1 = x1 + keys[(group + 1) % 3]
        x2 = x2 + keys[(group + 2) % 3] + (group + 1)
    return x1, x2


# --- powers -----------------------------------------------------------------------------------------


@routine
def integer_power(x: Any, y: Any) -> Any:
    """x · x · … · x, y factors by repeated squaring; y >= 1."""
    squared = x
    while y & 1 == 0:
        squared = product(squared, squared)
        y = y >> 1
    power = squared
    y = y >> 1
    while y > 0:
        squared = product(squared, squared)
        if y & 1 == 1:
            power = product(power, squared)
        y = y >> 1
    return power


@plain
def product(k: Any, x: Any, y: Any) -> Any:
    """x · y in the dtype of x."""
    if dtypes.kind_of(x.dtype) == "c":
        return k.complex_product(x, y)
    return x * y


# --- bits of floats ---------------------------------------------------------------------------------


@plain
def nextafter_f16(k: Any, x: Any, y: Any) -> Any:
    """The float16 next to the float16 value x in the direction of y; y where they are equal."""
    return _nextafter(k, x, y, scalar_formulas.bits_f16, scalar_formulas.from_bits_f16)


@plain
def nextafter_bf16(k: Any, x: Any, y: Any) -> Any:
    """The bfloat16 next to the bfloat16 value x in the direction of y; y where they are equal."""
    return _nextafter(k, x, y, scalar_formulas.bits_bf16, scalar_formulas.from_bits_bf16)


def _nextafter(k: Any, x: Any, y: Any, bits: Callable[..., Any], from_bits: Callable[..., Any]) -> Any:
    pattern = bits(k, x)
    sign = k.constant(0x8000, np.uint16)
    outwards = (y > x) == (x > 0)
    step = k.where(outwards, pattern + 1, pattern - 1)
    tiny = (bits(k, y) & sign) | 1
    moved = from_bits(k, k.where(x == 0, tiny, step))
    return k.where(x == y, y, k.where((x != x) | (y != y), x + y, moved))


@plain
def reduce_precision(k: Any, x: Any, exponent_bits: Any, mantissa_bits: Any) -> Any:
    """x rounded to the nearest float, halves to even, of that many bits of exponent and mantissa."""
    mantissa = np.finfo(x.dtype).nmant
    pattern = _reduced(k, k.bits(x), exponent_bits, mantissa_bits, mantissa)
    return k.where(x != x, x, k.from_bits(pattern, x.dtype))


@plain
def reduce_precision_f16(k: Any, x: Any, exponent_bits: Any, mantissa_bits: Any) -> Any:
    """`reduce_precision` of a float16 value."""
    pattern = _reduced(k, scalar_formulas.bits_f16(k, x), exponent_bits, mantissa_bits, 10)
    return k.where(x != x, x, scalar_formulas.from_bits_f16(k, pattern))


@plain
def reduce_precision_bf16(k: Any, x: Any, exponent_bits: Any, mantissa_bits: Any) -> Any:
    """`reduce_precision` of a bfloat16 value."""
    pattern = _reduced(k, scalar_formulas.bits_bf16(k, x), exponent_bits, mantissa_bits, 7)
    return k.where(x != x, x, scalar_formulas.from_bits_bf16(k, pattern))


def _reduced(k: Any, pattern: Any, exponent_bits: Any, mantissa_bits: Any, own_mantissa: int) -> Any:
    word = pattern.dtype
    width = 8 * word.itemsize
    own_exponent = width - 1 - own_mantissa
    one, zero, none = (k.constant(value, word) for value in (1, 0, 0))
    is_shorter = mantissa_bits < own_mantissa
    dropped = k.where(is_shorter, own_mantissa - k.cast(mantissa_bits, word), one)
    is_odd = (pattern >> dropped) & one
    # Just below a half, or from an odd number a whole half; a carry raises the exponent, as it should.
    rounded = pattern + ((one << (dropped - one)) - one + is_odd)
    pattern = k.where(is_shorter, (rounded >> dropped) << dropped, pattern)

    is_narrower = exponent_bits < own_exponent
    bias = 2 ** (own_exponent - 1) - 1
    reach = (one << (k.where(is_narrower, k.cast(exponent_bits, word), one) - one)) - one
    exponent = (pattern >> own_mantissa) & (2**own_exponent - 1)
    sign = pattern & 2 ** (width - 1)
    infinite = sign | (2**own_exponent - 1) << own_mantissa
    cut = k.where(exponent > reach + bias, infinite, k.where(exponent + reach <= bias, sign, pattern))
    return k.where(is_narrower, cut, pattern)
