"""What single instructions of PTX compute, on arrays with an element for each thread (NVIDIA, "PTX ISA").

Knows no registers and no text.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

_LIBM = ctypes.CDLL(None)


def _fused(name: str, kind: Any) -> Any:
    function = getattr(_LIBM, name)
    function.restype, function.argtypes = kind, [kind] * 3
    return np.frompyfunc(function, 3, 1)


_FMA = {np.dtype(np.float32): _fused("fmaf", ctypes.c_float), np.dtype(np.float64): _fused("fma", ctypes.c_double)}
_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def with_one_nan(x: Any) -> Any:
    """Instructions of float32 give one NaN, whatever their operands were."""
    return np.where(np.isnan(x), _NAN, x) if x.dtype == np.float32 else x


def fma(x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    return with_one_nan(np.asarray(_FMA[x.dtype](x, y, z), np.float64).astype(x.dtype))


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}
NEAREST: dict[str, Callable[..., Any]] = {
    **{word: (lambda *x, f=f: with_one_nan(f(*x))) for word, f in EXACT.items() if word != "fma"},
    "fma": fma,
    "sqrt": lambda x: with_one_nan(np.sqrt(x)),
}


def rounded(word: str, direction: str, *operands: Any) -> Any:
    """An operation rounded towards zero, below or above."""
    operands = np.broadcast_arrays(*operands)
    near = np.array(NEAREST[word](*operands))
    for place in np.ndindex(near.shape):
        values = [float(x[place]) for x in operands]
        if not np.isfinite([*values, near[place]]).all():
            continue
        error = Fraction(float(near[place])) - EXACT[word](*map(Fraction, values))
        if direction == "rz" and error * Fraction(float(near[place])) > 0:
            near[place] = np.nextafter(near[place], near.dtype.type(0))
        elif direction == "rm" and error > 0 or direction == "rp" and error < 0:
            near[place] = np.nextafter(near[place], near.dtype.type(-np.inf if direction == "rm" else np.inf))
    return near


def approximate(word: str, x: Any, flushes: bool) -> Any:
    """A function as the hardware has it: here rounded well, but for the reciprocals of float64, of 20 bits."""
    tiny = np.finfo(x.dtype).tiny
    if flushes and x.dtype == np.float32:
        x = np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x)
    result = APPROXIMATE[word](x.astype(np.float64)).astype(x.dtype)
    if flushes and x.dtype == np.float32:
        result = np.where(np.abs(result) < tiny, np.copysign(x.dtype.type(0), result), result)
    if x.dtype == np.float64:
        result = (result.view(np.uint64) >> np.uint64(32) << np.uint64(32)).view(np.float64)
    return with_one_nan(result)


APPROXIMATE: dict[str, Callable[[Any], Any]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def extremum(x: Any, y: Any, largest: bool, keeps_nan: bool = False) -> Any:
    """The larger or smaller one; of floats −0 is below +0, and NaN is left out unless both are."""
    if x.dtype.kind != "f":
        return np.maximum(x, y) if largest else np.minimum(x, y)
    x, y = np.broadcast_arrays(x, y)
    first = np.where(x == y, np.signbit(y if largest else x), x > y if largest else x < y)
    found = np.where(np.isnan(x), y, np.where(np.isnan(y) | first, x, y))
    none = np.isnan(x) | np.isnan(y) if keeps_nan else np.isnan(x) & np.isnan(y)
    return np.where(none, _NAN.astype(x.dtype), found)


# --- integers ---------------------------------------------------------------------------------------


def shift_left(x: Any, count: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return np.where(count >= bits, x.dtype.type(0), x << np.minimum(count, bits - 1).astype(x.dtype))


def shift_right(x: Any, count: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    shifted = x >> np.minimum(count, bits - 1).astype(x.dtype)
    return shifted if x.dtype.kind == "i" else np.where(count >= bits, x.dtype.type(0), shifted)


def quotient(x: Any, y: Any) -> Any:
    """Towards zero; of a division by 0 all bits are set, and the lowest integer has no opposite."""
    return _of_objects(lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else -1, x, y)


def remainder(x: Any, y: Any) -> Any:
    return _of_objects(lambda a, b: (abs(a) % abs(b)) * (1 if a >= 0 else -1) if b else a, x, y)


def upper_half(x: Any, y: Any) -> Any:
    """Of a product twice as wide."""
    bits = 8 * x.dtype.itemsize
    return _of_objects(lambda a, b: (a * b) >> bits, x, y)


def _of_objects(function: Callable[..., int], *operands: Any) -> Any:
    """A function of Python's integers, of which the lowest bits are kept."""
    dtype = operands[0].dtype
    shape = np.broadcast_shapes(*[np.shape(x) for x in operands])
    lists = [np.broadcast_to(x, shape).ravel().tolist() for x in operands]
    found = [function(*values) % (1 << 8 * dtype.itemsize) for values in zip(*lists)]
    return np.array(found, f"u{dtype.itemsize}").view(dtype).reshape(shape)


