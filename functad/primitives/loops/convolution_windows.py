"""Convolutions by vectors of neighbouring outputs: their windows are read from a padded copy, or the input itself.

Knows the text of the table that says where windows lie; which convolution takes this way is decided elsewhere, and how
a product is computed, with all terms summed up in registers, is the target's affair.
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
from functad.primitives.loops.convolution_products import (
    ScratchPlan,
    leading_step,
    ordered_weights,
    places_of_product,
    stride_phases,
    write_input,
    write_taps,
)
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast
from functad.records import Record


class _WindowVectors(Record):
    """Which outputs are neighbours in vectors.

    across: those of all rows of a block, as they lie in its padded copy, with what is computed beyond the ends of rows;
        else those of each row, of which the last two overlap where they have to.
    of_row: how many a row has by itself: an even number if some overlap, as these must be a pair.
    time: how long it takes, in the time of the terms that are wanted.
    """

    across: bool
    of_row: int
    time: float


def time_of_windows(conv: Convolution, lanes: int) -> float:
    """How long it takes this way, in the time of as many terms in a large matrix product; infinite if it is none.

    lanes: how many outputs a vector has, 0 if the target has no products of windows.
    """
    features_apart = conv.lhs_steps[2] != 1 and conv.out_steps[2] != 1
    if not lanes or len(conv.axes) < 2 or conv.taps == 1 or not features_apart or any(a.base > 1 for a in conv.axes):
        return math.inf
    padding = machine_model.WINDOW_COPY_TERMS / (conv.taps * conv.outputs)
    return _vectors(conv, lanes).time * max(1, machine_model.WINDOW_OUTPUTS / conv.outputs) + padding


def window_products(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Blocks of rows, each by one product of windows."""
    item, lanes = out.dtype.itemsize, target.window_lanes(out.dtype)
    vectors = _vectors(conv, lanes)
    across = vectors.across
    plan = _plan(conv, item, lanes if across else 0)
    weights, terms = ordered_weights(target, rhs, conv, "goct"), conv.taps * conv.features
    rows, *counts = [plan.rows, *(axis.count for axis in conv.axes[1:])]
    steps = plan.steps if across else row_major([rows, *counts])
    places = plan.row + (rows - 1) * steps[0] if across else rows * math.prod(counts)
    room = -(-places // lanes) * lanes
    if plan.direct:
        room, steps = 0, tuple(axis.out_step for axis in conv.axes)
    of_row = math.prod(counts[:-1]) * vectors.of_row
    number = f"({places_of_product(plan)} + {lanes - 1}) // {lanes}" if across else f"rows * {of_row}"
    size = terms + 2 * (room // lanes if across else rows * of_row)
    blocks = -(-conv.axes[0].count // rows)
    units = conv.batch * conv.groups * blocks
    tasks = task_count(units, (plan.copied + conv.outputs * room) * item + 8 * size)
    buffers = {"blas": (target.blas(out.dtype, "windows"), "r"), "lhs": (lhs, "r"), "weights": (weights, "r")}
    buffers |= {"table": (target.scratch((tasks, size), np.int64), "rw"), "out": (out, "w")}
    text = KernelText()
    text.open("for task in range(start, stop):")
    text.line(f"t0 = task * {size}", f"y0 = task * {conv.outputs * room}")
    _write_terms(text, plan)
    if across:
        _write_vectors_across(text, terms, lanes, room)
    else:
        _write_vectors_of_rows(text, plan, lanes, vectors.of_row, steps)
    text.open(f"for u in range(task * {units} // {tasks}, (task + 1) * {units} // {tasks}):")
    write_places(text, "u", ["n", "g", "block"], [conv.batch, conv.groups, blocks], whatever=True)
    text.line(f"first = block * {rows}", f"rows = minimum({rows}, {conv.axes[0].count} - first)")
    x = write_input(text, target, lhs, plan, tasks, buffers)
    place = total(("n", conv.out_steps[0]), ("g", conv.out_steps[1]), ("first", conv.axes[0].out_step))
    y, y_place, y_pitch = ("out", place, conv.out_steps[2]) if plan.direct else ("result", "y0", room)
    text.line(
        f"gemm_windows_{cast(out.dtype)}(blas, {conv.outputs}, {number}, {lanes}, {terms}, table, t0, "
        f"t0 + {terms}, {x}, x0, weights, {total(('g', conv.outputs * terms))}, {terms}, 0, {y}, {y_place}, {y_pitch})"
    )
    if not plan.direct:
        result = target.scratch((tasks, conv.outputs * room), out.dtype)
        buffers |= {"result": (result, "rw"), "copier": (target.copier(), "r")}
        runs = [CopyLoop(conv.outputs, conv.out_steps[2], room)]
        runs += [CopyLoop(a.count if d else "rows", a.out_step, steps[d]) for d, a in enumerate(conv.axes)]
        write_copy(text, ("out", place), ("result", "y0"), runs)
    target.kernel("convolution_windows", str(text), buffers, tasks, flops=conv.flops, offsets={"out": conv.out_start})


def _vectors(conv: Convolution, lanes: int) -> _WindowVectors:
    """The vectors that take the least time, copies of results that cannot be written to their places included."""
    last, copy = conv.axes[-1], machine_model.WINDOW_COPY_TERMS / (conv.taps * conv.features)
    pitches = (axis.count + (axis.window - 1) * axis.dilation // axis.stride for axis in conv.axes[1:])
    places = conv.axes[0].count * math.prod(pitches)
    across = -(-places // (2 * lanes)) * 2 * lanes / conv.positions + copy
    of_row = last.count // lanes if last.count % lanes == 0 else -(-last.count // (2 * lanes)) * 2
    by_row = of_row * lanes / last.count + (copy if last.out_step > 1 else 0) if last.count >= lanes else math.inf
    return _WindowVectors(across < by_row, of_row, min(across, by_row))


def _plan(conv: Convolution, itemsize: int, across: int) -> ScratchPlan:
    """So many rows that their input stays in the cache, and that threads have blocks to share.

    across: elements of a vector that goes across rows; 0 if none do.
    """
    first, *others = conv.axes
    reaches = [(axis.window - 1) * axis.dilation // axis.stride for axis in conv.axes]
    lengths = [axis.count + reach for axis, reach in zip(others, reaches[1:], strict=True)]
    phases = stride_phases(conv)
    row_bytes = conv.features * math.prod((*phases, *lengths)) * itemsize
    most = max(1, machine_model.WINDOW_BLOCK_BYTES // row_bytes - reaches[0])
    blocks = max(-(-first.count // most), -(-machine_model.WINDOW_BLOCKS // (conv.batch * conv.groups)))
    rows = -(-first.count // blocks)
    extents = (rows + reaches[0], *lengths)
    last = conv.axes[-1]
    plan = ScratchPlan(
        conv,
        "shifted",
        rows,
        extents,
        steps=row_major(extents),
        phases=phases,
        features_last=False,
        outputs_last=False,
        in_place=False,
        direct=not across and last.out_step == 1,
        by_rows=False,
        beyond=max(0, across - 1),
    )
    whole = last.lhs_step == 1 and all(axis.inside and axis.stride == 1 for axis in conv.axes)
    # Vectors across rows may go beyond the end of the input.
    return (
        replace(plan, in_place=True, steps=tuple(axis.lhs_step for axis in conv.axes)) if whole and not across else plan
    )


def _write_terms(text: KernelText, plan: ScratchPlan) -> None:
    """The places of the table's terms."""
    conv, depth = plan.conv, text.depth
    text.open(f"for c in range({conv.features}):")
    place = write_taps(text, plan, "0")
    taps = [(f"k{d}", step) for d, step in enumerate(row_major([axis.window for axis in conv.axes]))]
    text.line(f"table[{total('t0', ('c', conv.taps), *taps)}] = {total(place, ('c', leading_step(plan)))}")
    text.close(depth)


def _write_vectors_across(text: KernelText, terms: int, lanes: int, room: int) -> None:
    """The places of vectors in the copy and in the result of one feature, which has `room` elements."""
    text.line(f"v = {total('t0', terms)}")
    with text.loop("i", room // lanes):
        text.line(f"table[v + 2 * i] = i * {lanes}", f"table[v + 2 * i + 1] = i * {lanes}")


def _write_vectors_of_rows(
    text: KernelText, plan: ScratchPlan, lanes: int, of_row: int, steps: tuple[int, ...]
) -> None:
    """The places of vectors in the input and, with these steps, in the result."""
    conv, depth = plan.conv, text.depth
    *outer, last = conv.axes
    names = [*(f"i{d}" for d in range(len(outer))), "along"]
    text.line(f"v = {total('t0', conv.taps * conv.features)}")
    write_nest(text, list(zip(names, [plan.rows, *(axis.count for axis in outer[1:])], strict=False)))
    text.open(f"for i in range({of_row}):")
    # One too many is the first vector once more, so that the last two are a pair.
    again = of_row - -(-last.count // lanes)
    number = f"maximum(i - {again}, 0)" if again else "i"
    text.line(f"along = minimum({number} * {lanes}, {last.count - lanes})")
    for k, there in enumerate((plan.steps, steps)):
        text.line(f"table[{total('v', k)}] = {total(*zip(names, there, strict=True))}")
    text.line("v = v + 2")
    text.close(depth)
