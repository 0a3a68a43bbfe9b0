"""Kernels that sort many short rows side by side: a network of comparisons, whose vectors go across the rows.

Knows the interface of a target. The network is Batcher's merge exchange (Knuth, The Art of Computer Programming 3,
algorithm 5.2.2 M), which depends on the length of the rows alone. It knows no equal keys apart: what shows a difference
between them must be put right afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.sort_keys import Key, SortedRows, number_of
from functad.primitives.loops.text import cast
from functad.primitives.loops.turning import PitchedMatrix, copy_turned


def sorts_side_by_side(rows: SortedRows, by_numpy: bool) -> bool:
    """Whether rows are short enough, and so many that vectors are full. by_numpy: whether NumPy sorts by vectors."""
    longest = machine_model.NETWORK_ROW_BESIDE_NUMPY if by_numpy else machine_model.NETWORK_ROW
    return 1 < rows.length <= longest and rows.count >= machine_model.FEWEST_NETWORK_ROWS


def sort_side_by_side(target: Any, rows: SortedRows, key: Key, x: Any, out: Any, afterwards: str = "") -> None:
    """Sort rows of x, real numbers, by their key; then run `afterwards` for each row r, which begins at base."""
    m, together, full = rows.length, machine_model.SQUARE_SIDES[-1], machine_model.NETWORK_BYTES // key.word.itemsize
    fits = m * machine_model.NETWORK_BYTES <= machine_model.FIRST_CACHE
    lanes = full if fits and rows.count >= full else full // 2
    blocks = -(-rows.count // lanes)
    in_group = -(-blocks // (machine_model.PARTS_A_THREAD * target.threads_hint))
    groups, count = -(-blocks // in_group), comparisons(m)
    pairs = {name: target.scratch((count,), np.int32) for name in ("firsts", "seconds")}
    target.kernel("sort_pairs", pairs_text(m), {name: (b, "w") for name, b in pairs.items()}, 1, flops=8 * count)
    # Floats change places as their bits, one by one; to keys and back they become all together, in vectors.
    is_float, float_of = kind_of(x.dtype) == "f", f"from_bits_{cast(x.dtype)}"
    text = KernelText()
    with text.loop("group", "start", "stop"):
        text.line(f"keys_row = {m * lanes} * group")
        with text.loop("block", f"{in_group} * group", f"minimum({in_group} * group + {in_group}, {blocks})"):
            text.line(f"first = {lanes} * block", f"last = minimum(first + {lanes}, {rows.count})")
            word = "bits({0})" if is_float else key.text
            loaded = word.format(f"{key.pointer}[{rows.at('base', 'j')}]")
            in_rows, in_lanes = PitchedMatrix(key.pointer, f"{m} * row", m), PitchedMatrix("keys", "lane", lanes)
            with _each_row(text, rows, lambda: copy_turned(text, in_rows, in_lanes, together, m, x.dtype, word)):
                text.line(f"keys[lane + {lanes} * j] = {loaded}")
            with text.loop("j", m), text.loop("lane", "last - first", lanes):
                text.line(f"keys[keys_row + {lanes} * j + lane] = {cast(key.word)}(0)")  # where there are no more rows
            if is_float:
                with text.loop("at", "keys_row", f"keys_row + {m * lanes}"):
                    text.line(f"number = {float_of}(keys[at])", f"keys[at] = {key.text.format('number')}")
            with text.loop("pair", count):
                text.line(f"low = keys_row + {lanes} * i64(firsts[pair])")
                text.line(f"high = keys_row + {lanes} * i64(seconds[pair])")
                with text.loop("lane", lanes):
                    text.line("below = keys[low + lane]", "above = keys[high + lane]")
                    text.line("keys[low + lane] = where(above < below, above, below)")
                    text.line("keys[high + lane] = where(above < below, below, above)")
            if is_float:
                with text.loop("at", "keys_row", f"keys_row + {m * lanes}"):
                    text.line("key = keys[at]", f"keys[at] = bits({number_of('key', x.dtype)})")
            number = f"{float_of}({{0}})" if is_float else number_of("{0}", x.dtype)
            in_rows, stored = PitchedMatrix("out", f"{m} * row", m), number.format(f"keys[lane + {lanes} * j]")
            with _each_row(text, rows, lambda: copy_turned(text, in_lanes, in_rows, m, together, key.word, number)):
                text.line(f"out[{rows.at('base', 'j')}] = {stored}")
            if afterwards:
                with text.loop("r", "first", "last"):
                    text.line(f"base = {rows.base(m)}", *afterwards.strip("\n").split("\n"))
    scratch = target.scratch((groups, m * lanes), key.word)
    buffers = {key.pointer: (x, "r"), "out": (out, "w"), "keys": (scratch, "w")}
    buffers |= {name: (b, "r") for name, b in pairs.items()}
    moved = 2 * x.size * x.dtype.itemsize
    target.kernel("sort_network", str(text), buffers, groups, flops=2 * rows.count * count, bytes=moved)


@contextmanager
def _each_row(text: KernelText, rows: SortedRows, squares: Callable[[], None]) -> Iterator[None]:
    """The loops around what is done to each element j of each row r from `first` to `last`, whose keys are at `lane`.

    squares: writes what does so for as many rows, from `row` on, as squares have; where rows lie one behind another, it
        comes first, as long as there are so many.
    """
    together = machine_model.SQUARE_SIDES[-1]
    text.line("row = first")
    if rows.stride == 1:
        with text.block(f"while row + {together} <= last:"):
            text.line("lane = keys_row + row - first")
            squares()
            text.line(f"row = row + {together}")
    with text.loop("r", "row", "last"):
        text.line(f"base = {rows.base(rows.length)}", "lane = keys_row + r - first")
        with text.loop("j", rows.length):
            yield


def pairs_text(m: int) -> str:
    """The text that writes down which elements the network compares, one pair after another.

    Runs of `part` elements are in order, then of twice as many; neighbours at a distance exchange places. To find the
    next pair takes longer than to compare it.
    """
    text = KernelText()
    with text.loop("once", "start", "stop"):
        text.line("pair = 0", "part = 1")
        with text.block(f"while part < {m}:"):
            text.line("distance = part")
            with text.block("while distance > 0:"):
                text.line("j = distance & (part - 1)")
                with text.block(f"while j < {m} - distance:"):
                    # All of the run lies in runs of `part` that are merged, or none of it.
                    with text.block("if (j ^ (j + distance)) < 2 * part:"):
                        text.line(f"run = minimum(distance, {m} - j - distance)")
                        with text.loop("i", "run"):
                            text.line("firsts[pair + i] = j + i", "seconds[pair + i] = j + distance + i")
                        text.line("pair = pair + run")
                    text.line("j = j + 2 * distance")
                text.line("distance = distance // 2")
            text.line("part = 2 * part")
    return str(text)


def comparisons(m: int) -> int:
    """How many pairs these are."""
    count, part = 0, 1
    while part < m:
        distance = part
        while distance:
            first = distance % part
            count += sum(i ^ i + distance < 2 * part for i in range(first, m - distance) if (i - first) & distance == 0)
            distance //= 2
        part *= 2
    return count