def with_carry(x: Any, y: Any, carry: Any, sign: int) -> tuple[Any, Any]:
    """x + y + carry, or x − y − carry, of unsigned integers, and what is carried on."""
    total = x.astype(object) + sign * (y.astype(object) + carry.astype(object))
    top = 1 << 8 * x.dtype.itemsize
    return (total % top).astype(x.dtype), ((total < 0) | (total >= top)).astype(bool)


def leading_zeros(x: Any) -> Any:
    return _of_objects(lambda a: 8 * x.dtype.itemsize - a.bit_length(), x).astype(np.uint32)


def reversed_bits(x: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    return _of_objects(lambda a: int(f"{a:0{bits}b}"[::-1], 2), x)


def extracted(x: Any, first: Any, count: Any) -> Any:
    """So many bits of x from the first on, with their sign if x has one."""
    bits, signed = 8 * x.dtype.itemsize, x.dtype.kind == "i"

    def of_one(a: int, at: int, n: int) -> int:
        at, n = at & 255, n & 255
        found = (a >> at) & ((1 << n) - 1)
        negative = signed and n and (a >> min(at + n - 1, bits - 1)) & 1
        return found | -1 << min(n, max(bits - at, 0)) if negative else found

    return _of_objects(of_one, x, first, count)


def inserted(x: Any, into: Any, first: Any, count: Any) -> Any:
    """The lowest bits of x in place of so many others, from the first on."""

    def of_one(a: int, b: int, at: int, n: int) -> int:
        mask = ((1 << (n & 255)) - 1) << (at & 255)
        return b & ~mask | a << (at & 255) & mask

    return _of_objects(of_one, x, into, first, count)


def chosen_bytes(x: Any, y: Any, which: Any) -> Any:
    """Four of the eight bytes of two words, or their signs."""

    def of_one(a: int, b: int, selectors: int) -> int:
        whole, found = a | b << 32, 0
        for k in range(4):
            selector = selectors >> 4 * k & 15
            byte = whole >> 8 * (selector & 7) & 255
            found |= (255 * (byte >> 7) if selector & 8 else byte) << 8 * k
        return found

    return _of_objects(of_one, x, y, which)


def funnel(low: Any, high: Any, count: Any, right: bool, wraps: bool) -> Any:
    """A word of two that are shifted together."""

    def of_one(a: int, b: int, n: int) -> int:
        n = n & 31 if wraps else min(n, 32)
        return (a | b << 32) >> n if right else (a | b << 32) << n >> 32

    return _of_objects(of_one, low, high, count)


def of_three(x: Any, y: Any, z: Any, table: int) -> Any:
    """A function of the bits of three words, by its table."""
    x, y, z = np.broadcast_arrays(x, y, z)
    found = np.zeros_like(x)
    for k in range(8):
        if table >> k & 1:
            found |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    return found


def dot(x: Any, y: Any, total: Any, signs: str, words: int, second: bool) -> Any:
    """A sum of four products of bytes, or of two of 16 bits with the first or second two bytes."""
    halves = _parts(x, 32 // words, signs[0]), _parts(y, 8, signs[1])[2 * second :]
    products = sum(a * b for a, b in zip(*halves))
    return (total.astype(np.int64) + products).astype(np.uint32)


def _parts(x: Any, bits: int, sign: str) -> list[Any]:
    parts = [(x >> np.uint32(k)).astype(f"u{bits // 8}") for k in range(0, 32, bits)]
    return [part.view(f"{'i' if sign == 's' else 'u'}{bits // 8}").astype(np.int64) for part in parts]


# --- conversions ------------------------------------------------------------------------------------

TO_WHOLE = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def to_integer(x: Any, dtype: Any, direction: str) -> Any:
    """The end of the range beyond it; of NaN 0, or the highest bit where float64 or 64 bits take part."""
    info, whole = np.iinfo(dtype), TO_WHOLE[direction](x.astype(np.float64))
    special = np.uint64(1 << (info.bits - 1) if x.dtype == np.float64 or info.bits == 64 else 0)
    below, above = whole < float(info.min), whole >= 2.0 ** (info.bits - (info.min < 0))
    inside = np.where(np.isnan(x) | below | above, 0, whole).astype(dtype)
    ends = np.where(below, dtype.type(info.min), np.where(above, dtype.type(info.max), inside))
    return np.where(np.isnan(x), special.astype(dtype), ends)


def to_float(x: Any, dtype: Any, direction: str | None) -> Any:
    """Rounded to the nearest one, or of integers in a direction."""
    near = np.asarray(x).astype(dtype)
    if direction is None:
        return near
    for place in np.ndindex(near.shape):
        error = int(near[place]) - int(x[place])
        if error * (int(x[place]) if direction == "rz" else 1 if direction == "rm" else -1) > 0:
            end = {"rz": 0, "rm": -np.inf, "rp": np.inf}[direction]
            near[place] = np.nextafter(near[place], near.dtype.type(end))
    return near
