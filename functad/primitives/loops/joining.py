"""Kernels that copy whole stretches of memory: concatenate, stack.

Knows the interface of a target; nothing of positions that differ from row to row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from functad import machine_model
from functad.primitives.loops.text import indented
from functad.records import NamedTuple


class Part(NamedTuple):
    """Where an operand lies in the joined result: in each row of `width` elements `length`, from `first` on."""

    first: int
    length: int
    width: int

    def place(self, position: Any) -> Any:
        """The position in the result of what has a row-major position in the operand; both may be symbols.

        >>> Part(first=2, length=3, width=10).place(4)
        13
        """
        return position // self.length * self.width + position % self.length + self.first


def parts_of(sizes: Sequence[int], shape: Sequence[int], axis: int) -> list[Part]:
    """The parts of a result of the given shape whose operands, of the given sizes, are joined along an axis.

    Each row of the result is a row of the first operand, one of the second, and so on.

    >>> parts_of([2, 4], (2, 3), axis=1)
    [Part(first=0, length=1, width=3), Part(first=1, length=2, width=3)]
    """
    rows = max(math.prod(shape[:axis]), 1)  # of arrays without elements, all parts are empty
    lengths = [size // rows for size in sizes]
    firsts = accumulate(lengths, initial=0)
    return [Part(first, length, sum(lengths)) for first, length in zip(firsts, lengths)]


def concatenate_kernels(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, dimension: int) -> None:
    _join(target, ins, outs[0], dimension)


def stack_kernels(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, axis: int) -> None:
    _join(target, ins, outs[0], axis)


def _join(target: Any, ins: Sequence[Any], out: Any, axis: int) -> None:
    """Copy the operands that do not lie in their parts of the result yet."""
    if out.size == 0:
        return
    parts = parts_of([x.size for x in ins], out.shape, axis)
    copied = [(x, part) for x, part in zip(ins, parts) if x.size and not target.shares_memory(x, out)]
    if out.size <= machine_model.MOST_UNROLLED_RESULTS:
        places = [(x, i, part.place(i)) for x, part in copied for i in range(x.size)]
        target.copy_elements(places, out)
        return
    rows = math.prod(out.shape[:axis])
    for k in range(0, len(copied), machine_model.MOST_JOINED):
        _join_some(target, copied[k : k + machine_model.MOST_JOINED], out, rows)


def _join_some(target: Any, parts: Sequence[tuple[Any, Part]], out: Any, rows: int) -> None:
    operands: dict[int, str] = {}
    buffers: dict[str, tuple[Any, str]] = {}
    for operand, _ in parts:
        if id(operand) not in operands:
            operands[id(operand)] = f"x{len(operands)}"
            buffers[operands[id(operand)]] = (operand, "r")
    begin = parts[0][1].first  # positions from here on: kernels that join equal parts elsewhere have one text
    named = [(operands[id(operand)], part.first - begin, part.length, part.width) for operand, part in parts]
    moved = sum(operand.size for operand, _ in parts)
    buffers["out"] = (out, "w" if moved == out.size else "rw")
    costs = {"bytes": 2 * moved * out.dtype.itemsize}
    if target.on_device and rows > 1:  # a thread for each element, so that neighbours move what lies side by side
        length = sum(part.length for _, part in parts)
        body = "\n".join(indented("for e in range(start, stop):", _copy_elements(named, length)))
        target.kernel("join", body, buffers, rows * length, offsets={"out": begin}, **costs)
        return
    if rows >= machine_model.FEW_ROWS:
        lines = [line for part in named for line in _copy_row(*part)]
        body = "\n".join(indented("for r in range(start, stop):", lines))
        reads = tuple(operands.values())
        target.kernel("join", body, buffers, rows, rows=True, row_reads=reads, offsets={"out": begin}, **costs)
        return
    lines = [line for part in named for line in _copy_columns(*part, rows)]
    columns = max(first + length for _, first, length, _ in named)
    target.kernel("join", "\n".join(lines), buffers, columns, offsets={"out": begin}, **costs)


def _copy_row(x: str, first: int, length: int, width: int) -> list[str]:
    """One row of an operand, which starts at column `first` of the result."""
    if length == 1:
        return [f"out[{width} * r + {first}] = {x}[r]"]
    return [f"for i in range({length}):", f"    out[{width} * r + {first} + i] = {x}[{length} * r + i]"]


def _copy_elements(parts: Sequence[tuple[str, int, int, int]], columns: int) -> list[str]:
    """Element e of all rows of operands that have so many columns together."""
    lines = [f"r = e // {columns}", f"c = e % {columns}"]
    begin = 0
    for k, (x, first, length, width) in enumerate(parts):
        end = begin + length
        lines.append("else:" if end == columns else f"{'if' if k == 0 else 'elif'} c < {end}:")
        lines.append(f"    out[{width} * r + c + {first - begin}] = {x}[{length} * r + c - {begin}]")
        begin = end
    return lines if len(parts) > 1 else [*lines[:2], lines[-1].lstrip()]


def _copy_columns(x: str, first: int, length: int, width: int, rows: int) -> list[str]:
    """What lies within columns start..stop of the result, of all rows of an operand."""
    bounds = f"range(maximum(start, {first}), minimum(stop, {first + length}))"
    if rows == 1:
        return [f"for i in {bounds}:", f"    out[i] = {x}[i - {first}]"]
    return [
        f"for r in range({rows}):",
        f"    for i in {bounds}:",
        f"        out[{width} * r + i] = {x}[{length} * r + i - {first}]",
    ]
