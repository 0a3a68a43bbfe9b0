"""Convolutions whose windows are larger than what comes out, as the gradients of weights are: long sums in few places.

Knows the text of the loops; which convolution takes which is decided elsewhere. Their features are the images of the
convolution that they are the gradient of, their outputs its taps. Sums are taken in a fixed number of parts, each in
a fixed order, so the threads change no bit.
"""

from __future__ import annotations

import math
from typing import Any

from functad import machine_model
from functad.primitives.loops.convolution_direct import divisor, out_index, write_nest, write_places, write_sum
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.convolution_packing import (
    CopyLoop,
    row_major,
    write_copy,
)
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast


def suits_few_weights(conv: Convolution, itemsize: int) -> bool:
    """Few weights, and images of some size, but none that is too large to copy, whose rows follow each other."""
    few = machine_model.WEIGHTS_IN_REGISTERS
    is_small = conv.positions <= machine_model.SUMMED_WINDOW
    pairs = machine_model.SUMMED_WINDOWS if is_small else few
    if len(conv.axes) not in (1, 2) or conv.positions > few or conv.taps < few or conv.batch * conv.outputs > pairs:
        return False
    if math.prod(_copies(conv)) * itemsize > machine_model.MOST_EXTRA_BYTES:
        return False
    follow = row_major([axis.window for axis in conv.axes])
    return all(axis.rhs_step == step for axis, step in zip(conv.axes, follow, strict=True))


def time_of_few_weights(conv: Convolution) -> float:
    """How long their loops take, in the time of as many terms in a large matrix product: mostly to read vectors."""
    row, block = _accumulators(conv)
    spills = row * block > 2 * machine_model.WINDOW_TILE_ROWS
    least = machine_model.FEW_WEIGHTS_SPILLED if spills else machine_model.FEW_WEIGHTS_TIME
    time = max(least, machine_model.FEW_WEIGHTS_READ * (row + block) / (row * block))
    if conv.axes[-1].dilation == 1:  # whole rows are copied in next to no time
        return time
    return time + machine_model.WINDOW_COPY_TERMS * math.prod(_copies(conv)) / (
        conv.taps * conv.positions * conv.outputs
    )


