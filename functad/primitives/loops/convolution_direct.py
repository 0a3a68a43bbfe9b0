"""Convolutions as plain loops: any one, and those with so few weights that matrix products would not pay.

Knows the text of the loops; which convolution takes which is decided elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from functad import machine_model
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.convolution_packing import (
    CopyLoop,
    padded,
    row_major,
    task_count,
    write_copy,
)
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast

# --- any convolution ---------------------------------------------------------------------------------------


def any_convolution(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """A sum for each output; padding is multiplied, too, as the weights may be infinite."""
    text = KernelText()
    outer = [conv.batch, conv.groups, conv.outputs, *(axis.count for axis in conv.axes[:1])]
    names = ["n", "g", "o", "i0"][: len(outer)]
    with text.loop("u", "start", "stop"):
        write_places(text, "u", names, outer)
        write_nest(text, [(f"i{a}", axis.count) for a, axis in enumerate(conv.axes)][1:])
        write_sum(text, conv, cast(out.dtype))
        text.line(f"out[{out_index(conv)}] = acc")
    buffers = {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "out": (out, "w")}
    target.kernel("convolution", str(text), buffers, math.prod(outer), flops=conv.flops)


def write_places(
    text: KernelText, place: str, names: Sequence[str], sizes: Sequence[int], *, whatever: bool = False
) -> None:
    """Assign to each name its share of a row-major place. whatever: in a text that is the same for all sizes."""
    step = math.prod(sizes)
    for position, (name, size) in enumerate(zip(names, sizes, strict=True)):
        step //= size
        is_last = position == len(names) - 1
        quotient = place if step == 1 and (is_last or not whatever) else f"{place} // {step}"
        if size == 1 and not whatever:
            text.line(f"{name} = 0")
        else:
            text.line(f"{name} = {quotient}" if position == 0 else f"{name} = {quotient} % {size}")


def write_nest(text: KernelText, loops: Sequence[tuple[str, int | str]]) -> None:
    """Open nested loops; what follows, to the end of the block around, is inside."""
    for name, count in loops:
        text.open(f"for {name} in range({count}):")


def write_sum(text: KernelText, conv: Convolution, t: str) -> None:
    """`acc` becomes the sum for output (n, g, o, i0, i1, …), taken one product at a time."""
    text.line(f"acc = {t}(0)")
    with text.block(f"for c in range({conv.features}):"):
        x_place, w_place, tests = _write_window(text, conv)
        if tests:
            text.line(f"x = {t}(0)")
            with text.block(f"if {tests}:"):
                text.line(f"x = lhs[{x_place}]")
        else:
            text.line(f"x = lhs[{x_place}]")
        text.line(f"acc = {t}(acc + x * rhs[{w_place}])")


def _write_window(text: KernelText, conv: Convolution) -> tuple[str, str, str]:
    """Open loops over a window. Returns where input and weight lie, and the test for an input that is not padding."""
    lhs_terms: list[Any] = list(zip(("n", "g", "c"), conv.lhs_steps, strict=True))
    rhs_terms: list[Any] = list(zip(("g", "o", "c"), conv.rhs_steps, strict=True))
    tests = []
    for a, axis in enumerate(conv.axes):
        text.open(f"for k{a} in range({axis.window}):")
        text.line(f"j{a} = {total((f'i{a}', axis.stride), (f'k{a}', axis.dilation), -axis.low)}")
        rhs_terms.append((f"k{a}", axis.rhs_step))
        lhs_terms.append((f"j{a}" if axis.base == 1 else f"(j{a} // {axis.base})", axis.lhs_step))
        if not axis.inside:
            tests += [f"j{a} >= 0", f"j{a} < {(axis.size - 1) * axis.base + 1}"]
            tests += [f"j{a} % {axis.base} == 0"] if axis.base > 1 else []
    return total(*lhs_terms), total(*rhs_terms, conv.rhs_start), " and ".join(tests)


def out_index(conv: Convolution) -> str:
    places = [(f"i{a}", axis.out_step) for a, axis in enumerate(conv.axes)]
    return total(*zip(("n", "g", "o"), conv.out_steps, strict=True), *places, conv.out_start)


# --- many small groups that neighbour in memory: all groups at a time ------------------------------------------


def suits_groups(conv: Convolution) -> bool:
    """A group has few weights, and its neighbours in memory are those of the next group."""
    neighbours = conv.lhs_steps[1] == conv.rhs_steps[0] == conv.out_steps[1] == 1
    return neighbours and conv.groups >= machine_model.FEWEST_COLUMNS


def all_groups(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """One output of all groups at a time: the loop over the groups is the innermost."""
    t = cast(out.dtype)
    places = [("n", conv.batch), ("o", conv.outputs), *((f"i{a}", axis.count) for a, axis in enumerate(conv.axes))]
    count = math.prod(size for _, size in places)
    text = KernelText()
    text.open("for u in range(start, stop):")
    write_places(text, "u", [name for name, _ in places], [size for _, size in places])
    text.line("g = 0", f"y = {out_index(conv)}")
    with text.loop("e", conv.groups):
        text.line(f"out[y + e] = {t}(0)")
    text.open(f"for c in range({conv.features}):")
    x_place, w_place, tests = _write_window(text, conv)
    text.line(f"w = {w_place}")
    text.open(f"if {tests or 'True'}:")
    text.line(f"x = {x_place}")
    with text.loop("e", conv.groups):
        text.line("out[y + e] = out[y + e] + lhs[x + e] * rhs[w + e]")
    buffers = {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "out": (out, "rw")}
    target.kernel("convolution_groups", str(text), buffers, count, flops=conv.flops)


# --- few channels: rows of outputs, with all taps in one statement -------------------------------------------


def suits_rows(conv: Convolution) -> bool:
    """Few products to an output, and rows of outputs that lie in one piece of memory."""
    if not conv.axes or conv.axes[-1].out_step != 1 or conv.axes[-1].lhs_step != 1:
        return False
    products = conv.features * conv.taps
    registers, columns = machine_model.WEIGHTS_IN_REGISTERS, machine_model.FEWEST_COLUMNS
    few = conv.features * conv.outputs <= registers and (conv.outputs <= columns or products <= 12)
    is_single = conv.outputs <= machine_model.SINGLE_OUTPUTS and conv.taps >= machine_model.SINGLE_OUTPUTS_WINDOW
    is_short = products <= machine_model.DIRECT_PRODUCTS or is_single
    return few and is_short and conv.taps <= registers and conv.positions >= columns


def rows(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Rows of a few outputs at a time: each input is read once for all of them."""
    t = cast(out.dtype)
    units = tasks = conv.batch * conv.groups
    buffers = {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "out": (out, "w")}
    text = KernelText()
    image = total(("n", conv.lhs_steps[0]), ("g", conv.lhs_steps[1]))
    if all(axis.inside for axis in conv.axes):
        text.open("for u in range(start, stop):")
        write_places(text, "u", ["n", "g"], [conv.batch, conv.groups])
        text.line(f"x0 = {total(image, -sum(axis.low * axis.lhs_step for axis in conv.axes))}")
        x = ("lhs", conv.lhs_steps[2], [axis.lhs_step for axis in conv.axes])
    else:
        sizes = [axis.reach for axis in conv.axes]
        steps, plane = row_major(sizes), math.prod(sizes)
        area = conv.features * plane
        tasks = task_count(units, area * lhs.dtype.itemsize)
        buffers |= {"copier": (target.copier(), "r"), "padded": (target.scratch((tasks, area), lhs.dtype), "rw")}
        text.open("for task in range(start, stop):")
        text.line(f"x0 = task * {area}")
        text.line(f"clear(padded, x0, {area})")
        text.open(f"for u in range(task * {units} // {tasks}, (task + 1) * {units} // {tasks}):")
        write_places(text, "u", ["n", "g"], [conv.batch, conv.groups])
        runs = [padded(axis, step) for axis, step in zip(conv.axes, steps, strict=True)]
        write_copy(text, ("padded", "x0"), ("lhs", image), [CopyLoop(conv.features, plane, conv.lhs_steps[2]), *runs])
        x = ("padded", plane, list(steps))
    together = conv.features if conv.features * conv.taps <= machine_model.WEIGHTS_IN_REGISTERS else 1
    if together < conv.features:
        buffers["out"] = (out, "rw")
    _write_rows(text, conv, x, together, t, max(1, machine_model.CACHE_LINE // out.dtype.itemsize))
    target.kernel("convolution_rows", str(text), buffers, tasks, flops=conv.flops)


def _write_rows(
    text: KernelText, conv: Convolution, x: tuple[str, int, list[int]], together: int, t: str, line: int
) -> None:
    """The outputs of image n, group g. `x`: name of the input, distances of its features and along its axes.

    With fewer features `together` than there are, the outputs are added to once for each.
    """
    source, feature_step, steps = x
    block = divisor(conv.outputs, machine_model.ACCUMULATORS // (together * conv.taps))
    summed = together < conv.features
    out_axes = [(f"i{a}", axis.out_step) for a, axis in enumerate(conv.axes)]
    text.open(f"for b in range({conv.outputs // block}):")
    text.line(f"w0 = {total(('g', conv.rhs_steps[0]), ('b', block * conv.rhs_steps[1]), conv.rhs_start)}")
    outputs = ("n", conv.out_steps[0]), ("g", conv.out_steps[1]), ("b", block * conv.out_steps[2])
    text.line(f"y0 = {total(*outputs, conv.out_start)}")
    if summed:
        with text.loop("o", block):
            write_nest(text, [(f"i{a}", axis.count) for a, axis in enumerate(conv.axes)])
            text.line(f"out[{total('y0', ('o', conv.out_steps[2]), *out_axes)}] = {t}(0)")
        text.open(f"for c in range({conv.features}):")
    feature = [("c", feature_step)] if summed else []
    taps = list(itertools.product(range(together), *(range(axis.window) for axis in conv.axes)))
    for o, (p, (c, *ks)) in itertools.product(range(block), enumerate(taps)):
        place = o * conv.rhs_steps[1] + c * conv.rhs_steps[2]
        place += sum(k * axis.rhs_step for k, axis in zip(ks, conv.axes, strict=True))
        text.line(f"w{o}_{p} = rhs[{total('w0', place, *([('c', conv.rhs_steps[2])] if summed else []))}]")
    write_nest(text, [(f"i{a}", axis.count) for a, axis in enumerate(conv.axes[:-1])])
    strides = [(f"i{a}", axis.stride * steps[a]) for a, axis in enumerate(conv.axes[:-1])]
    text.line(f"x1 = {total('x0', *feature, *strides)}", f"y1 = {total('y0', *out_axes[:-1])}")
    last = conv.axes[-1]
    if last.count > line and not summed:  # the last piece of a row overlaps the one before
        text.open(f"for part in range({-(-last.count // line)}):")
        text.line(f"first = minimum(part * {line}, {last.count - line})")
        text.line(f"x2 = {total('x1', ('first', last.stride))}", "y2 = y1 + first")
        text.open(f"for e in range({line}):")
    else:
        text.line("x2 = x1", "y2 = y1")
        text.open(f"for e in range({last.count}):")
    for p, (c, *ks) in enumerate(taps):
        place = c * feature_step + sum(k * a.dilation * s for k, a, s in zip(ks, conv.axes, steps, strict=True))
        text.line(f"v{p} = {source}[{total('x2', ('e', last.stride), place)}]")
    for o in range(block):
        result = f"out[{total('y2', 'e', o * conv.out_steps[2])}]"
        products = [f"w{o}_{p} * v{p}" for p in range(len(taps))]
        start = result if summed else f"{t}(0)"  # a sum of negative zeros is positive
        text.line(f"{result} = {' + '.join([start, *products])}")


def divisor(size: int, most: int) -> int:
    """The largest divisor of `size` that is at most `most`."""
    return next(d for d in range(min(size, max(1, most)), 0, -1) if size % d == 0)
