"""Gradients of a convolution's weights by vectors of neighbouring features, or of neighbouring taps of a row.

Knows the text of the table that says where they lie in a padded copy of the input, for each position and tap; which
gradient takes this way is decided elsewhere, and how a product is computed is the target's affair.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.convolution_direct import write_nest, write_places
from functad.primitives.loops.convolution_geometry import Convolution, ConvolutionAxis, with_images_as_axis
from functad.primitives.loops.convolution_packing import CopyLoop, row_major, task_count, write_copy
from functad.primitives.loops.convolution_weight_products import gradient_of
from functad.primitives.loops.convolution_weights import add_exact_parts
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast
from functad.records import Record


class _CopiedAxis(Record):
    """How the input lies in its copy along an axis: each phase has every `jump`-th place."""

    phases: int
    places: int  # of a phase
    jump: int
    spacing: int  # places between those of neighbouring positions


class _WindowPlan(Record):
    """How a block of rows of the primal convolution lies in scratch memory.

    together: features that lie side by side at a place of the copy: those of a vector, or 1 if vectors are of taps.
    """

    conv: Convolution
    rows: int  # of the first axis
    lanes: int
    together: int

    @property
    def of_taps(self) -> bool:
        return self.together == 1

    @property
    def axes(self) -> list[_CopiedAxis]:
        """Vectors of features have a phase for each remainder of the stride, so that neighbours lie close by."""
        axes, counts = self.conv.axes, [self.rows, *(axis.count for axis in self.conv.axes[1:])]
        apart = [True] * (len(axes) - 1) + [not self.of_taps]
        return [_copied_axis(*each) for each in zip(axes, counts, apart, strict=True)]

    @property
    def in_place(self) -> bool:
        """The products read the cotangent itself, as the positions of a block follow each other."""
        follow = row_major([self.rows, *(axis.count for axis in self.conv.axes[1:])])
        return all(axis.out_step == step for axis, step in zip(self.conv.axes, follow, strict=True))

    @property
    def plane(self) -> int:
        """Elements of the copy of `together` features."""
        return math.prod(axis.phases * axis.places for axis in self.axes) * self.together

    @property
    def steps(self) -> tuple[int, ...]:
        """Elements between places along each axis."""
        return tuple(step * self.together for step in row_major([a.phases * a.places for a in self.axes]))

    @property
    def blocks(self) -> int:
        """Copies of `together` features."""
        return -(-self.conv.features // self.together)

    @property
    def pieces(self) -> int:
        """Vectors of a row of taps of as many features as lie together."""
        window = self.conv.axes[-1].window
        return -(-window // self.lanes) if self.of_taps else window

    @property
    def vectors(self) -> int:
        return self.blocks * math.prod(axis.window for axis in self.conv.axes[:-1]) * self.pieces

    @property
    def terms(self) -> int:
        """Positions of a block."""
        return self.rows * math.prod(axis.count for axis in self.conv.axes[1:])

    @property
    def copied(self) -> int:
        """Elements of the copy, and what the last vector of taps reads beyond."""
        return self.blocks * self.plane + self.lanes


def time_of_weight_windows(conv: Convolution, itemsize: int, lanes: int) -> float:
    """How long it takes this way, in the time of as many terms in a large matrix product; infinite if it is none.

    lanes: how many numbers a vector has, 0 if the target has no products of windows.
    """
    primal = gradient_of(conv)
    if not lanes or primal.taps == 1:
        return math.inf
    plan = _plan(primal, itemsize, lanes)
    primal = plan.conv
    wanted, blocks = primal.features * primal.taps, -(-primal.axes[0].count // plan.rows)
    computed = -(-plan.vectors // 2) * 2 * lanes / wanted
    copies = blocks * plan.copied / (primal.outputs * wanted) + (0 if plan.in_place else primal.positions / wanted)
    few = max(1, machine_model.WINDOW_OUTPUTS / primal.outputs)
    return computed * few + machine_model.WINDOW_COPY_TERMS * copies / primal.positions


def weight_windows(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Blocks of rows, each by one product: cotangent times windows of the input."""
    item = out.dtype.itemsize
    plan = _plan(gradient_of(conv), item, target.window_lanes(out.dtype))
    primal = plan.conv
    blocks = -(-primal.axes[0].count // plan.rows)
    units, row = primal.batch * blocks, plan.vectors * plan.lanes
    size = primal.groups * primal.outputs * row
    parts = min(units, machine_model.MOST_PARTS, max(2, machine_model.MOST_COPIED_ELEMENTS // size))
    shares, table = parts * primal.groups, plan.terms + 2 * plan.vectors
    cotangents = 0 if plan.in_place else primal.outputs * plan.terms
    tasks = task_count(shares, (plan.copied + cotangents) * item + 8 * table)
    sums = target.scratch((parts, size), out.dtype)
    buffers = {"blas": (target.blas(out.dtype, "windows"), "r"), "copier": (target.copier(), "r")}
    buffers |= {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "sums": (sums, "rw")}
    buffers["table"] = (target.scratch((tasks, table), np.int64), "rw")
    buffers["copy"] = (target.scratch((tasks, plan.copied), out.dtype), "rw")
    text = KernelText()
    text.open("for task in range(start, stop):")
    text.line(f"t0 = task * {table}", f"x0 = task * {plan.copied}")
    text.line(f"clear(copy, x0, {plan.copied})")
    _write_table(text, plan)
    text.open(f"for v in range(task * {shares} // {tasks}, (task + 1) * {shares} // {tasks}):")
    write_places(text, "v", ["part", "g"], [parts, primal.groups], whatever=True)
    text.line("added = 0")
    text.open(f"for u in range(part * {units} // {parts}, (part + 1) * {units} // {parts}):")
    write_places(text, "u", ["n", "block"], [primal.batch, blocks], whatever=True)
    text.line(f"first = block * {plan.rows}", f"rows = minimum({plan.rows}, {primal.axes[0].count} - first)")
    _write_input(text, plan)
    y, y0, pitch = "rhs", "rhs0", primal.out_steps[2]
    place = [("n", primal.out_steps[0]), ("g", primal.out_steps[1]), ("first", primal.axes[0].out_step)]
    text.line(f"rhs0 = {total(*place)}")
    if not plan.in_place:
        y, y0, pitch = "cotangent", "y0", plan.terms
        buffers[y] = (target.scratch((tasks, cotangents), out.dtype), "rw")
        text.line(f"y0 = task * {cotangents}")
        _write_cotangent(text, plan)
    text.line(f"terms = {total(('rows', plan.terms // plan.rows))}")
    text.line(
        f"gemm_windows_{cast(out.dtype)}(blas, {primal.outputs}, {plan.vectors}, {plan.lanes}, terms, table, t0, "
        f"t0 + {plan.terms}, copy, x0, {y}, {y0}, {pitch}, added, sums, {total(('v', size // primal.groups))}, {row})"
    )
    text.line("added = 1")
    target.kernel("weights_windows", str(text), buffers, tasks, flops=conv.flops)
    room = plan.pieces * plan.lanes if plan.of_taps else plan.blocks * plan.lanes
    add_exact_parts(target, out, conv, sums, "gont" if plan.of_taps else "gotn", room)


def _plan(primal: Convolution, itemsize: int, lanes: int) -> _WindowPlan:
    """So many rows that their input stays in the cache; images of few positions are rows, too."""
    if primal.batch > 1 and 2 * primal.positions <= machine_model.PANEL_DEPTH:
        primal = with_images_as_axis(primal)
    of_taps = _lanes_of_taps(primal, lanes) < _lanes_of_features(primal, lanes)
    whole = _WindowPlan(primal, primal.axes[0].count, lanes, 1 if of_taps else lanes)
    first, (axis, *_) = primal.axes[0], whole.axes
    of_row = axis.spacing * axis.phases * (whole.copied // (axis.phases * axis.places)) * itemsize
    most = machine_model.WINDOW_BLOCK_BYTES // of_row - (first.window - 1) * first.dilation // first.stride
    blocks = -(-first.count // max(1, most))
    return replace(whole, rows=-(-first.count // blocks))


def _lanes_of_features(primal: Convolution, lanes: int) -> float:
    """How many lanes of vectors there are for each that is wanted."""
    return -(-primal.features // lanes) * lanes / primal.features


def _lanes_of_taps(primal: Convolution, lanes: int) -> float:
    last = primal.axes[-1]
    return -(-last.window // lanes) * lanes / last.window if last.dilation == 1 else math.inf


def _copied_axis(axis: ConvolutionAxis, count: int, apart: bool) -> _CopiedAxis:
    """What so many positions read. apart: each remainder of the stride has a copy of its own."""
    reach = (axis.window - 1) * axis.dilation
    if apart:
        return _CopiedAxis(min(axis.stride, reach + 1), count + reach // axis.stride, axis.stride, 1)
    return _CopiedAxis(1, (count - 1) * axis.stride + reach + 1, 1, axis.stride)


def _write_table(text: KernelText, plan: _WindowPlan) -> None:
    """Where each position begins in the copy, then where each vector does from there, and in a row of the sums."""
    conv, depth = plan.conv, text.depth
    counts = [plan.rows, *(axis.count for axis in conv.axes[1:])]
    write_nest(text, [(f"i{d}", count) for d, count in enumerate(counts)])
    place = total("t0", *((f"i{d}", step) for d, step in enumerate(row_major(counts))))
    steps = [axis.spacing * step for axis, step in zip(plan.axes, plan.steps, strict=True)]
    text.line(f"table[{place}] = {total(*((f'i{d}', step) for d, step in enumerate(steps)))}")
    text.close(depth)
    windows = [*(axis.window for axis in conv.axes[:-1]), plan.pieces]
    # Vectors are taken in pairs, of which those of neighbouring features are one where there are two of them.
    pair = 1 if plan.of_taps or plan.blocks % 2 else 2
    text.line(f"w = t0 + {plan.terms}")
    text.open(f"for b in range(0, {plan.blocks}, {pair}):")
    write_nest(text, [*((f"k{d}", window) for d, window in enumerate(windows)), ("c", pair)])
    window = [("b", plan.plane), ("c", plan.plane)]
    for d, (axis, copied, step) in enumerate(zip(conv.axes, plan.axes, plan.steps, strict=True)):
        tap = plan.lanes if plan.of_taps and d == len(windows) - 1 else axis.dilation
        if copied.jump == 1:
            window.append((f"k{d}", tap * step))
        else:
            text.line(f"at{d} = {total((f'k{d}', tap))}")
            window += [(f"(at{d} // {copied.jump})", step), (f"(at{d} % {copied.jump})", copied.places * step)]
    text.line(f"table[w] = {total(*window)}")
    taps = row_major(windows)
    block, tap = (math.prod(windows), 1) if plan.of_taps else (1, plan.blocks)
    number = total(("b", block), ("c", block), *((f"k{d}", n * tap) for d, n in enumerate(taps)))
    text.line(f"table[w + 1] = ({number}) * {plan.lanes}", "w = w + 2")
    text.close(depth)


def _write_input(text: KernelText, plan: _WindowPlan) -> None:
    """Copy the input of a block with its padding: the features of a vector side by side."""
    conv, depth = plan.conv, text.depth
    if any(not axis.inside or copied.jump > 1 for axis, copied in zip(conv.axes, plan.axes, strict=True)):
        text.line(f"clear(copy, x0, {plan.copied})")
    runs: list[CopyLoop] = []
    places: list[Any] = ["x0"]
    for d, (axis, copied, step) in enumerate(zip(conv.axes, plan.axes, plan.steps, strict=True)):
        text.open(f"for p{d} in range({copied.phases}):")
        text.line(f"origin{d} = {total(f'p{d}', ('first', axis.stride if d == 0 else 0), -axis.low)}")
        places.append((f"p{d}", copied.places * step))
        extent = copied.places if d else total(("rows", copied.spacing), copied.places - plan.rows * copied.spacing)
        is_checked = not axis.inside or copied.jump > 1
        runs.append(CopyLoop(extent, step, axis.lhs_step, copied.jump, f"origin{d}", axis.base, axis.size, is_checked))
    text.open(f"for b in range({plan.blocks}):")
    side = f"minimum({plan.together}, {conv.features} - b * {plan.together})" if not plan.of_taps else 1
    runs.append(CopyLoop(side, 1, conv.lhs_steps[2]))
    source = ("n", conv.lhs_steps[0]), ("g", conv.lhs_steps[1]), ("b", plan.together * conv.lhs_steps[2])
    write_copy(text, ("copy", total(*places, ("b", plan.plane))), ("lhs", total(*source)), runs)
    text.close(depth)


def _write_cotangent(text: KernelText, plan: _WindowPlan) -> None:
    """Copy a block's cotangent, so that the positions of each output follow each other."""
    conv = plan.conv
    counts = [plan.rows, *(axis.count for axis in conv.axes[1:])]
    runs = [CopyLoop(conv.outputs, plan.terms, conv.out_steps[2])]
    for d, (axis, step) in enumerate(zip(conv.axes, row_major(counts), strict=True)):
        runs.append(CopyLoop(axis.count if d else "rows", step, axis.out_step))
    write_copy(text, ("cotangent", "y0"), ("rhs", "rhs0"), runs)
