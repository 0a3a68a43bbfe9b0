"""What a kernel is given besides its range: pointers and numbers, and the words in which they are passed.

A kernel's words are, in the order of its arguments: for a pointer its slot, for one that begins behind the start of
its memory the slot and how many bytes behind, for a number its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.records import NamedTuple


class Shifted(NamedTuple):
    """A pointer to elements of a dtype that begins behind the start of its memory."""

    dtype: np.dtype[Any]


class Number(NamedTuple):
    """A number of a dtype, float32, float64 or int64, handed over by value."""

    dtype: np.dtype[Any]


class Count(Number):
    """A number, int64, that counts or places: not negative, and not 0 where something is divided by it."""


Argument = np.dtype[Any] | Shifted | Number  # a dtype alone: a pointer


def argument_text(argument: Argument) -> str:
    """An argument as text, for the key of a kernel."""
    return argument.str if isinstance(argument, np.dtype) else f"{type(argument).__name__}({argument.dtype.str})"


def signature_of(pointers: Sequence[tuple[np.dtype[Any], int]], numbers: Sequence[np.generic]) -> tuple[Argument, ...]:
    """The arguments of a kernel for pointers, each with the element of its memory with which it begins."""
    of_pointers = [Shifted(dtype) if offset else dtype for dtype, offset in pointers]
    return (*of_pointers, *(Number(number.dtype) for number in numbers))


def words(pointers: Sequence[tuple[int, np.dtype[Any], int]], numbers: Sequence[np.generic]) -> np.ndarray:
    """The words of a call: of each pointer the slot, the dtype, and the element with which it begins."""
    found: list[int] = []
    for slot, dtype, offset in pointers:
        found += [slot, offset * dtype.itemsize] if offset else [slot]
    found += [int(number.view(f"i{number.dtype.itemsize}")) for number in numbers]
    return np.array(found, np.int64)
