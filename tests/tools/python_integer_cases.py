"""Operations that an array of small unsigned integers and a Python integer outside of their range take part in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Functions of (the library, [0, 1, 5] as uint8, an integer such as −3): the integer counts modulo 2⁸.
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x + k": lambda m, x, k: x + k,
    "k - x": lambda m, x, k: k - x,
    "x * k": lambda m, x, k: x * k,
    "x // k": lambda m, x, k: x // k,
    "x % k": lambda m, x, k: x % k,
    "x / k": lambda m, x, k: x / k,
    "k ** x": lambda m, x, k: k**x,
    "x & k": lambda m, x, k: x & k,
    "x | k": lambda m, x, k: x | k,
    "x ^ k": lambda m, x, k: x ^ k,
    "x << k": lambda m, x, k: x << k,
    "x >> k": lambda m, x, k: x >> k,
    "x == k": lambda m, x, k: x == k,
    "k != x": lambda m, x, k: k != x,
    "x < k": lambda m, x, k: x < k,
    "x >= k": lambda m, x, k: x >= k,
    "maximum": lambda m, x, k: m.numpy.maximum(x, k),
    "minimum": lambda m, x, k: m.numpy.minimum(k, x),
    "where": lambda m, x, k: m.numpy.where(x > 0, x, k),
    "select": lambda m, x, k: m.numpy.select([x > 0], [x], k),
    "piecewise": lambda m, x, k: m.numpy.piecewise(x, [x > 0], [k, 2]),
    "clip": lambda m, x, k: m.numpy.clip(x, 0, k),
    "divmod": lambda m, x, k: m.numpy.divmod(x, k)[1],
    "fmod": lambda m, x, k: m.numpy.fmod(x, k),
    "gcd": lambda m, x, k: m.numpy.gcd(x, k),
    "arctan2": lambda m, x, k: m.numpy.arctan2(x, k),
    "hypot": lambda m, x, k: m.numpy.hypot(x, k),
    "isclose": lambda m, x, k: m.numpy.isclose(x, k),
    "full": lambda m, x, k: m.numpy.full(3, k, x.dtype),
    "full_like": lambda m, x, k: m.numpy.full_like(x, k),
    "lax.full_like": lambda m, x, k: m.lax.full_like(x, k),
    "pad": lambda m, x, k: m.numpy.pad(x, 1, constant_values=k),
    "at set": lambda m, x, k: x.at[0].set(k),
    "at add": lambda m, x, k: x.at[0].add(k),
    "at max": lambda m, x, k: x.at[0].max(k),
    "at multiply": lambda m, x, k: x.at[1].multiply(k),
    "at fill": lambda m, x, k: x.at[m.numpy.array([9])].get(mode="fill", fill_value=-1) + k,
    "sum initial": lambda m, x, k: m.numpy.sum(x, initial=k),
    "max initial": lambda m, x, k: m.numpy.max(x, initial=k),
    "polyval": lambda m, x, k: m.numpy.polyval(x, k),
    "append": lambda m, x, k: m.numpy.append(x, k),
    "scan": lambda m, x, k: m.lax.scan(lambda c, y: (c - k, y == k), m.numpy.uint8(1), x)[0],
    "cond": lambda m, x, k: m.lax.cond(x[1] > 0, lambda y: y + k, lambda y: y, x),
    "grad": lambda m, x, k: m.grad(lambda f: m.numpy.sum(f * (x - k).astype("float32")))(2.0),
}  # fmt: skip

# What makes an array of a dtype that is named refuses an integer outside of its range.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "array": lambda m: m.numpy.array(-1, dtype="uint32"),
    "asarray": lambda m: m.numpy.asarray(300, dtype="uint8"),
    "a list": lambda m: m.numpy.array([2, -1], dtype="uint8"),
    "a list of two kinds": lambda m: m.numpy.array([m.numpy.uint8(1), -1]),
    "the dtype": lambda m: m.numpy.uint16(-1),
    "int32": lambda m: m.numpy.asarray(2**31),
    "an operand": lambda m: m.numpy.arange(3) + 2**31,
    "a value": lambda m: m.numpy.arange(3).at[0].set(2**40),
    "an argument": lambda m: m.jit(lambda x: x)(2**40),
}
