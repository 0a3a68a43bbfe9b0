"""Kernels that sort many short rows side by side: a network of comparisons, whose vectors go across the rows.

Knows the interface of a target. The network is Batcher's merge exchange (Knuth, The Art of Computer Programming 3,
algorithm 5.2.2 M), which depends on the length of the rows alone. It knows no equal keys apart: what shows a difference
between them must be put right afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.sort_keys import Key, SortedRows, number_of
from functad.primitives.loops.text import cast


def sorts_side_by_side(rows: SortedRows) -> bool:
    """Whether rows are short enough, and so many that vectors are full."""
    return 1 < rows.length <= machine_model.NETWORK_ROW and rows.count >= machine_model.FEWEST_NETWORK_ROWS


def sort_side_by_side(target: Any, rows: SortedRows, key: Key, x: Any, out: Any, afterwards: str = "") -> None:
    """Sort rows of x, real numbers, by their key; then run `afterwards` for each row r, which begins at base."""
    m, full = rows.length, machine_model.NETWORK_BYTES // key.word.itemsize
    fits = m * machine_model.NETWORK_BYTES <= machine_model.FIRST_CACHE
    lanes = 1 if target.on_device else full if fits and rows.count >= full else full // 2
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
            with text.loop("lane", lanes):
                # Where there are no more rows, the last one is sorted again.
                text.line("r = minimum(first + lane, last - 1)", f"base = {rows.base(m)}")
                with text.loop("j", m):
                    element = f"{key.pointer}[{rows.at('base', 'j')}]"
                    word = f"bits({element})" if is_float else key.text.format(element)
                    text.line(f"keys[keys_row + {lanes} * j + lane] = {word}")
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
            with text.loop("r", "first", "last"):
                text.line(f"base = {rows.base(m)}", "lane = r - first")
                with text.loop("j", m):
                    text.line(f"key = keys[keys_row + {lanes} * j + lane]")
                    number = f"{float_of}(key)" if is_float else number_of("key", x.dtype)
                    text.line(f"out[{rows.at('base', 'j')}] = {number}")
                text.line(*afterwards.strip("\n").split("\n"))
    scratch = target.scratch((groups, m * lanes), key.word)
    buffers = {key.pointer: (x, "r"), "out": (out, "w"), "keys": (scratch, "w")}
    buffers |= {name: (b, "r") for name, b in pairs.items()}
    moved = 2 * x.size * x.dtype.itemsize
    target.kernel("sort_network", str(text), buffers, groups, flops=2 * rows.count * count, bytes=moved)


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
                text.line("j = distance % part")
                with text.block(f"while j < {m} - distance:"):
                    with (
                        text.loop("i", "j", f"j + minimum(distance, {m} - j - distance)"),
                        text.block("if (i ^ (i + distance)) < 2 * part:"),
                    ):
                        text.line("firsts[pair] = i", "seconds[pair] = i + distance", "pair = pair + 1")
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
