"""Text that sorts a row by levels: its numbers are dealt out over as many levels, and then moved to their places.

Knows rows and keys. Levels divide the range of the numbers evenly (Neubert's flashsort, Dr. Dobb's Journal 23, 1998),
so that few elements lie on each, and insertion ends the work. Where they lie together, it gives up after some moves
for each element, and another way is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.order import from_key
from functad.primitives.loops.sort_keys import Key, SortedRows
from functad.primitives.loops.text import cast


def sorts_by_levels(rows: SortedRows, keys: Sequence[Key]) -> bool:
    """Whether rows are neither short nor long, and a key and a position fit into a word."""
    fits = len(keys) == 1 and keys[0].word.itemsize <= 4
    return fits and machine_model.FEWEST_LEVELLED <= rows.length <= machine_model.LEVELLED_ROW


def levels_text(rows: SortedRows, key: Key, dtype: np.dtype, otherwise: Sequence[str]) -> list[str]:
    """The lines that leave at `pairs[row + 1 + j]` the key, in the upper half, and the place of the element number j.

    otherwise: the lines that do so another way. Each group has room for m `levels` and `counts_of_levels`, and for
    m + 1 `pairs`.
    """
    m, text, word = rows.length, KernelText(), cast(key.word)
    element, is_float = f"{key.pointer}[{rows.at('base', 'j')}]", kind_of(dtype) == "f"
    number = element if is_float else f"f32({key.text.format(element)})"
    low, high = (from_key(k, dtype) if is_float else f"f32({k})" for k in ("least", "largest"))
    text.line(f"base = {rows.base(m)}", f"levels_row = {m} * group", f"row = {m + 1} * group")
    text.line(f"least = {word}({2 ** (8 * key.word.itemsize) - 1})", f"largest = {word}(0)")
    with text.loop("j", m):
        text.line(f"key = {key.text.format(element)}")
        text.line("least = where(key < least, key, least)", "largest = where(key > largest, key, largest)")
    # Without a level for each: NaN, infinities, and numbers that lie too far apart or too close together.
    text.line(f"low = f32({low})", f"scale = f32({m - 1}) / (f32({high}) - low)")
    text.line(f"moves = where((scale > f32(0.0)) & (scale < f32(1e38)), 0, {_limit(m)})")
    with text.block("if moves == 0:"):
        with text.loop("j", m):
            text.line("counts_of_levels[levels_row + j] = 0")
        with text.loop("j", m):
            text.line(f"levels[levels_row + j] = i32(({number} - low) * scale)")
        _deal(text, rows, key)
        _insert(text, m)
    with text.block(f"if moves >= {_limit(m)}:"):
        text.line(*otherwise)
    return str(text).split("\n")


def _limit(m: int) -> int:
    return machine_model.LEVEL_MOVES * m


def _deal(text: KernelText, rows: SortedRows, key: Key) -> None:
    """Count the elements of each level, and put them down level after level."""
    m, at = rows.length, rows.at("base", "j")
    with text.loop("j", m):
        text.line("place = levels_row + i64(levels[levels_row + j])")
        text.line("counts_of_levels[place] = counts_of_levels[place] + 1")
    text.line("before = 0")
    with text.loop("c", "levels_row", f"levels_row + {m}"):
        text.line("here = counts_of_levels[c]", "counts_of_levels[c] = before", "before = before + here")
    with text.loop("j", m):
        text.line("place = levels_row + i64(levels[levels_row + j])", "to = counts_of_levels[place]")
        text.line("counts_of_levels[place] = to + 1")
        text.line(f"pairs[row + 1 + to] = (u64({key.of(at)}) << u64(32)) | u64(j)")


def _insert(text: KernelText, m: int) -> None:
    """Move each element in front of those with larger keys; what stands before the first has none."""
    text.line("pairs[row] = u64(0)", "i = 1")
    with text.block(f"while (i < {m}) & (moves < {_limit(m)}):"):
        text.line("pair = pairs[row + 1 + i]", "k = row + 1 + i")
        with text.block("while pairs[k - 1] > pair:"):
            text.line("pairs[k] = pairs[k - 1]", "k = k - 1")
        text.line("pairs[k] = pair", "moves = moves + row + 1 + i - k", "i = i + 1")
