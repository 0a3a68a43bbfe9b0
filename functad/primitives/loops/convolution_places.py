"""Convolutions that need no copy of their input: a table says where each tap of each output begins in it.

Knows the text of the table and of the products; which convolution takes this way is decided elsewhere, and how a
product is computed, with all taps summed up in registers, is the target's affair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.convolution_direct import write_nest, write_places
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.convolution_packing import CopyLoop, row_major, task_count, write_copy
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast


def suits_places(conv: Convolution, dtype: np.dtype, columns: int) -> bool:
    """Features and outputs neighbour in memory, and there are enough of them.

    columns: how many outputs a product computes, 0 if the target has none.
    """
    if not columns or not conv.axes or conv.taps == 1 or any(axis.base > 1 for axis in conv.axes):
        return False
    products = conv.taps * conv.features
    count = _joined_rows(conv) * conv.axes[-1].count
    return (
        conv.lhs_steps[2] == conv.out_steps[2] == 1
        and conv.features % machine_model.FEATURES_UNIT == 0
        and conv.outputs % columns == 0
        and products >= machine_model.PLACES_PRODUCTS
        and products * columns * dtype.itemsize <= machine_model.CONVOLUTION_BLOCK_BYTES
        and count >= machine_model.PLACE_HEIGHTS[-1]
        and _computed(count) <= machine_model.MOST_EXTRA_WORK * count
    )


def places(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Rows of outputs, each by a product for every part of it and every `columns` features of the result."""
    columns = target.place_columns(out.dtype)
    weights = _panels(target, rhs, conv, columns)
    *outer, last = conv.axes
    products = conv.taps * conv.features
    joined = _joined_rows(conv)
    count = joined * last.count
    units = conv.batch * conv.groups * math.prod(axis.count for axis in outer) // joined
    size = conv.taps * count
    tasks = task_count(units, 8 * size)
    table, zeros = target.scratch((tasks, size), np.int64), target.scratch((tasks, conv.features), lhs.dtype)
    handle = target.blas(out.dtype, "places")
    buffers = {"blas": (handle, "r"), "lhs": (lhs, "r"), "weights": (weights, "r"), "out": (out, "w")}
    buffers |= {"table": (table, "rw"), "zeros": (zeros, "rw")}
    text = KernelText()
    text.open("for task in range(start, stop):")
    text.line(f"p0 = task * {size}", f"z0 = task * {conv.features}")
    text.line(f"clear(zeros, z0, {conv.features})")
    text.open(f"for u in range(task * {units} // {tasks}, (task + 1) * {units} // {tasks}):")
    names, counts = [f"i{a}" for a in range(len(outer))], [axis.count for axis in outer]
    if joined > 1:
        counts[-1] //= joined
    write_places(text, "u", ["n", "g", *names], [conv.batch, conv.groups, *counts], whatever=True)
    if joined > 1:
        text.line(f"{names[-1]} = {names[-1]} * {joined}")
    _write_table(text, conv, joined)
    place = [("n", conv.out_steps[0]), ("g", conv.out_steps[1])]
    place += [(name, axis.out_step) for name, axis in zip(names, outer, strict=True)]
    text.line(f"y0 = {total(*place)}")
    # Meanwhile the processor may fetch the input that the next rows need besides, a share during each product.
    blocks, parts = conv.outputs // columns, _parts(count)
    share, next_row = 0, 0
    beyond = [("n", conv.lhs_steps[0]), ("g", conv.lhs_steps[1])]
    if outer:
        row = outer[-1]
        share = joined * row.stride * row.lhs_step // (blocks * len(parts))
        beyond += [(name, axis.stride * axis.lhs_step) for name, axis in zip(names, outer, strict=True)]
        next_row = ((joined - 1) * row.stride + (row.window - 1) * row.dilation - row.low + 1) * row.lhs_step
    ahead = total(*beyond, next_row, ("b", share * len(parts)))
    step = -(-share * lhs.dtype.itemsize * machine_model.FEATURES_UNIT // products)
    with text.loop("b", blocks):
        weight = total(("g", conv.outputs * products), ("b", columns * products))
        text.line(f"w0 = {weight}", f"y1 = {total('y0', ('b', columns))}", f"ahead = minimum({ahead}, {lhs.size - 1})")
        for first, height, number in _runs(parts):
            with text.loop("part", number):
                text.line(f"p1 = p0 + part * {height} + {first}")
                text.line(f"y2 = y1 + part * {height * last.out_step} + {first * last.out_step}")
                text.line(
                    f"gemm_places_{cast(out.dtype)}(blas, {height}, {columns}, {conv.taps}, {conv.features}, table, "
                    f"p1, {count}, lhs, zeros, z0, weights, w0, out, y2, {last.out_step}, ahead, {step})"
                )
                text.line(f"ahead = ahead + {share}")
    target.kernel("convolution_places", str(text), buffers, tasks, flops=conv.flops, offsets={"out": conv.out_start})


def _joined_rows(conv: Convolution) -> int:
    """How many rows of the last axis are taken as one."""
    *outer, last = conv.axes
    if not outer or outer[-1].out_step != last.count * last.out_step:
        return 1
    least, little = machine_model.PLACE_HEIGHTS[-1], machine_model.LITTLE_EXTRA_WORK
    rows = [n for n in range(1, outer[-1].count + 1) if outer[-1].count % n == 0 and n * last.count >= least]
    more = {n: _computed(n * last.count) / (n * last.count) for n in rows}
    return next((n for n in rows if more[n] <= little), min(rows, key=lambda n: more[n], default=1))


def _computed(count: int) -> int:
    return sum(height for _, height in _parts(count))


def _parts(count: int) -> list[tuple[int, int]]:
    """First outputs and heights of the parts of a row; the last one overlaps the one before if it must."""
    heights = machine_model.PLACE_HEIGHTS
    parts, first = [], 0
    while first < count:
        rest = -(-(count - first) // heights[-1]) * heights[-1]
        height = next((h for h in heights if h <= min(rest, count)), heights[-1])
        parts.append((min(first, count - height), height))
        first += height
    return parts


def _runs(parts: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """First output, height and number of parts that follow each other without overlapping: two runs, the last one empty
    if all parts are in the first, so that the text is the same.
    """
    runs: list[tuple[int, int, int]] = []
    for first, height in parts:
        if runs and runs[-1][1] == height and runs[-1][0] + runs[-1][2] * height == first:
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((first, height, 1))
    return [*runs, (0, runs[0][1], 0)][:2]


def _panels(target: Any, rhs: Any, conv: Convolution, columns: int) -> Any:
    """The kernel as panels of `columns` outputs: groups, blocks of outputs, taps, features, outputs of a block."""
    group, output, feature = conv.rhs_steps
    taps = [(axis.window, axis.rhs_step) for axis in conv.axes]
    order = [(conv.groups, group), (conv.outputs // columns, columns * output), *taps]
    order += [(conv.features, feature), (columns, output)]
    wanted = row_major([count for count, _ in order])
    runs = [CopyLoop(count, to, step) for (count, step), to in zip(order, wanted, strict=True) if count > 1]
    copy = target.scratch((math.prod(count for count, _ in order),), rhs.dtype)
    outermost, *inner = runs
    text = KernelText()
    to, source = total(("start", outermost.to_step)), total(("start", outermost.from_step), conv.rhs_start)
    write_copy(text, ("panels", to), ("rhs", source), [replace(outermost, count="stop - start"), *inner])
    buffers = {"copier": (target.copier(), "r"), "rhs": (rhs, "r"), "panels": (copy, "w")}
    target.kernel("kernel_panels", str(text), buffers, outermost.count, bytes=2 * copy.size * rhs.dtype.itemsize)
    return copy


def _write_table(text: KernelText, conv: Convolution, joined: int) -> None:
    """Where each tap (slowest) of each output of the rows from n, g, i0, … on begins in the input; -1 if in padding."""
    *outer, last = conv.axes
    depth = text.depth
    text.open(f"for r in range({joined}):")
    write_nest(text, [(f"k{a}", axis.window) for a, axis in enumerate(conv.axes)])
    place = [("n", conv.lhs_steps[0]), ("g", conv.lhs_steps[1])]
    tests = []
    for a, axis in enumerate(outer):
        row = ("r", axis.stride if a == len(outer) - 1 and joined > 1 else 0)
        text.line(f"j{a} = {total((f'i{a}', axis.stride), row, (f'k{a}', axis.dilation), -axis.low)}")
        place.append((f"j{a}", axis.lhs_step))
        if not axis.inside:
            tests += [f"j{a} >= 0", f"j{a} < {axis.size}"]
    a = len(outer)
    steps = row_major([axis.window for axis in conv.axes])
    taps = [(f"k{d}", step * joined * last.count) for d, step in enumerate(steps)]
    text.line(f"p = {total('p0', *taps, ('r', last.count))}")
    text.line(f"origin = {total((f'k{a}', last.dilation), -last.low)}")
    text.line(f"x = {total(*place, ('origin', last.lhs_step))}")
    if not all(axis.inside for axis in conv.axes):
        with text.loop("i", last.count):
            text.line("table[p + i] = -1")
    text.open(f"if {' and '.join(tests) or 'True'}:")
    first, stop = "0", str(last.count)
    if not last.inside:
        s = last.stride
        text.line(f"first = maximum(0, ({s - 1} - origin) // {s})")
        text.line(f"last = minimum({last.count}, ({last.size - 1} - origin) // {s} + 1)")
        first, stop = "first", "last"
    with text.loop("i", first, stop):
        text.line(f"table[p + i] = {total('x', ('i', last.stride * last.lhs_step))}")
    text.close(depth)
