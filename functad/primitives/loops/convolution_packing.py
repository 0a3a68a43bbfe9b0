"""Copies of a convolution's input with its padding, in the layout that loops and matrix products want.

Knows the text of the copying; not what the copies are for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from functad import machine_model
from functad.primitives.loops.convolution_geometry import ConvolutionAxis
from functad.primitives.loops.kernel_text import KernelText, total
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
    """Nested loops over the runs that copy `source` to `to` (each a buffer's name and a place in it).

    Where there is no input, nothing is written: see `write_clear`.
    """
    (to_name, to_place), (source_name, source_place) = to, source
    to_terms: list[str | tuple[str, int]] = [to_place]
    source_terms: list[str | tuple[str, int]] = [source_place]
    depth = text.depth
    for r, run in enumerate(runs):
        if run is runs[-1] and _is_vectors(run):
            name = write_vectors(text, f"d{r}", run.count)
            to_terms.append(name)
            source_terms.append(name)
            continue
        first, last, name = "0", str(run.count), f"d{r}"
        if run.checked and run.base == 1:
            first, last = _bounds(text, r, run)
        text.open(f"for {name} in range({last if first == '0' else f'{first}, {last}'}):")
        at = name
        if run.size or run.origin != 0 or run.jump != 1:
            at = f"s{r}"
            text.line(f"{at} = {total((name, run.jump), run.origin)}")
        if run.base > 1:
            text.open(f"if {at} >= 0 and {at} < {(run.size - 1) * run.base + 1} and {at} % {run.base} == 0:")
            at = f"({at} // {run.base})"
        to_terms.append((name, run.to_step))
        source_terms.append((at, run.from_step))
    text.line(f"{to_name}[{total(*to_terms)}] = {source_name}[{total(*source_terms)}]")
    text.close(depth)


def _is_vectors(run: CopyLoop) -> bool:
    """Whether neighbours are copied to neighbours, a whole number of vectors."""
    is_plain = run.to_step == run.from_step == run.jump == 1 and run.origin == run.size == 0
    return is_plain and isinstance(run.count, int) and run.count % machine_model.FLOATS_OF_VECTOR == 0


def write_vectors(text: KernelText, name: str, count: int | str) -> str:
    """Open loops over neighbours, which are vectors whatever their number; returns the name of the inner one."""
    width = machine_model.FLOATS_OF_VECTOR
    text.open(f"for {name} in range(0, {count}, {width}):")
    text.open(f"for {name}_lane in range({name}, {name} + {width}):")
    return f"{name}_lane"


def _bounds(text: KernelText, r: int, run: CopyLoop) -> tuple[str, str]:
    """The first place with input, and the one after the last."""
    jump = run.jump
    if isinstance(run.origin, int) and isinstance(run.count, int):
        first = max(0, -(run.origin // jump))
        last = max(first, min(run.count, (run.size - 1 - run.origin) // jump + 1))
        return str(first), str(last)
    up = f"0 - {run.origin}" if jump == 1 else f"({jump - 1} - {run.origin}) // {jump}"
    down = f"{run.size} - {run.origin}" if jump == 1 else f"({run.size - 1} - {run.origin}) // {jump} + 1"
    text.line(f"first{r} = maximum(0, {up})", f"last{r} = minimum({run.count}, {down})")
    return f"first{r}", f"last{r}"


def write_clear(text: KernelText, zero: str, to: tuple[str, str], count: int | str) -> None:
    name, place = to
    with text.loop("d", count):
        text.line(f"{name}[{total(place, 'd')}] = {zero}")


def task_count(units: int, scratch_bytes: int) -> int:
    """In how many tasks to do the units, each of which needs scratch memory of its own."""
    return min(units, machine_model.MOST_PARTS, max(2, machine_model.MOST_EXTRA_BYTES // scratch_bytes))


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
