"""Kernels in which each step of the range computes one window, or one result, from all of its elements: for devices.

Knows how to find the elements of one window; nothing of what is done with them. A GPU has threads for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from functad.primitives.loops.kernel_text import KernelText, write_index
from functad.primitives.loops.points import Points
from functad.primitives.loops.text import constant_text
from functad.primitives.loops.window_layout import WindowLayout
from functad.primitives.loops.window_loops import (
    WindowWork,
    inside_tests,
    position,
    product_text,
    scan_window,
    sum_text,
)
from functad.primitives.loops.window_work import WindowCombination, plus_zero


def over_each_window(
    target: Any,
    name: str,
    layout: WindowLayout,
    work: WindowWork,
    buffers: Mapping[str, tuple[Any, str]],
    written: bool,
) -> None:
    """A kernel that does `work` for each window, number `o`. written: whether windows' elements are written out."""
    text = KernelText()
    written = written and all(axis.interior != (0, 0) for axis in layout.axes)
    with text.block("for o in range(start, stop):"):
        _write_places(text, layout)
        names = [f"i{a}" for a in range(len(layout.axes))]
        reaching = {a: axis.interior for a, axis in enumerate(layout.axes) if not axis.is_interior}
        tests = [test for a, (low, high) in reaching.items() for test in (f"(i{a} >= {low})", f"(i{a} < {high})")]
        if not written:
            scan_window(text, layout, work, names, "i64(0)")
        else:
            with text.block(*([f"if {' & '.join(tests)}:"] if tests else [])):
                first = [product_text(i, axis.stride * s) for i, axis, s in zip(names, layout.axes, layout.steps)]
                low = sum(axis.low * step for axis, step in zip(layout.axes, layout.steps))
                inner = ["j"] if layout.inner > 1 else []
                text.line(f"w = {sum_text(product_text('p', layout.plane_size), *first, *inner, -low)}")
                work.whole(text, layout.offsets())
            if tests:
                with text.block("else:"):
                    scan_window(text, layout, work, names, "i64(0)")
    _add_kernel(target, name, text, layout, buffers)


def by_results(
    target: Any, name: str, layout: WindowLayout, combination: WindowCombination, reads: Mapping[str, Any], result: Any
) -> None:
    """A kernel that combines the elements of each window."""
    text = KernelText()
    with text.block("for o in range(start, stop):"):
        _write_places(text, layout)
        text.line(f"total = {combination.identity}")
        depth, place, tap = text.depth, product_text("p", layout.plane_size), ""
        for a, (axis, step) in enumerate(zip(layout.axes, layout.steps)):
            if axis.window > 1:
                text.open(f"for k{a} in range({axis.window}):")
                inner_taps = math.prod(other.window for other in layout.axes[a + 1 :])
                tap = sum_text(*([tap] if tap else []), product_text(f"k{a}", inner_taps))
            text.line(*position(axis, a, f"i{a}", "0"))
            if tests := inside_tests(axis, a):
                text.open(f"if {' & '.join(tests)}:")
            place = sum_text(place, product_text(f"y{a} // {axis.base}" if axis.base > 1 else f"y{a}", step))
        text.line(f"at = {sum_text(place, *(['j'] if layout.inner > 1 else []))}")
        text.line(f"total = {combination.combine('total', combination.element('at', tap or '0'))}")
        text.close(depth)
        text.line("out[o] = total")
    _add_kernel(target, name, text, layout, {**{k: (b, "r") for k, b in reads.items()}, "out": (result, "w")})


def scatter_to_each(
    target: Any, layout: WindowLayout, select_prim: str, source: Any, operand: Any, result: Any
) -> None:
    """For windows that share no elements and leave none out: each element is that of its window, if it was selected.

    A nest over the elements, so that what is done with each of them is a part of it.
    """
    windows, taps = dict[str, int](), dict[str, int]()
    loops = [("p", layout.planes)]
    for a, (axis, step) in enumerate(zip(layout.axes, layout.steps)):
        loops += [(f"i{a}", axis.windows), (f"k{a}", axis.window)]
        windows[f"i{a}"], taps[f"k{a}"] = axis.stride * step, step
    starts = {"p": layout.plane_size, **windows}
    sources = {"p": layout.plane_count, **{f"i{a}": step for a, step in enumerate(layout.count_steps)}}
    if layout.inner > 1:
        loops.append(("j", layout.inner))
        starts["j"] = sources["j"] = 1
    inner = [math.prod(axis.window for axis in layout.axes[a + 1 :]) for a in range(len(layout.axes))]
    relation, zero = ">=" if select_prim == "ge" else "<=", constant_text(0, operand.dtype)
    values: list[tuple[str, str, Sequence[str]]] = []
    best, chosen = "x0", "i32(0)"
    for tap in range(1, layout.window_size):
        known = [chosen] if tap > 1 else []
        values.append((f"keep{tap}", f"{best} {relation} x{tap}", [best, f"x{tap}"]))
        values.append((f"chosen{tap}", f"where(keep{tap}, {chosen}, i32({tap}))", [f"keep{tap}", *known]))
        values.append((f"best{tap}", f"where(keep{tap}, {best}, x{tap})", [f"keep{tap}", best, f"x{tap}"]))
        best, chosen = f"best{tap}", f"chosen{tap}"
    own = [chosen] if layout.window_size > 1 else []
    text = f"where({chosen} == tap, {plus_zero('ct', operand.dtype)}, {zero})"
    values.append(("moved", text, [*own, "tap", "ct"]))
    loads = [(f"x{tap}", operand, starts, offset) for tap, offset in enumerate(layout.offsets())]
    tap_steps = {f"k{a}": step for a, step in enumerate(inner)}
    target.points(
        Points(
            "select_and_scatter",
            loops,
            [*loads, ("ct", source, sources, 0)],
            [("tap", tap_steps)],
            values,
            (result, {**starts, **taps}, "moved"),
        )
    )


def _write_places(text: KernelText, layout: WindowLayout) -> None:
    """Which plane, window along each axis, and inner element a number means."""
    axes = [(f"i{a}", axis.windows) for a, axis in enumerate(layout.axes)]
    write_index(text, "o", [("p", layout.planes), *axes, *([("j", layout.inner)] if layout.inner > 1 else [])])


def _add_kernel(
    target: Any, name: str, text: KernelText, layout: WindowLayout, buffers: Mapping[str, tuple[Any, str]]
) -> None:
    windows = math.prod(layout.counts)
    moved = sum(b.size * b.dtype.itemsize for b, _ in buffers.values())
    target.kernel(name, str(text), dict(buffers), windows, flops=2 * windows * layout.window_size, bytes=moved)
