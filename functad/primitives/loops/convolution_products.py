"""Convolutions as matrix products on blocks of rows that stay in the cache.

Knows how a block is copied, multiplied and put into place; which convolution takes which is decided elsewhere.

The products of a block are taken in one of three ways:
unrolled: each tap has a copy of its own of the input, and one product sums over taps and features.
shifted: one product a tap, added up; each reads the same copy from another place on, in which rows of input have
    the same pitch as rows of output, so that a block is one matrix. What is computed beyond the ends of rows is left.
summed: one product gives every tap's share for every input, and the shares are added up afterwards.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

from functad import machine_model
from functad.primitives.loops.convolution_direct import write_places
from functad.primitives.loops.convolution_geometry import Convolution, ConvolutionAxis, with_images_as_axis
from functad.primitives.loops.convolution_packing import CopyLoop, row_major, task_count, write_copy
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast
from functad.records import Record


class ScratchPlan(Record):
    """How blocks lie in scratch memory. Places are those of one block, row-major in `steps`."""

    conv: Convolution
    way: str
    rows: int  # of the first axis
    extents: tuple[int, ...]  # places along each axis
    steps: tuple[int, ...]  # between places along each axis
    phases: tuple[int, ...]  # copies of the input along each axis, one for each remainder of the stride
    features_last: bool  # the copy of the input is (place, feature), not (feature, place)
    outputs_last: bool  # so is the result
    in_place: bool  # the products read the input itself
    direct: bool  # the products write the output itself
    by_rows: bool  # there is a product for each row, not one for a block, as the output has not the pitch of the copy
    beyond: int  # elements after the copy of the input that are read, too

    @property
    def places(self) -> int:
        """From the first to the last of a block."""
        return 1 + sum((extent - 1) * step for extent, step in zip(self.extents, self.steps, strict=True))

    @property
    def row(self) -> int:
        """Places from the first to the last output of one row."""
        return 1 + sum((a.count - 1) * s for a, s in zip(self.conv.axes[1:], self.steps[1:], strict=True))

    @property
    def dense(self) -> bool:
        """All places from the first to the last output of a block are outputs."""
        outputs = math.prod(axis.count for axis in self.conv.axes[1:])
        return self.row == outputs and (self.rows == 1 or self.steps[0] == outputs)

    @property
    def copied(self) -> int:
        """Elements of the copy of a block's input."""
        if self.in_place:
            return 0
        copies = self.conv.taps if self.way == "unrolled" else math.prod(self.phases)
        return copies * self.conv.features * self.places + self.beyond

    @property
    def computed(self) -> int:
        """Elements of the result of a block's products."""
        return self.places * self.conv.outputs * (self.conv.taps if self.way == "summed" else 1)


def way_of_products(conv: Convolution) -> str:
    """Copy what is fewer: the taps of few features, or the shares of few outputs."""
    if conv.taps == 1:
        return "shifted"
    few = machine_model.FEW_OUTPUTS
    few_outputs = conv.outputs <= few and 2 * conv.outputs <= conv.features and conv.taps <= few
    if few_outputs and all(axis.stride == 1 for axis in conv.axes):
        return "summed"
    row = math.prod(axis.count for axis in conv.axes[1:])
    if conv.features * conv.taps * row > machine_model.MOST_COPIED_ELEMENTS:
        return "shifted"
    return (
        "unrolled"
        if conv.features < machine_model.UNROLLED_FEATURES or _beyond(conv) > machine_model.MOST_EXTRA_WORK
        else "shifted"
    )


def _beyond(conv: Convolution) -> float:
    """How many places of shifted products there are for each output."""
    return math.prod((axis.count + (axis.window - 1) * axis.dilation) / axis.count for axis in conv.axes[1:])


def time_of_products(conv: Convolution) -> float:
    """How long they take, with all that is copied or added up, in the time of as many terms in a large product."""
    if way_of_products(conv) == "shifted":
        return _beyond(conv) * (1 + machine_model.SHIFTED_FEATURES / conv.features)
    row = 1 + machine_model.UNROLLED_ROW / conv.axes[-1].count if conv.axes else 1
    return 1 + machine_model.UNROLLED_OUTPUTS * row / conv.outputs


