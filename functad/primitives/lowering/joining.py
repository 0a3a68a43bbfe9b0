"""Kernels that copy whole stretches of memory: concatenate, stack, dynamic_update_slice.

Knows the interface of a target; nothing of positions that differ from row to row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functad.primitives.lowering.moving import clamped
from functad.primitives.lowering.text import indented

# So many operands are joined by one kernel: beyond, the compiler's time grows faster than the text.
_OPERANDS = 32
# A result of so few elements is written element by element: its loops would be longer than that.
_FEW_ELEMENTS = 16
# With fewer rows than this, each row is cut into pieces for the threads.
_FEW_ROWS = 8


def concatenate_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, dimension: int) -> None:
    _join(target, ins, outs[0], math.prod(outs[0].shape[:dimension]))


def stack_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, axis: int) -> None:
    _join(target, ins, outs[0], math.prod(outs[0].shape[:axis]))


def _join(target: Any, ins: Sequence[Any], out: Any, rows: int) -> None:
    """Each row of the result is a row of the first operand, one of the second, and so on."""
    if out.size == 0:
        return
    width = out.size // rows
    parts, first = [], 0
    for operand in ins:
        length = operand.size // rows
        if length:
            parts.append((operand, first, length))
        first += length
    if out.size <= _FEW_ELEMENTS:
        places = [(x, length * r + i) for r in range(rows) for x, _, length in parts for i in range(length)]
        target.copy_elements(places, out)
        return
    for k in range(0, len(parts), _OPERANDS):
        _join_some(target, parts[k : k + _OPERANDS], (out, "rw" if k else "w"), rows, width)


def _join_some(target: Any, parts: Sequence[tuple[Any, int, int]], out: tuple[Any, str], rows: int, width: int) -> None:
    operands: dict[int, str] = {}
    buffers = {}
    for operand, _, _ in parts:
        if id(operand) not in operands:
            operands[id(operand)] = f"x{len(operands)}"
            buffers[operands[id(operand)]] = (operand, "r")
    named = [(operands[id(operand)], first, length) for operand, first, length in parts]
    moved = sum(length for _, _, length in parts) * rows * out[0].dtype.itemsize
    costs = {"bytes": 2 * moved}
    if rows >= _FEW_ROWS:
        lines = [line for part in named for line in _copy_row(*part, width)]
        body = "\n".join(indented("for r in range(start, stop):", lines))
        reads = tuple(operands.values())
        target.kernel("join", body, {**buffers, "out": out}, rows, rows=True, row_reads=reads, **costs)
        return
    lines = [line for part in named for line in _copy_columns(*part, rows, width)]
    target.kernel("join", "\n".join(lines), {**buffers, "out": out}, width, **costs)


def _copy_row(x: str, first: int, length: int, width: int) -> list[str]:
    """One row of an operand, which starts at column `first` of the result."""
    if length == 1:
        return [f"out[{width} * r + {first}] = {x}[r]"]
    return [f"for i in range({length}):", f"    out[{width} * r + {first} + i] = {x}[{length} * r + i]"]


def _copy_columns(x: str, first: int, length: int, rows: int, width: int) -> list[str]:
    """What lies within columns start..stop of the result, of all rows of an operand."""
    bounds = f"range(maximum(start, {first}), minimum(stop, {first + length}))"
    if rows == 1:
        return [f"for i in {bounds}:", f"    out[i] = {x}[i - {first}]"]
    return [
        f"for r in range({rows}):",
        f"    for i in {bounds}:",
        f"        out[{width} * r + i] = {x}[{length} * r + i - {first}]",
    ]


# --- dynamic_update_slice -----------------------------------------------------------------------------------


def dynamic_update_slice_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    (operand, update, *starts), (out,) = ins, outs
    if update.size == out.size:
        target.copy(update, out)
        return
    target.start_from(out, operand)
    if update.size == 0:
        return
    free = [d for d in range(len(out.shape)) if update.shape[d] < out.shape[d]]  # the others start at 0
    inner = free[-1]  # from here on a row of the update is contiguous in the result
    length = math.prod(update.shape[inner:])
    buffers = {"update": (update, "r"), "out": (out, "rw")}
    lines, position = [], []
    for d in free:
        pointer = next((name for name, (b, _) in buffers.items() if b is starts[d]), f"start_{d}")
        buffers[pointer] = (starts[d], "r")
        stride = math.prod(out.shape[d + 1 :])
        lines.append(f"first_{d} = {clamped(f'{pointer}[0]', starts[d].dtype, out.shape[d] - update.shape[d])}")
        position.append(f"{stride} * first_{d}")
    rows = update.size // length
    after = rows
    for d in range(inner):
        after //= update.shape[d]
        if update.shape[d] > 1:
            stride = math.prod(out.shape[d + 1 :])
            coordinate = f"r // {after}" if after > 1 else "r"
            wrap = f" % {update.shape[d]}" if after * update.shape[d] < rows else ""
            position.append(f"{stride} * ({coordinate}{wrap})")
    costs = {"bytes": 2 * update.size * out.dtype.itemsize}
    if rows < _FEW_ROWS:
        lines += _update_columns(rows, length, position)
        target.kernel("update_slice", "\n".join(lines), buffers, length, **costs)
        return
    copy = [f"place = {' + '.join(position)}", *_copy_elements(length)]
    lines += indented("for r in range(start, stop):", copy)
    target.kernel("update_slice", "\n".join(lines), buffers, rows, **costs)


def _update_columns(rows: int, length: int, position: Sequence[str]) -> list[str]:
    copy = [
        f"place = {' + '.join(position)}",
        "for i in range(start, stop):",
        f"    out[place + i] = update[{length} * r + i]",
    ]
    return indented(f"for r in range({rows}):", copy)


def _copy_elements(length: int) -> list[str]:
    return [f"for i in range({length}):", f"    out[place + i] = update[{length} * r + i]"]
