"""Shapes and values of arguments: sizes beside thresholds, ties, signed zeros, NaN, infinities, extremes.

Knows no operation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

SIZES = (1, 2, 3, 3, 4, 5, 6, 8)
BESIDE_THRESHOLDS = (7, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257)  # vectors, lanes, tiles, squares
LARGE = (1023, 1025, 4097, 8193)
MEDIUM = (31, 33, 64, 127, 128, 129, 257, 300)  # with which several blocks of a GPU have work
LARGEST_VALUE = 700  # elements
LARGEST_MEDIUM = 1 << 14  # elements, in programs of medium sizes
LARGEST_ARGUMENT = 1 << 16  # elements

FLOATS = ("float32", "float32", "float64", "float16")
DTYPES = {
    "plain": ("float32", "float32", "float32", "int32"),
    "double": ("float64",),
    "mixed": (
        "float32", "float32", "float64", "float16", "int32", "int32", "bool", "complex64", "complex128",
        "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64",
    ),
}  # fmt: skip


def count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def sizes(choose: random.Random, empty: bool) -> tuple[int, ...]:
    """The sizes of axes in one program: few, so that values fit each other."""
    found = list(SIZES) if choose.random() < 0.7 else [1, choose.choice(BESIDE_THRESHOLDS), choose.choice(SIZES)]
    return (*found, 0) if empty else tuple(found)


def shape_of(choose: random.Random, pool: Sequence[int], rank: int, largest: int = LARGEST_VALUE) -> tuple[int, ...]:
    shape = [choose.choice(pool) for _ in range(rank)]
    while count(shape) > largest:
        shape.pop()
    return tuple(shape)


def array_of(choose: random.Random, shape: Sequence[int], dtype: str, kind: str) -> np.ndarray:
    """An array. kind: "whole" numbers with ties, "normal" ones, or "special" ones."""
    rng, type_ = np.random.default_rng(choose.getrandbits(32)), np.dtype(dtype)
    if type_.kind == "b":
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if type_.kind == "c":
        part = "float32" if type_.itemsize == 8 else "float64"
        real, imag = (array_of(choose, shape, part, kind if kind != "special" else "whole") for _ in range(2))
        return np.asarray(real + 1j * imag, type_)
    x = rng.integers(0 if type_.kind == "u" else -4, 5, shape).astype(type_)
    if type_.kind in "iu":
        limits = np.iinfo(type_)
        return np.asarray(_mixed(rng, x, [limits.min, limits.max, limits.max - 1], 0.15 if kind == "special" else 0.0))
    if kind == "whole":
        return np.asarray(_mixed(rng, x, [-0.0], 0.1))
    x = rng.standard_normal(shape).astype(type_)
    limit = np.finfo(type_)
    odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, limit.smallest_subnormal, -limit.tiny, limit.max, -limit.max, limit.eps]
    return np.asarray(_mixed(rng, x, odd, 0.2 if kind == "special" else 0.0))


def _mixed(rng: np.random.Generator, x: np.ndarray, odd: Sequence[float], share: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        others = np.array(odd).astype(x.dtype)[rng.integers(0, len(odd), x.shape)] if x.dtype.kind == "f" else (
            np.array(odd, x.dtype)[rng.integers(0, len(odd), x.shape)]
        )  # fmt: skip
    return np.where(rng.random(x.shape) < share, others, x)
