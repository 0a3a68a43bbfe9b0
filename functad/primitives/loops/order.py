"""Unsigned integers that are ordered as numbers are: what sorting and the search for extrema compare.

Knows dtypes only. The rules give text, in which {0} stands for an element.
"""

from __future__ import annotations

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.loops.text import cast


def order_key(
    element: str, dtype: np.dtype, *, nan_first: bool = False, zeros_equal: bool = True
) -> tuple[np.dtype, str]:
    """The dtype and the text of an element's key; -0.0 has that of 0.0 or the one below, and NaN the highest or lowest.

    NaN has one key, whatever its bits: which sign it has differs from one way of computing it to another.
    """
    word, key = _ordered_bits(element, dtype)
    if kind_of(dtype) != "f":
        return word, key
    unsigned, top = cast(word), 1 << (8 * word.itemsize - 1)
    if zeros_equal:
        key = f"where({element} == {cast(dtype)}(0.0), {unsigned}({top}), {key})"
    return word, f"where({element} != {element}, {unsigned}({0 if nan_first else 2 * top - 1}), {key})"


def _ordered_bits(element: str, dtype: np.dtype) -> tuple[np.dtype, str]:
    """The unsigned integers whose order is that of the bits: -0.0 below 0.0, NaN beyond infinity by its sign."""
    if kind_of(dtype) == "b":
        return np.dtype(np.uint8), f"u8({element})"
    if kind_of(dtype) == "u":
        return dtype, element
    word = np.dtype(f"u{max(4, dtype.itemsize) if kind_of(dtype) == 'f' else dtype.itemsize}")
    unsigned, top = cast(word), 1 << (8 * word.itemsize - 1)
    flipped = f"{unsigned}({top})"
    if kind_of(dtype) == "f":
        flipped = f"where(bits({element}) >= {flipped}, {unsigned}({2 * top - 1}), {flipped})"
    return word, f"{unsigned}(bits({element}) ^ {flipped})"


def from_key(key: str, dtype: np.dtype) -> str:
    """The text of the number that has a key of `order_key`."""
    if kind_of(dtype) in "bu":
        return f"{cast(dtype)}({key})"
    word = np.dtype(f"u{max(4, dtype.itemsize) if kind_of(dtype) == 'f' else dtype.itemsize}")
    unsigned, top = cast(word), 1 << (8 * word.itemsize - 1)
    flipped = f"{unsigned}({top})"
    if kind_of(dtype) == "f":
        flipped = f"where({key} >= {flipped}, {flipped}, {unsigned}({2 * top - 1}))"
    return f"from_bits_{cast(dtype)}({unsigned}({key} ^ {flipped}))"
