"""Copies of a convolution's input with its padding, in the layout that loops and matrix products want.

Knows the text of the copying; not what the copies are for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from functad import machine_model
from functad.primitives.loops.convolution_geometry import ConvolutionAxis
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import AXES_OF_A_COPY
from functad.records import Record


class CopyLoop(Record):
    """One loop of a copy. Place d of the copy holds input `(d * jump + origin) / base`, or zero where there is none.

    count and origin are numbers or names; `checked`: some places hold no input.
    """

    count: int | str
    to_step: int
    from_step: int
    jump: int = 1
    origin: int | str = 0
    base: int = 1
    size: int = 0
    checked: bool = False


def padded(axis: ConvolutionAxis, to_step: int) -> CopyLoop:
    """The places of a padded axis that the windows cover."""
    return CopyLoop(axis.reach, to_step, axis.lhs_step, 1, -axis.low, axis.base, axis.size, not axis.inside)


def write_copy(text: KernelText, to: tuple[str, str], source: tuple[str, str], runs: Sequence[CopyLoop]) -> None:
    """Copy `source` to `to` (each a buffer's name and a place in it) along all runs, in any order, by `strided_copy`.

    The kernel has a parameter `copier`. Where there is no input, nothing is written.
    """
    places: list[list[str | int | tuple[str | int, int]]] = [[to[1]], [source[1]]]
    depth, axes = text.depth, []
    for r, run in enumerate(runs):
        if run.base > 1 and run.jump > 1:
            _write_sparse(text, r, run, places)
        elif run.base > 1:
            axes.append(_axis_of_input(text, r, run, places))
        else:
            axes.append(_axis(text, r, run, places))
    *outer, a, b, c, d = [_NO_AXIS] * AXES_OF_A_COPY + _innermost_last(_joined(axes))
    for r, axis in enumerate(outer):
        if axis != _NO_AXIS:
            text.open(f"for e{r} in range({axis.count}):")
            places[0].append((f"e{r}", axis.to_step))
            places[1].append((f"e{r}", axis.from_step))
    inner = [axis for axis in (a, b, c) if axis != _NO_AXIS] + [d]
    sizes = ", ".join(f"{axis.count}, {axis.to_step}, {axis.from_step}" for axis in inner)
    (to_place, source_place) = (total(*terms) for terms in places)
    text.line(f"strided_copy(copier, {to[0]}, {to_place}, {source[0]}, {source_place}, {sizes})")
    text.close(depth)


class _CopyAxis(Record):
    """An axis of a copy: how many elements, and how far neighbours lie apart. least: how many there are, about."""

    count: int | str
    to_step: int
    from_step: int
    least: int


_NO_AXIS = _CopyAxis(1, 0, 0, 1)


def _axis(text: KernelText, r: int, run: CopyLoop, places: Sequence[list[Any]]) -> _CopyAxis:
    """The axis of a run, which begins where there is input; its beginning is added to the places."""
    first: int | str = 0
    count = run.count
    if run.checked:
        first, last = _bounds(text, r, run)
        count = f"{last} - {first}"
        if isinstance(first, int) and isinstance(last, int):
            count = last - first
    places[0].append((first, run.to_step))
    places[1] += [(first, run.jump * run.from_step), (run.origin, run.from_step)]
    least = run.count if isinstance(run.count, int) else machine_model.SHORT_ROW_OF_A_COPY
    return _CopyAxis(count, run.to_step, run.jump * run.from_step, least)


def _axis_of_input(text: KernelText, r: int, run: CopyLoop, places: Sequence[list[Any]]) -> _CopyAxis:
    """The axis of a run whose places hold every input in turn, with zeros between: it goes over the input."""
    base, origin = run.base, run.origin
    end = total(run.count, origin, base - 1)
    text.line(f"first{r} = maximum(0, ({total(origin, base - 1)}) // {base})")
    text.line(f"last{r} = minimum({run.size}, ({end}) // {base})")
    places[0] += [(f"first{r}", base * run.to_step), (origin, -run.to_step)]
    places[1].append((f"first{r}", run.from_step))
    return _CopyAxis(f"last{r} - first{r}", base * run.to_step, run.from_step, machine_model.SHORT_ROW_OF_A_COPY)


def _write_sparse(text: KernelText, r: int, run: CopyLoop, places: Sequence[list[Any]]) -> None:
    """Open a loop over the places of a run with strides besides, of which few hold input."""
    name, at = f"d{r}", f"s{r}"
    text.open(f"for {name} in range({run.count}):")
    text.line(f"{at} = {total((name, run.jump), run.origin)}")
    text.open(f"if {at} >= 0 and {at} < {(run.size - 1) * run.base + 1} and {at} % {run.base} == 0:")
    places[0].append((name, run.to_step))
    places[1].append((f"({at} // {run.base})", run.from_step))


def _joined(axes: Sequence[_CopyAxis]) -> list[_CopyAxis]:
    """Without axes of one element; neighbours become one where rows follow each other in both memories."""
    joined: list[_CopyAxis] = []
    for axis in axes:
        if axis.count == 1:
            continue
        before = joined[-1] if joined else None
        if (
            before is not None
            and isinstance(axis.count, int)
            and (before.to_step, before.from_step) == (axis.count * axis.to_step, axis.count * axis.from_step)
        ):
            both = total((before.count, axis.count))
            joined[-1] = replace(axis, count=int(both) if both.isdigit() else both, least=before.least * axis.count)
        else:
            joined.append(axis)
    return joined or [_CopyAxis(1, 1, 1, 1)]


def _innermost_last(axes: list[_CopyAxis]) -> list[_CopyAxis]:
    """The last axis stays the last if it is a row of neighbours; else the longest one is."""
    last = axes[-1]
    if last.to_step == last.from_step == 1 and last.least >= machine_model.SHORT_ROW_OF_A_COPY:
        return axes
    longest = max(range(len(axes)), key=lambda k: (axes[k].least, k))
    return [axis for k, axis in enumerate(axes) if k != longest] + [axes[longest]]


def _bounds(text: KernelText, r: int, run: CopyLoop) -> tuple[int | str, int | str]:
    """The first place with input, and the one after the last."""
    jump = run.jump
    if isinstance(run.origin, int) and isinstance(run.count, int):
        first = max(0, -(run.origin // jump))
        return first, max(first, min(run.count, (run.size - 1 - run.origin) // jump + 1))
    up = f"0 - {run.origin}" if jump == 1 else f"({jump - 1} - {run.origin}) // {jump}"
    down = f"{run.size} - {run.origin}" if jump == 1 else f"({run.size - 1} - {run.origin}) // {jump} + 1"
    text.line(f"first{r} = maximum(0, {up})", f"last{r} = minimum({run.count}, {down})")
    return f"first{r}", f"last{r}"


def task_count(units: int, scratch_bytes: int) -> int:
    """In how many tasks to do the units, each of which needs scratch memory of its own."""
    return min(units, machine_model.MOST_PARTS, max(2, machine_model.MOST_EXTRA_BYTES // scratch_bytes))


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
