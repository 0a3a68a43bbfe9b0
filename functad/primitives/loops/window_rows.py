"""Kernels that sum or compare whole rows of an array with rows of results: for holes in the array, and large windows.

Knows how rows lie to each other; what is combined comes as text.
"""

from __future__ import annotations

import math
from typing import Any

from functad import machine_model
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.window_layout import WindowAxis, WindowLayout
from functad.primitives.loops.window_loops import WindowRows, inside_tests, opaque, position, product_text, sum_text
from functad.primitives.loops.window_results import by_results
from functad.primitives.loops.window_work import WindowCombination


def by_rows(
    target: Any, name: str, layout: WindowLayout, combination: WindowCombination, reads: dict[str, Any], result: Any
) -> None:
    """A kernel in which every row of the result collects the rows that its windows hold; on a device, every result."""
    if target.on_device:
        by_results(target, name, layout, combination, reads, result)
        return
    rows = WindowRows(layout)
    phases = _Phases(layout.axes[-1])
    in_registers = layout.inner == 1 and all(axis.window == 1 and axis.is_interior for axis in rows.axes)
    length = layout.inner if layout.inner > 1 else layout.axes[-1].windows
    text = KernelText()
    if layout.inner > 1 or not in_registers:
        text.line(opaque("width", length))
    if layout.inner == 1 and phases.last > phases.first:
        text.line(opaque("blocks", phases.last - phases.first))
    with rows.loop(text), rows.loop_axes(text):
        text.line(f"o0 = {rows.first_window()}")
        if not in_registers:
            with text.block("for j in range(width):"):
                text.line(f"out[o0 + j] = {combination.identity}")
        depth = text.depth
        place, tap = _open_taps(text, layout, rows.axes)
        text.line(f"a0 = {place}")
        if layout.inner > 1:
            with text.block("for j in range(width):"):
                text.line(f"out[o0 + j] = {combination.combine('out[o0 + j]', combination.element('a0 + j', tap))}")
        else:
            start = combination.identity if in_registers else None
            _collect_along_last(text, layout.axes[-1], phases, combination, tap, start)
        text.close(depth)
    _add_kernel(target, name, text, layout, rows, reads, result)


def by_windows(
    target: Any, name: str, layout: WindowLayout, combination: WindowCombination, reads: dict[str, Any], result: Any
) -> None:
    """A kernel that goes through one window after the other: for large ones, without holes in the array."""
    if target.on_device:
        by_results(target, name, layout, combination, reads, result)
        return
    rows = WindowRows(layout)
    last = len(layout.axes) - 1
    axis = layout.axes[-1]
    text = KernelText()
    with rows.loop(text), rows.loop_axes(text):
        text.line(f"o0 = {rows.first_window()}")
        with text.block(f"for i{last} in range({axis.windows}):"):
            text.line(f"total = {combination.identity}")
            depth = text.depth
            place, tap = _open_taps(text, layout, rows.axes)
            text.line(f"a0 = {sum_text(place, product_text(f'i{last}', axis.stride), -axis.low)}")
            with text.block(f"for k in {_valid_taps(axis, f'i{last}')}:"):
                element = combination.element(f"a0 + {product_text('k', axis.dilation)}", sum_text(tap, "k"))
                text.line(f"total = {combination.reorder('total', element)}")
            text.close(depth)
            text.line(f"out[o0 + i{last}] = total")
    _add_kernel(target, name, text, layout, rows, reads, result)


def _add_kernel(
    target: Any, name: str, text: KernelText, layout: WindowLayout, rows: WindowRows, reads: dict[str, Any], result: Any
) -> None:
    buffers = {**{k: (b, "r") for k, b in reads.items()}, "out": (result, "rw")}
    target.kernel(
        name,
        str(text),
        buffers,
        rows.n,
        flops=2 * math.prod(layout.counts) * layout.window_size,
        bytes=sum(b.size * b.dtype.itemsize for b, _ in buffers.values()),
        rows=True,
        row_reads=tuple(reads) if rows.owns_elements else (),
    )


