"""What is sorted: the unsigned integers by which elements are compared, and the rows that they stand in.

Knows dtypes and shapes, and how many threads a target has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.order import from_key, order_key
from functad.records import Record


class Key(Record):
    """Unsigned integers that are ordered as elements of an operand are; `text` has {0} for the element."""

    pointer: str
    word: np.dtype
    text: str

    def of(self, place: str) -> str:
        return self.text.format(f"{self.pointer}[{place}]")


class SortedRows:
    """The rows of arrays of one shape along an axis: where row r begins, and how far its elements are apart."""

    def __init__(self, target: Any, shape: Sequence[int], axis: int) -> None:
        self.length, self.stride = shape[axis], math.prod(shape[axis + 1 :])
        self.count = math.prod(shape) // self.length
        self.in_group = -(-self.count // (machine_model.PARTS_A_THREAD * target.threads_hint))
        self.groups = -(-self.count // self.in_group)

    def base(self, length: int) -> str:
        """The text of the position of row r's first element, in an array with `length` elements along the axis."""
        if self.stride == 1:
            return f"{length} * r"
        return f"{length * self.stride} * (r // {self.stride}) + r % {self.stride}"

    def at(self, base: str, j: str) -> str:
        return f"{base} + {j}" if self.stride == 1 else f"{base} + {self.stride} * {j}"


class RowSort(Record):
    """A stable sort of rows: by the keys, one after another.

    kept: how many elements of each row are put down, from the first on. moves: the lines that put one down, with {to}
        for its place in a result, {at} for that in an operand, and {place} for the place in its row that it had.
    """

    rows: SortedRows
    keys: Sequence[Key]
    kept: int
    moves: Sequence[str]


def keys_of(pointer: str, dtype: np.dtype) -> list[Key]:
    """The keys by which elements are ordered: NaN last, and -0.0 equal to 0.0."""
    if kind_of(dtype) != "c":
        return [Key(pointer, *order_key("{0}", dtype))]
    # By NumPy: what has no NaN, then what has one in the imaginary part, the real part, both.
    nans = "u8(where({0}.real != {0}.real, 2, 0) + where({0}.imag != {0}.imag, 1, 0))"
    part = np.dtype(f"f{dtype.itemsize // 2}")
    parts = [Key(pointer, *order_key(f"{{0}}.{name}", part)) for name in ("real", "imag")]
    return [Key(pointer, np.dtype(np.uint8), nans), *parts]


def number_of(key: str, dtype: np.dtype) -> str:
    """The text of the real number that has a key of `keys_of`; of zeros, 0.0."""
    return f"{key} != 0" if kind_of(dtype) == "b" else from_key(key, dtype)


def index_dtype(length: int) -> np.dtype:
    return np.dtype(np.int32 if length < 1 << 31 else np.int64)
