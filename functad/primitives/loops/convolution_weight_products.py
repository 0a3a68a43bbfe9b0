"""Gradients of a convolution's weights as matrix products on blocks of rows that stay in the cache.

Knows how a block is multiplied; its copies are those of the convolution that it is the gradient of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from functad import machine_model
from functad.primitives.loops.convolution_direct import write_places
from functad.primitives.loops.convolution_geometry import Convolution, simplified
from functad.primitives.loops.convolution_packing import CopyLoop, row_major, task_count, write_copy
from functad.primitives.loops.convolution_products import (
    ScratchPlan,
    is_one_product,
    leading_step,
    places_of_product,
    plan_blocks,
    time_of_products,
    way_of_products,
    write_input,
    write_rows,
    write_taps,
)
from functad.primitives.loops.convolution_weights import add_exact_parts, add_parts
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast


def time_of_weight_products(conv: Convolution) -> float:
    """How long they take, in the time of as many terms in a large matrix product."""
    primal = gradient_of(conv)
    copy = machine_model.WINDOW_COPY_TERMS
    if way_of_products(primal) == "summed":  # the cotangent is copied for each tap
        padding = 0 if all(axis.inside for axis in primal.axes) else copy / (primal.outputs * primal.taps)
        return 1 + copy / primal.features + padding
    return time_of_products(primal) + (0 if primal.out_steps[2] == 1 else copy / (primal.features * primal.taps))


def weight_products(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Blocks of rows of the input times those of the cotangent, in partial sums of many blocks."""
    t = cast(out.dtype)
    plan = plan_blocks(gradient_of(conv), out.dtype.itemsize)
    primal = plan.conv
    if is_one_product(plan) and min(primal.rhs_steps[1:]) == 1:
        _one_product(target, lhs, rhs, out, plan)
        return
    blocks = -(-primal.axes[0].count // plan.rows)
    units, size = primal.batch * blocks, out.size // primal.groups
    parts = min(units, machine_model.MOST_PARTS, max(2, machine_model.MOST_COPIED_ELEMENTS // out.size))
    shares = parts * primal.groups
    tasks = task_count(shares, (plan.copied + plan.computed) * out.dtype.itemsize)
    sums = target.scratch((parts, out.size), out.dtype)
    buffers = {"blas": (target.blas(out.dtype), "r"), "lhs": (lhs, "r"), "rhs": (rhs, "r"), "sums": (sums, "rw")}
    text = KernelText()
    text.open("for task in range(start, stop):")
    if not plan.direct:
        buffers["copier"] = (target.copier(), "r")
        buffers["cotangent"] = (target.scratch((tasks, plan.computed), out.dtype), "rw")
        text.line(f"y0 = task * {plan.computed}")
        text.line(f"clear(cotangent, y0, {plan.computed})")
    text.open(f"for v in range(task * {shares} // {tasks}, (task + 1) * {shares} // {tasks}):")
    write_places(text, "v", ["part", "g"], [parts, primal.groups], whatever=True)
    text.line(f"beta = {t}(0)")
    text.open(f"for u in range(part * {units} // {parts}, (part + 1) * {units} // {parts}):")
    write_places(text, "u", ["n", "block"], [primal.batch, blocks], whatever=True)
    even = blocks * plan.rows == primal.axes[0].count
    text.line(f"first = block * {plan.rows}")
    text.line(f"rows = minimum({plan.rows}, {primal.axes[0].count} - first)")
    x = write_input(text, target, lhs, plan, tasks, buffers)
    place = [("n", primal.out_steps[0]), ("g", primal.out_steps[1]), ("first", primal.axes[0].out_step)]
    text.line(f"{'y0' if plan.direct else 'rhs0'} = {total(*place)}")
    if not plan.direct:
        if plan.way == "summed" and not even:
            text.line(f"clear(cotangent, y0, {plan.computed})")
        _write_cotangent(text, plan)
    text.line(f"z0 = {total(('part', out.size), ('g', size))}")
    # If the sums can lie as they do in the result, they shall; those of shifted products lie tap by tap anyway.
    turned = plan.way == "summed" or (plan.way == "unrolled" and conv.out_steps[2] > conv.out_steps[0])
    _write_products(text, plan, t, x, "rhs" if plan.direct else "cotangent", turned)
    text.line(f"beta = {t}(1)")
    target.kernel(f"weights_{plan.way}", str(text), buffers, tasks, flops=conv.flops)
    order = _order_of_sums(plan, turned)
    if plan.way == "unrolled" or plan.direct:
        add_exact_parts(target, out, conv, sums, order)
    else:
        add_parts(target, lhs, rhs, out, conv, sums, order)


def _order_of_sums(plan: ScratchPlan, turned: bool) -> str:
    """The axes of partial sums: groups, taps, features (n) and outputs."""
    if plan.way != "unrolled":
        return "gton" if turned else "gtno"
    inputs = "tn" if plan.features_last else "nt"
    return f"go{inputs}" if turned else f"g{inputs}o"


def gradient_of(conv: Convolution) -> Convolution:
    """The convolution that has this one as the gradient of its weights: its output is `rhs`, its kernel `out`."""
    axes = [
        replace(
            axis,
            window=axis.count,
            count=axis.window,
            stride=axis.dilation,
            dilation=axis.stride,
            rhs_step=axis.out_step,
            out_step=axis.rhs_step,
        )
        for axis in conv.axes
    ]
    primal = Convolution(
        batch=conv.features,
        groups=conv.groups,
        features=conv.batch,
        outputs=conv.outputs,
        axes=tuple(axes),
        lhs_steps=(conv.lhs_steps[2], conv.lhs_steps[1], conv.lhs_steps[0]),
        rhs_steps=(conv.out_steps[1], conv.out_steps[2], conv.out_steps[0]),
        out_steps=(conv.rhs_steps[2], conv.rhs_steps[0], conv.rhs_steps[1]),
    )
    return simplified(primal)


def _one_product(target: Any, lhs: Any, rhs: Any, out: Any, plan: ScratchPlan) -> None:
    """Input times cotangent, or the other way round, as the result lies in memory."""
    conv = plan.conv
    (axis,) = conv.axes
    x = (lhs, -axis.low * axis.lhs_step, int(plan.features_last), leading_step(plan), conv.features)
    pitch = axis.out_step if plan.outputs_last else conv.out_steps[2]
    y = (rhs, 0, int(plan.outputs_last), pitch, conv.outputs)
    _, output_step, feature_step = conv.rhs_steps
    if feature_step == 1:
        x, y = y, x
    (left, a_offset, ta, lda, m), (right, b_offset, b_last, ldb, n) = x, y
    target.gemm(
        left, right, out, ta=ta, tb=1 - b_last, m=m, n=n, k=axis.count, lda=lda, ldb=ldb,
        ldc=max(feature_step, output_step, n), a_offset=a_offset, b_offset=b_offset,
    )  # fmt: skip


def _write_cotangent(text: KernelText, plan: ScratchPlan) -> None:
    """Copy the block's cotangent as a matrix of places and outputs; of places, taps and outputs if summed."""
    conv, depth = plan.conv, text.depth
    width, shift = conv.outputs, []
    if plan.way == "summed":
        width *= conv.taps
        windows = [axis.window for axis in conv.axes]
        for d, (axis, tap) in enumerate(zip(conv.axes, row_major(windows), strict=True)):
            text.open(f"for k{d} in range({axis.window}):")
            shift.append((f"k{d}", axis.dilation * plan.steps[d] * width + tap * conv.outputs))
    runs = [
        CopyLoop(axis.count if d else "rows", plan.steps[d] * width, axis.out_step) for d, axis in enumerate(conv.axes)
    ]
    runs.append(CopyLoop(conv.outputs, 1, conv.out_steps[2]))
    write_copy(text, ("cotangent", total("y0", *shift)), ("rhs", "rhs0"), runs)
    text.close(depth)


def _write_products(text: KernelText, plan: ScratchPlan, t: str, x: str, y: str, turned: bool) -> None:
    """Add a block's products to the sums. turned: cotangent times input, not input times cotangent."""
    conv, level = plan.conv, text.depth
    text.line(f"places = {places_of_product(plan)}")
    width = conv.outputs * (conv.taps if plan.way == "summed" else 1)
    depth = conv.features * (conv.taps if plan.way == "unrolled" else 1)
    flag, leading = 0, width
    if plan.direct:
        flag = int(not plan.outputs_last)
        leading = conv.axes[-1].out_step if plan.outputs_last else conv.out_steps[2]
    place, sums = "x0", "z0"
    if plan.way == "shifted":
        taps = row_major([axis.window for axis in conv.axes])
        place = write_taps(text, plan)
        sums = total("z0", *((f"k{d}", step * width * depth) for d, step in enumerate(taps)))
    beta = "beta"
    if plan.by_rows:
        beta = "share"
        text.line("share = beta")
    x_rows, y_rows = write_rows(text, plan)
    inputs = f"{x}, {total(place, *x_rows)}, {leading_step(plan)}"
    cotangents = f"{y}, {total('y0', *y_rows)}, {leading}"
    ta = int(plan.features_last)
    if turned:
        sizes = f"{1 - flag}, {1 - ta}, {width}, {depth}, places"
        text.line(f"gemm_{t}(blas, {sizes}, {t}(1), {cotangents}, {inputs}, {beta}, sums, {sums}, {depth})")
    else:
        sizes = f"{ta}, {flag}, {depth}, {width}, places"
        text.line(f"gemm_{t}(blas, {sizes}, {t}(1), {inputs}, {cotangents}, {beta}, sums, {sums}, {width})")
    if plan.by_rows:
        text.line(f"share = {t}(1)")
    text.close(level)