def _open_taps(text: KernelText, layout: WindowLayout, axes: tuple[WindowAxis, ...]) -> tuple[str, str]:
    """Loops over the taps along these axes that meet elements; the place of the first, and the number of the tap."""
    place, tap = product_text("p", layout.plane_size), ""
    for a, (axis, step) in enumerate(zip(axes, layout.steps)):
        if axis.base == 1 and axis.window > 1:
            text.open(f"for k{a} in {_valid_taps(axis, f'i{a}')}:")
            text.line(*position(axis, a, f"i{a}", "0"))
        else:
            if axis.window > 1:
                text.open(f"for k{a} in range({axis.window}):")
            text.line(*position(axis, a, f"i{a}", "0"))
            tests = inside_tests(axis, a)
            if tests:
                text.open(f"if {' & '.join(tests)}:")
        place = sum_text(place, product_text(f"y{a} // {axis.base}" if axis.base > 1 else f"y{a}", step))
        if axis.window > 1:
            inner_taps = math.prod(other.window for other in layout.axes[a + 1 :])
            tap = sum_text(tap, product_text(f"k{a}", inner_taps)) if tap else product_text(f"k{a}", inner_taps)
    return place, tap or "0"


def _valid_taps(axis: WindowAxis, i: str) -> str:
    """The range of the taps of window `i` that meet elements; for an axis without holes."""
    if axis.is_interior:
        return f"range({axis.window})"
    before = sum_text(product_text(i, axis.stride), -axis.low)
    after = sum_text(axis.size - 1 + axis.low, f"-{product_text(i, axis.stride)}").replace("+ -", "- ")
    if axis.dilation > 1:
        before, after = f"({before}) // {axis.dilation}", f"({after}) // {axis.dilation}"
    return f"range(maximum(i64(0), -({before})), minimum(i64({axis.window}), {after} + 1))"


class _Phases:
    """The windows along an axis with holes, in blocks of `period` after which the taps that meet elements repeat.

    Window `period m + phase` has the elements `step m + offset` for the phase's taps `(tap, offset)`. All of them
    are in the array for the blocks m from `first` to `last` (exclusive).
    """

    def __init__(self, axis: WindowAxis) -> None:
        self.axis = axis
        self.period = axis.base // math.gcd(axis.stride, axis.base)
        self.step = axis.stride * self.period // axis.base
        self.taps = [
            [
                (tap, at // axis.base)
                for tap in range(axis.window)
                if (at := axis.stride * phase + tap * axis.dilation - axis.low) % axis.base == 0
            ]
            for phase in range(self.period if self.period <= machine_model.MOST_UNROLLED_POINTS else 0)
        ]
        offsets = [offset for taps in self.taps for _, offset in taps]
        self.first = self.last = 0
        if 0 < len(offsets) <= machine_model.MOST_UNROLLED_POINTS:
            self.first = max(0, -(min(offsets) // self.step))
            self.last = min(axis.windows // self.period, (axis.size - 1 - max(offsets)) // self.step + 1)
            if self.last <= self.first:
                self.first = self.last = 0


def _collect_along_last(
    text: KernelText, axis: WindowAxis, phases: _Phases, combination: WindowCombination, tap: str, start: str | None
) -> None:
    """Combine the row of results at `o0` with what its windows hold of the row at `a0`; `start` replaces its values."""
    if phases.last > phases.first:
        with text.block("for m in range(blocks):"):
            block = sum_text("m", phases.first)
            text.line(f"a = a0 + {product_text(block, phases.step)}", f"o = o0 + {product_text(block, phases.period)}")
            for phase, taps in enumerate(phases.taps):
                result = f"out[{sum_text('o', phase)}]"
                value = start or result
                for k, offset in taps:
                    value = combination.combine(value, combination.element(sum_text("a", offset), sum_text(tap, k)))
                if taps or start:
                    text.line(f"{result} = {value}")
    before, after = phases.first * phases.period, phases.last * phases.period
    if before + axis.windows - after == 0:
        return
    with text.block(f"for e in range({before + axis.windows - after}):"):
        text.line(f"j = where(e < {before}, e, e + {after - before})" if after > before else "j = e")
        text.line(f"total = {start or 'out[o0 + j]'}")
        if axis.base == 1:
            with text.block(f"for k in {_valid_taps(axis, 'j')}:"):
                place = sum_text("a0", product_text("j", axis.stride), product_text("k", axis.dilation), -axis.low)
                element = combination.element(place, sum_text(tap, "k"))
                text.line(f"total = {combination.combine('total', element)}")
        else:
            with text.block(f"for k in range({axis.window}):"):
                text.line(
                    f"y = {sum_text(product_text('j', axis.stride), product_text('k', axis.dilation), -axis.low)}"
                )
                limit = (axis.size - 1) * axis.base + 1
                with text.block(f"if (y >= 0) & (y < {limit}) & (y % {axis.base} == 0):"):
                    element = combination.element(f"a0 + y // {axis.base}", sum_text(tap, "k"))
                    text.line(f"total = {combination.combine('total', element)}")
        text.line("out[o0 + j] = total")