def _accumulators(conv: Convolution) -> tuple[int, int]:
    """How many taps of a row and how many outputs are summed at a time."""
    taps = conv.axes[-1].count
    row = taps if taps <= machine_model.TAPS_AT_ONCE else 1
    return row, divisor(conv.outputs, machine_model.ACCUMULATORS // row)


def _copies(conv: Convolution) -> list[int]:
    """The sizes of an image's copies: one for each tap of a row, of which one for each remainder of strides of rows."""
    *outer, last = conv.axes
    rows = [size for axis in outer for size in (axis.dilation, -(-axis.reach // axis.dilation))]
    return [last.count, *rows, last.window]


def few_weights(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution) -> None:
    """Some accumulators at a time, in one loop over the pixels of an image.

    Each tap of a row has a copy of the input of its own, with the pitch of the cotangent, which is read as it is.
    """
    t = cast(out.dtype)
    *outer, last = conv.axes
    pixels = conv.taps
    _, *sizes = _copies(conv)
    (phase, step), plane = (row_major(sizes)[:2] if outer else (0, 0)), math.prod(sizes)
    row, block = _accumulators(conv)
    parts = min(conv.features, machine_model.MOST_PARTS)
    size = conv.batch * conv.groups * conv.outputs * conv.positions
    sums, copies = (target.scratch((parts, n), out.dtype) for n in (size, last.count * plane))
    buffers = {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "sums": (sums, "rw"), "copies": (copies, "rw")}
    buffers["copier"] = (target.copier(), "r")
    text = KernelText()
    text.open("for part in range(start, stop):")
    text.line(f"x0 = part * {last.count * plane}", f"z0 = part * {size}")
    text.line(f"clear(sums, z0, {size})")
    if not all(axis.inside for axis in conv.axes) or any(axis.dilation > 1 for axis in outer):
        text.line(f"clear(copies, x0, {last.count * plane})")
    text.open(f"for c in range(part * {conv.features} // {parts}, (part + 1) * {conv.features} // {parts}):")
    write_nest(text, [("g", conv.groups), ("n", conv.batch)])
    _write_copies(text, conv, plane, phase, step)
    text.open(f"for b in range({conv.outputs // block}):")
    place = ("c", conv.rhs_steps[2]), ("g", conv.rhs_steps[0]), ("b", block * conv.rhs_steps[1])
    text.line(f"y0 = {total(*place)}")
    taps = [(f"i{a}", axis.count) for a, axis in enumerate(conv.axes)]
    if row > 1:
        taps.pop()
    write_nest(text, taps)
    x1: list[Any] = ["x0"]
    for axis in outer:
        text.line(f"at = {total(('i0', axis.stride))}")
        x1 += [(f"(at // {axis.dilation})", step), (f"(at % {axis.dilation})", phase)]
    x1 += [(name, plane) for name, _ in taps[len(outer) :]]
    text.line(f"x1 = {total(*x1)}")
    accumulators = [(o, i) for o in range(block) for i in range(row)]
    text.line(*(f"a{o}_{i} = {t}(0)" for o, i in accumulators))
    with text.loop("e", pixels):
        text.line(*(f"p{i} = copies[{total('x1', 'e', i * plane)}]" for i in range(row)))
        for o in range(block):
            text.line(f"q = rhs[{total('y0', 'e', o * conv.rhs_steps[1])}]")
            text.line(*(f"a{o}_{i} = accumulate(a{o}_{i}, term(p{i}, q))" for i in range(row)))
    each, one = conv.batch * conv.positions, conv.positions
    place_steps = row_major([axis.count for axis in conv.axes])
    places = [(name, step) for (name, _), step in zip(taps, place_steps, strict=False)]
    groups = "z0", ("g", conv.outputs * each), ("b", block * each), ("n", one)
    text.line(f"z = {total(*groups, *places)}")
    for o, i in accumulators:
        place_of_sum = f"sums[{total('z', o * each + i)}]"
        text.line(f"{place_of_sum} = {place_of_sum} + a{o}_{i}")
    target.kernel("weights_of_rows", str(text), buffers, parts, flops=conv.flops)
    add_exact_parts(target, out, conv, sums, "gont")


def _write_copies(text: KernelText, conv: Convolution, plane: int, phase: int, step: int) -> None:
    """Copy image n of group g for each tap of a row: `plane` elements, rows `step` apart, phases of rows `phase`."""
    *outer, last = conv.axes
    run = CopyLoop(last.window, 1, last.lhs_step, last.dilation, "origin", last.base, last.size, not last.inside)
    runs = [
        CopyLoop(
            -(-axis.reach // axis.dilation), step, axis.lhs_step, axis.dilation, "above", axis.base, axis.size,
            axis.dilation > 1 or not axis.inside,
        )
        for axis in outer
    ]  # fmt: skip
    with text.block(f"for k in range({last.count}):", *(f"for p in range({axis.dilation}):" for axis in outer)):
        text.line(f"origin = {total(('k', last.stride), -last.low)}")
        text.line(*(f"above = {total('p', -axis.low)}" for axis in outer))
        image = total(("c", conv.lhs_steps[2]), ("g", conv.lhs_steps[1]), ("n", conv.lhs_steps[0]))
        copy = total("x0", ("k", plane), *(("p", phase) for _ in outer))
        write_copy(text, ("copies", copy), ("lhs", image), [*runs, run])


def add_parts(target: Any, lhs: Any, rhs: Any, out: Any, conv: Convolution, sums: Any, order: str) -> None:
    """Add the partial sums, which lie in the given order of (g, o, n) and taps (t).

    Those that are not finite are taken again by the definition: zeros may have met infinities.
    """
    t, places, text = cast(out.dtype), _places_of_sums(conv, order), KernelText()
    parts, size = sums.shape
    with text.loop("u", "start", "stop"):
        text.line(f"acc = {t}(0)")
        with text.loop("part", parts):
            text.line(f"acc = acc + sums[{total(('part', size), 'u')}]")
        write_places(text, "u", [name for name, _ in places], [count for _, count in places])
        with text.block(f"if acc - acc != {t}(0):"):
            write_sum(text, conv, t)
        text.line(f"out[{out_index(conv)}] = acc")
    buffers = {"lhs": (lhs, "r"), "rhs": (rhs, "r"), "sums": (sums, "r"), "out": (out, "w")}
    _add(target, text, buffers, size)


def add_exact_parts(target: Any, out: Any, conv: Convolution, sums: Any, order: str, room: int = 0) -> None:
    """Add partial sums of terms that are all wanted: in none has a zero met what is not finite.

    room: how many places there are along the last axis, if more than are wanted.
    """
    text = KernelText()
    parts, size = sums.shape
    count = _write_sums_of_rows(text, conv, parts, size, _places_of_sums(conv, order), room)
    _add(target, text, {"sums": (sums, "rw"), "out": (out, "w")}, count)


def _add(target: Any, text: KernelText, buffers: dict[str, Any], count: int) -> None:
    sums, _ = buffers["sums"]
    parts, size = sums.shape
    nbytes = (parts + 1) * sums.dtype.itemsize * size
    target.kernel("add_parts", str(text), buffers, count, flops=parts * size, bytes=nbytes)


def _places_of_sums(conv: Convolution, order: str) -> list[tuple[str, int]]:
    """The axes of partial sums by the names of their indices, in the given order, and how long each is."""
    taps = [(f"i{a}", axis.count) for a, axis in enumerate(conv.axes)]
    extents = {"g": conv.groups, "o": conv.outputs, "n": conv.batch}
    return [place for part in order for place in (taps if part == "t" else [(part, extents[part])])]


def _write_sums_of_rows(
    text: KernelText, conv: Convolution, parts: int, size: int, places: list[tuple[str, int]], room: int
) -> int:
    """Add rows of sums to those of the first part, and put them where they belong; returns how many steps that takes.

    A row has all sums of a place along the first axes. Where those of the last one of them neighbour in the result, as
    many rows are taken at once as a vector of AVX-512 has floats.
    """
    to = dict(zip("ngo", conv.out_steps, strict=True))
    to |= {f"i{a}": axis.out_step for a, axis in enumerate(conv.axes)}
    names, counts = [name for name, _ in places], [count for _, count in places]
    source = dict(zip(names, row_major([*counts[:-1], room or counts[-1]]), strict=True))
    many = (k for k in range(1, len(places)) if math.prod(counts[:k]) >= machine_model.MOST_PARTS)
    *outer, last = names[: next(many, len(places) - 1)]
    together = machine_model.FLOATS_OF_VECTOR if to[last] == 1 else 1
    tiles = [*counts[: len(outer)], -(-counts[len(outer)] // together)]
    with text.loop("u", "start", "stop"):
        write_places(text, "u", [*outer, "tile"], tiles)
        text.line(f"first = {total(('tile', together))}")
        text.line(f"rows = minimum({together}, {counts[len(outer)]} - first)")
        for name, steps, start in (("s", source, 0), ("y", to, conv.out_start)):
            text.line(f"{name} = {total(*((axis, steps[axis]) for axis in outer), ('first', steps[last]), start)}")
        text.line(f"size = {total(('rows', source[last]))}")
        with text.loop("part", 1, parts), text.loop("e", "size"):
            text.line(f"sums[s + e] = sums[s + e] + sums[{total(('part', size), 's', 'e')}]")
        inner: list[tuple[str, int | str]] = [(last, "rows"), *places[len(outer) + 1 :]]
        inner.sort(key=lambda place: -to[place[0]])
        write_nest(text, inner)
        place, sum_place = (
            total(name, *((axis, steps[axis]) for axis, _ in inner)) for name, steps in (("y", to), ("s", source))
        )
        text.line(f"out[{place}] = sums[{sum_place}]")
    return math.prod(tiles)