def products(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Blocks of rows, each by matrix products."""
    plan = plan_blocks(conv, out.dtype.itemsize)
    conv = plan.conv
    weights = _weights(target, rhs, plan)
    if is_one_product(plan):
        _one_product(target, lhs, weights, out, plan)
        return
    t = cast(out.dtype)
    blocks = -(-conv.axes[0].count // plan.rows)
    units = tasks = conv.batch * conv.groups * blocks
    buffers = {"blas": (target.blas(out.dtype), "r"), "lhs": (lhs, "r"), "weights": (weights, "r"), "out": (out, "w")}
    text = KernelText()
    if plan.in_place and plan.direct:
        text.open("for u in range(start, stop):")
    else:
        tasks = task_count(units, (plan.copied + plan.computed) * out.dtype.itemsize)
        text.open("for task in range(start, stop):")
        text.open(f"for u in range(task * {units} // {tasks}, (task + 1) * {units} // {tasks}):")
    write_places(text, "u", ["n", "g", "block"], [conv.batch, conv.groups, blocks], whatever=True)
    text.line(f"first = block * {plan.rows}")
    text.line(f"rows = minimum({plan.rows}, {conv.axes[0].count} - first)")
    y = "out"
    x = write_input(text, target, lhs, plan, tasks, buffers)
    place = [("n", conv.out_steps[0]), ("g", conv.out_steps[1]), ("first", conv.axes[0].out_step)]
    text.line(f"out0 = {total(*place)}")
    if plan.direct:
        text.line("y0 = out0")
        buffers["out"] = (out, "rw")
    else:
        y = "result"
        buffers[y] = (target.scratch((tasks, plan.computed), out.dtype), "rw")
        text.line(f"y0 = task * {plan.computed}")
    _write_products(text, plan, t, x, y)
    if not plan.direct:
        _write_outputs(text, plan, buffers, target)
    # Where it begins is no part of the text, so that parts of one convolution by phases share a kernel.
    target.kernel(
        f"convolution_{plan.way}", str(text), buffers, tasks, flops=conv.flops, offsets={"out": conv.out_start}
    )


def plan_blocks(conv: Convolution, itemsize: int) -> ScratchPlan:
    """Choose the way and the size of the blocks, and find out what need not be copied."""
    conv = _blockable(conv)
    way = way_of_products(conv)
    axes, unrolled = conv.axes, way == "unrolled"
    reaches = [0 if unrolled else (a.window - 1) * a.dilation // a.stride for a in axes]
    lengths = [a.count + reach for a, reach in zip(axes, reaches, strict=True)]
    depth = max(conv.features, conv.outputs) * (1 if way == "shifted" else conv.taps)
    features_last, outputs_last = conv.lhs_steps[2] == 1, conv.out_steps[2] == 1
    has_rows = len(axes) > 1 and axes[-1].count >= machine_model.WIDE_ROW
    by_rows = way == "shifted" and features_last and outputs_last and has_rows
    by_rows = by_rows and axes[-1].out_step >= conv.outputs and lengths[-1] > axes[-1].count
    most = machine_model.CONVOLUTION_BLOCK_PLACES * (4 if by_rows else 1)
    places = min(most, machine_model.CONVOLUTION_BLOCK_BYTES // (depth * itemsize))
    rows = _even_share(axes[0].count, max(1, places // math.prod(lengths[1:])))
    extents = (rows + reaches[0], *lengths[1:])
    plan = ScratchPlan(
        conv,
        way,
        rows,
        extents,
        steps=row_major(extents),
        phases=tuple(1 for _ in axes) if unrolled else stride_phases(conv),
        features_last=features_last,
        outputs_last=outputs_last,
        in_place=False,
        direct=by_rows,
        by_rows=by_rows,
        beyond=0,
    )
    unit = axes[-1].lhs_step
    there = replace(plan, in_place=True, steps=tuple(a.lhs_step // unit for a in axes))
    leading, row = (unit, conv.features) if plan.features_last else (conv.lhs_steps[2], there.places)
    whole = all(a.inside and a.stride == 1 and a.lhs_step % unit == 0 for a in axes)
    if not unrolled and whole and (plan.features_last or unit == 1) and leading >= row:
        plan = there
    if by_rows:
        return plan
    unit = axes[-1].out_step
    leading, row = (unit, conv.outputs) if plan.outputs_last else (conv.out_steps[2], plan.places)
    fits = all(a.out_step == step * unit for a, step in zip(axes, plan.steps, strict=True))
    direct = way != "summed" and fits and plan.dense and (plan.outputs_last or unit == 1) and leading >= row
    return replace(plan, direct=direct)


def is_one_product(plan: ScratchPlan) -> bool:
    """All of it is the product of two matrices in memory."""
    conv = plan.conv
    simple = plan.way == "shifted" and conv.taps == conv.batch == conv.groups == len(conv.axes) == 1
    return simple and plan.in_place and plan.direct


def _one_product(target: Any, lhs: Any, weights: Any, out: Any, plan: ScratchPlan) -> None:
    conv = plan.conv
    (axis,) = conv.axes
    x = (lhs, -axis.low * axis.lhs_step, leading_step(plan))
    flag = int(plan.features_last != plan.outputs_last)
    if plan.outputs_last:
        a, b, sizes = x, (weights, 0, conv.outputs), (axis.count, conv.outputs)
        ta, tb, pitch = flag, 0, axis.out_step
    else:
        a, b, sizes = (weights, 0, conv.features), x, (conv.outputs, axis.count)
        ta, tb, pitch = 0, flag, conv.out_steps[2]
    (left, a_offset, lda), (right, b_offset, ldb), (m, n) = a, b, sizes
    target.gemm(
        left, right, out, ta=ta, tb=tb, m=m, n=n, k=conv.features, lda=lda, ldb=ldb, ldc=pitch,
        a_offset=a_offset, b_offset=b_offset, c_offset=conv.out_start,
    )  # fmt: skip


def _blockable(conv: Convolution) -> Convolution:
    """The same with at least one axis, and with so many images in a block that it is not too small."""
    if not conv.axes:
        return replace(conv, axes=(ConvolutionAxis(1, 1, 1, 1, 1, 0, 1, 1, 1, 1),))
    if conv.batch > 1 and math.prod(axis.reach for axis in conv.axes) <= machine_model.CONVOLUTION_BLOCK_PLACES // 2:
        return with_images_as_axis(conv)
    return conv


def _even_share(count: int, most: int) -> int:
    """At most `most`, so that the last share of `count` is not much smaller than the others."""
    return -(-count // -(-count // most))


# --- weights --------------------------------------------------------------------------------------------------


def _weights(target: Any, rhs: Any, plan: ScratchPlan) -> Any:
    """The kernel in the order in which the products take it: itself, or a copy."""
    if plan.way == "summed":
        order = "gcto" if plan.outputs_last else "gtoc"
    elif plan.way == "shifted":
        order = "gtco" if plan.outputs_last else "gtoc"
    else:
        contracted = "tc" if plan.features_last else "ct"
        order = f"g{contracted}o" if plan.outputs_last else f"go{contracted}"
    return ordered_weights(target, rhs, plan.conv, order)


def ordered_weights(target: Any, rhs: Any, conv: Convolution, order: str) -> Any:
    """The kernel with its axes in this order of groups, outputs, features (c) and taps."""
    sizes = {"g": [conv.groups], "o": [conv.outputs], "c": [conv.features], "t": [a.window for a in conv.axes]}
    steps = {name: [step] for name, step in zip("goc", conv.rhs_steps, strict=True)}
    steps["t"] = [axis.rhs_step for axis in conv.axes]
    extents, theirs = ([x for name in order for x in table[name]] for table in (sizes, steps))
    wanted = row_major(extents)
    runs = [CopyLoop(n, to, step) for n, to, step in zip(extents, wanted, theirs, strict=True) if n > 1]
    if conv.rhs_start == 0 and all(run.to_step == run.from_step for run in runs):
        return rhs
    runs = runs or [CopyLoop(1, 1, 1)]
    copy = target.scratch((math.prod(extents),), rhs.dtype)
    outer, *inner = runs
    text = KernelText()
    # The text counts from the first element that is read, so that weights of other phases share the kernel.
    back = sum((n - 1) * min(step, 0) for n, step in zip(extents, theirs, strict=True))
    places = [total(("start", outer.to_step)), total(("start", outer.from_step), -back)]
    write_copy(text, ("copy", places[0]), ("rhs", places[1]), [replace(outer, count="stop - start"), *inner])
    buffers = {"copier": (target.copier(), "r"), "rhs": (rhs, "r"), "copy": (copy, "w")}
    nbytes, begin = 2 * copy.size * rhs.dtype.itemsize, conv.rhs_start + back
    target.kernel("order_weights", str(text), buffers, outer.count, bytes=nbytes, offsets={"rhs": begin})
    return copy


# --- a block --------------------------------------------------------------------------------------------------


def write_input(text: KernelText, target: Any, lhs: Any, plan: ScratchPlan, tasks: int, buffers: dict[str, Any]) -> str:
    """Set x0 to where the block's input begins, and copy it there if need be; returns the name of its buffer."""
    conv = plan.conv
    if plan.in_place:
        inside: list[Any] = [("first", conv.axes[0].lhs_step), -sum(axis.low * axis.lhs_step for axis in conv.axes)]
        text.line(f"x0 = {total(('n', conv.lhs_steps[0]), ('g', conv.lhs_steps[1]), *inside)}")
        return "lhs"
    buffers |= {"copier": (target.copier(), "r"), "copy": (target.scratch((tasks, plan.copied), lhs.dtype), "rw")}
    text.line(f"x0 = task * {plan.copied}")
    even = _padded_plan(plan)
    if not _pays_padding(plan, even):
        _write_copies(text, plan, "copy", "x0")
        return "copy"
    # Windows of a padded input without strides are rows of one length, side by side.
    buffers["padded"] = (target.scratch((tasks, even.copied), lhs.dtype), "rw")
    text.line(f"p0 = task * {even.copied}")
    _write_copies(text, even, "padded", "p0")
    _write_windows(text, plan, even)
    return "copy"


def _pays_padding(plan: ScratchPlan, even: ScratchPlan) -> bool:
    """Whether windows would have to look for borders, or step over elements, for each tap, and overlap much."""
    plain = all(axis.inside and axis.stride == 1 for axis in plan.conv.axes)
    overlap = even.copied < plan.copied
    return plan.way == "unrolled" and not plan.features_last and overlap and not plain


def _padded_plan(plan: ScratchPlan) -> ScratchPlan:
    """The same block with a copy of the input for each remainder of the strides, which windows lie in."""
    axes = plan.conv.axes
    reaches = [(a.window - 1) * a.dilation // a.stride for a in axes]
    extents = (plan.rows + reaches[0], *(a.count + reach for a, reach in zip(axes[1:], reaches[1:], strict=True)))
    return replace(plan, way="shifted", extents=extents, steps=row_major(extents), phases=stride_phases(plan.conv))


def stride_phases(conv: Convolution) -> tuple[int, ...]:
    """How many remainders of the stride the taps along each axis have."""
    return tuple(min(a.stride, (a.window - 1) * a.dilation + 1) for a in conv.axes)


def _write_windows(text: KernelText, plan: ScratchPlan, even: ScratchPlan) -> None:
    """Copy each tap's windows from the padded input."""
    conv, depth = plan.conv, text.depth
    text.open(f"for c in range({conv.features}):")
    place = write_taps(text, even, "p0")
    taps = row_major([axis.window for axis in conv.axes])
    to = total("x0", ("c", conv.taps * plan.places), *((f"k{d}", tap * plan.places) for d, tap in enumerate(taps)))
    runs = [CopyLoop(axis.count if d else "rows", plan.steps[d], even.steps[d]) for d, axis in enumerate(conv.axes)]
    write_copy(text, ("copy", to), ("padded", total(place, ("c", even.places))), runs)
    text.close(depth)


def _write_copies(text: KernelText, plan: ScratchPlan, to: str, start: str) -> None:
    """Copy a block's input: once for each tap if unrolled, else for each remainder of the strides."""
    conv, depth = plan.conv, text.depth
    unrolled = plan.way == "unrolled"
    checked = [not a.inside or (a.stride > 1 and not unrolled) for a in conv.axes]
    if any(checked):
        text.line(f"clear({to}, {start}, {plan.copied})")
    counts = [a.window for a in conv.axes] if unrolled else plan.phases
    source = [("n", conv.lhs_steps[0]), ("g", conv.lhs_steps[1])]
    runs = []
    for d, (axis, count) in enumerate(zip(conv.axes, counts, strict=True)):
        origin: list[Any] = [(f"k{d}", axis.dilation if unrolled else 1), -axis.low]
        origin += [("first", axis.stride)] if d == 0 else []
        text.open(f"for k{d} in range({count}):")
        text.line(f"origin{d} = {total(*origin)}")
        extent = plan.extents[d] if d else total("rows", plan.extents[0] - plan.rows)
        step = plan.steps[d] * place_step(plan)
        runs.append(CopyLoop(extent, step, axis.lhs_step, axis.stride, f"origin{d}", axis.base, axis.size, checked[d]))
    number = total(*((f"k{d}", step) for d, step in enumerate(row_major(counts))))
    copies = math.prod(counts)
    if plan.features_last:
        place = total(start, (number, conv.features if unrolled else conv.features * plan.places))
        runs.append(CopyLoop(conv.features, 1, conv.lhs_steps[2]))
    else:
        place = total(start, (number, plan.places if unrolled else conv.features * plan.places))
        runs.insert(0, CopyLoop(conv.features, plan.places * (copies if unrolled else 1), conv.lhs_steps[2]))
    write_copy(text, (to, place), ("lhs", total(*source)), runs)
    text.close(depth)


def place_step(plan: ScratchPlan) -> int:
    """How far apart neighbouring places of the input lie, where the products read it."""
    if not plan.features_last:
        return 1
    if plan.in_place:
        return plan.conv.axes[-1].lhs_step
    return plan.conv.features * (plan.conv.taps if plan.way == "unrolled" else 1)


def leading_step(plan: ScratchPlan) -> int:
    """The leading dimension of the input as a matrix of places and features."""
    if plan.features_last:
        return place_step(plan)
    return plan.conv.lhs_steps[2] if plan.in_place else plan.places


def places_of_product(plan: ScratchPlan) -> str:
    """The text of how many places a product covers."""
    if plan.by_rows:
        return str(plan.conv.axes[-1].count)
    most = plan.places if plan.way == "summed" else plan.row + (plan.rows - 1) * plan.steps[0]
    return total(("rows", plan.steps[0]), most - plan.rows * plan.steps[0])


def write_rows(text: KernelText, plan: ScratchPlan) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Open loops over the rows that have products of their own; returns how far in input and output they are apart."""
    if not plan.by_rows:
        return [], []
    x, y = [], []
    for d, axis in enumerate(plan.conv.axes[:-1]):
        text.open(f"for r{d} in range({axis.count if d else 'rows'}):")
        x.append((f"r{d}", plan.steps[d] * place_step(plan)))
        y.append((f"r{d}", axis.out_step))
    return x, y


def write_taps(text: KernelText, plan: ScratchPlan, start: str = "x0") -> str:
    """Open loops over the taps of shifted products; returns the place in the input where a tap's matrix begins."""
    conv = plan.conv
    terms = []
    for d, (axis, phases) in enumerate(zip(conv.axes, row_major(plan.phases), strict=True)):
        text.open(f"for k{d} in range({axis.window}):")
        step = plan.steps[d] * place_step(plan)
        if axis.stride == 1:
            terms.append((f"k{d}", axis.dilation * step))
        else:
            text.line(f"at{d} = {total((f'k{d}', axis.dilation))}")
            terms.append((f"(at{d} // {axis.stride})", step))
            terms.append((f"(at{d} % {axis.stride})", phases * conv.features * plan.places))
    return total(start, *terms)


def _write_products(text: KernelText, plan: ScratchPlan, t: str, x: str, y: str) -> None:
    conv = plan.conv
    depth = conv.features * (conv.taps if plan.way == "unrolled" else 1)
    width = conv.outputs * (conv.taps if plan.way == "summed" else 1)
    level = text.depth
    text.line(f"places = {places_of_product(plan)}")
    x_rows, y_rows = write_rows(text, plan)
    leading = leading_step(plan)
    y_leading = width if plan.outputs_last else plan.places
    if plan.direct:
        y_leading = conv.axes[-1].out_step if plan.outputs_last else conv.out_steps[2]
    weights, place, beta = [("g", conv.outputs * conv.features * conv.taps)], "x0", f"{t}(0)"
    if plan.way == "shifted" and conv.taps > 1:
        beta = "beta"
        text.line(f"beta = {t}(0)")
        place = write_taps(text, plan)
        matrix = conv.outputs * conv.features
        weights += [(f"k{d}", step * matrix) for d, step in enumerate(row_major([a.window for a in conv.axes]))]
    place, y_place, w = total(place, *x_rows), total("y0", *y_rows), total(*weights)
    flag = int(plan.features_last != plan.outputs_last)
    if plan.outputs_last:
        sizes, a, b = f"{flag}, 0, places, {width}, {depth}", f"{x}, {place}, {leading}", f"weights, {w}, {width}"
    else:
        sizes, a, b = f"0, {flag}, {width}, places, {depth}", f"weights, {w}, {depth}", f"{x}, {place}, {leading}"
    text.line(f"gemm_{t}(blas, {sizes}, {t}(1), {a}, {b}, {beta}, {y}, {y_place}, {y_leading})")
    if beta == "beta":
        text.line(f"beta = {t}(1)")
    text.close(level)


def _write_outputs(text: KernelText, plan: ScratchPlan, buffers: dict[str, Any], target: Any) -> None:
    """Put a block's result into its place, adding the taps' shares if they are apart."""
    conv, depth = plan.conv, text.depth
    summed = plan.way == "summed"
    width = conv.outputs * (conv.taps if summed else 1)
    unit, output_step = (width, 1) if plan.outputs_last else (1, plan.places)
    loops = [(axis.count if d else "rows", plan.steps[d] * unit, axis.out_step) for d, axis in enumerate(conv.axes)]
    loops.insert(len(loops) if plan.outputs_last else 0, (conv.outputs, output_step, conv.out_steps[2]))
    if not summed:
        buffers["copier"] = (target.copier(), "r")
        write_copy(text, ("out", "out0"), ("result", "y0"), [CopyLoop(n, to, step) for n, step, to in loops])
        return
    names = [f"i{k}" for k in range(len(loops))]
    for name, (count, _, _) in zip(names, loops, strict=True):
        text.open(f"for {name} in range({count}):")
    text.line(f"y = {total('y0', *((name, step) for name, (_, step, _) in zip(names, loops, strict=True)))}")
    shares = []
    for tap, ks in enumerate(itertools.product(*(range(axis.window) for axis in conv.axes))):
        shift = sum(k * a.dilation * step for k, a, step in zip(ks, conv.axes, plan.steps, strict=True))
        shares.append(f"result[{total('y', shift * unit + tap * conv.outputs * output_step)}]")
    place = total("out0", *((name, to) for name, (_, _, to) in zip(names, loops, strict=True)))
    text.line(f"out[{place}] = {' + '.join(shares)}")
    text.close(depth)
