"""The kernels of windows: which kind of loop serves which windows.

Knows the interface of a target; how the loops are written is known to the other files of windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.primitives.loops.text import constant_text, put_to
from functad.primitives.loops.window_layout import WindowLayout, transposed_windows, window_layout
from functad.primitives.loops.window_loops import WindowWork, over_windows
from functad.primitives.loops.window_results import over_each_window, scatter_to_each
from functad.primitives.loops.window_rows import by_rows, by_windows
from functad.primitives.loops.window_work import (
    Gather,
    Reduce,
    Scatter,
    Select,
    Spread,
    WindowCombination,
    padding_identity,
)


def reduce_window_rule(op: str, target: Any, ins: Sequence[Any], outs: Sequence[Any], **windows: Any) -> None:
    (x,), (out,) = ins, outs
    if out.size == 0:
        return
    if x.size == 0:
        target.fill(out, padding_identity(op, out.dtype))
        return
    _reduce(target, op, x, out, window_layout(x.shape, out.shape, **windows))


def select_and_gather_add_rule(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, select_prim: str, **windows: Any
) -> None:
    (tangents, operand), (out,) = ins, outs
    if out.size == 0:
        return
    if operand.size == 0:
        target.fill(out, 0)
        return
    layout = window_layout(operand.shape, out.shape, **windows)
    work = Gather(select_prim, operand.dtype, _selected_last(select_prim, operand.dtype))
    buffers = {"t": (tangents, "r"), "x": (operand, "r"), "out": (out, "w")}
    vectorised = layout.window_size <= machine_model.WINDOW_WRITTEN_OUT
    _over_windows(target, "select_and_gather", layout, work, buffers, vectorised=vectorised)


def select_and_scatter_add_rule(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, select_prim: str, **windows: Any
) -> None:
    (source, operand), (out,) = ins, outs
    if out.size == 0:
        return
    if source.size == 0:
        target.fill(out, 0)
        return
    ones = (1,) * len(operand.shape)
    layout = window_layout(operand.shape, source.shape, base_dilation=ones, window_dilation=ones, **windows)
    written_out = layout.window_size <= machine_model.WINDOW_WRITTEN_OUT
    overlap = any(axis.overlaps for axis in layout.axes)
    if overlap and (written_out or target.on_device):
        _scatter_by_selection(target, source, operand, out, layout, select_prim)
        return
    total = target.scratch(out.shape, compute_dtype(out.dtype)) if overlap and is_narrow_float(out.dtype) else out
    covered = written_out and all(axis.is_tiled for axis in layout.axes)
    if target.on_device and covered and layout.window_size <= machine_model.CUDA_WINDOW_GATHERED:
        scatter_to_each(target, layout, select_prim, source, operand, out)
        return
    work = Scatter(select_prim, operand.dtype, _selected_last(select_prim, operand.dtype), covered)
    buffers = {"ct": (source, "r"), "x": (operand, "r"), "out": (total, "w" if covered else "rw")}
    if target.on_device and not covered:
        target.fill(total, 0)
    _over_windows(target, "select_and_scatter", layout, work, buffers, only_tiled=True, vectorised=written_out)
    if total is not out:
        _round(target, total, out)


def _scatter_by_selection(
    target: Any, source: Any, operand: Any, out: Any, layout: WindowLayout, select_prim: str
) -> None:
    """For windows that overlap: first which element each selects, then for each element the sum over its windows."""
    dtype = operand.dtype
    selected = target.scratch(source.shape, np.dtype(np.int32))
    work = Select(select_prim, dtype, _selected_last(select_prim, dtype))
    written_out = layout.window_size <= machine_model.WINDOW_WRITTEN_OUT
    buffers = {"x": (operand, "r"), "selected": (selected, "w")}
    _over_windows(target, "select", layout, work, buffers, vectorised=written_out)
    total = target.scratch(out.shape, compute_dtype(dtype)) if is_narrow_float(dtype) else out
    zero = constant_text(0, dtype)

    def element(place: str, tap: str) -> str:
        number = f"i32({layout.window_size - 1})" if tap == "0" else f"i32({layout.window_size - 1} - ({tap}))"
        return f"where(selected[{place}] == {number}, ct[{place}], {zero})"

    combination = _combination("sum", dtype)._replace(element=element)
    by_rows(target, "scatter", transposed_windows(layout), combination, {"ct": source, "selected": selected}, total)
    if total is not out:
        _round(target, total, out)


def _reduce(target: Any, op: str, x: Any, out: Any, layout: WindowLayout) -> None:
    axes = [i for i, axis in enumerate(layout.axes) if not axis.is_plain]
    name = f"window_{op}"
    back = transposed_windows(layout)
    if op == "sum" and all(axis.is_plain or axis.is_tiled for axis in back.axes) and back.window_size > 1:
        _spread(target, x, out, back)
        return
    has_holes = any(axis.base > 1 for axis in layout.axes)
    if layout.window_size <= machine_model.WINDOW_WRITTEN_OUT and not has_holes:
        work = Reduce(op, out.dtype, constant_text(padding_identity(op, out.dtype), out.dtype))
        _over_windows(target, name, layout, work, {"x": (x, "r"), "out": (out, "w")})
        return
    if len(axes) > 1 and _is_cheaper_by_axes(layout):
        _reduce_by_axes(target, op, x, out, layout, axes)
        return
    combination = _combination(op, out.dtype)
    if layout.inner == 1 and layout.axes[-1].window > _longest_across(layout, out.dtype) and not has_holes:
        by_windows(target, name, layout, combination, {"x": x}, out)
        return
    # Rows of narrow floats would be rounded after each step.
    rounds = op == "sum" and is_narrow_float(out.dtype)
    total = target.scratch(out.shape, compute_dtype(out.dtype)) if rounds else out
    by_rows(target, name, layout, combination, {"x": x}, total)
    if rounds:
        _round(target, total, out)


def _longest_across(layout: WindowLayout, dtype: np.dtype) -> int:
    """The elements of a window up to which vectors go from window to window: half as many where that is far.

    Of narrow floats they are half as many anyway.
    """
    is_near = layout.axes[-1].stride * dtype.itemsize <= machine_model.NEAR_WINDOWS and not is_narrow_float(dtype)
    return machine_model.WINDOW_LONG_AXIS if is_near else machine_model.WINDOW_LONG_AXIS // 2


def _spread(target: Any, x: Any, out: Any, back: WindowLayout) -> None:
    """Each element of `x` goes to one window of `out`: the transpose of sums over windows that do not overlap."""
    _over_windows(
        target,
        "spread",
        back,
        Spread(x.dtype),
        {"ct": (x, "r"), "out": (out, "w")},
        only_tiled=True,
        vectorised=back.window_size <= machine_model.WINDOW_WRITTEN_OUT,
        unrolled=True,
    )


def _is_cheaper_by_axes(layout: WindowLayout) -> bool:
    """Whether windows share so much that reducing one axis after the other saves most of the work."""
    overlap = any(axis.overlaps for axis in layout.axes)
    return overlap and layout.window_size > 3 * sum(axis.window for axis in layout.axes)


def _reduce_by_axes(target: Any, op: str, x: Any, out: Any, layout: WindowLayout, axes: Sequence[int]) -> None:
    wide = compute_dtype(out.dtype) if op == "sum" else out.dtype
    sizes = list(layout.shape)
    for axis in axes:
        part = layout.axes[axis]
        counts = list(sizes)
        counts[axis + 1] = part.windows
        result = out if axis == axes[-1] else target.scratch(counts, wide)
        _reduce(target, op, x, result, _along(axis + 1, sizes, counts, layout))
        x, sizes = result, counts


def _along(axis: int, sizes: Sequence[int], counts: Sequence[int], layout: WindowLayout) -> WindowLayout:
    """The windows along one axis only of an array with these sizes."""
    part = layout.axes[axis - 1]

    def at_axis(value: Any, other: Any) -> list[Any]:
        return [value if i == axis else other for i in range(len(sizes))]

    return window_layout(
        sizes,
        counts,
        window_dimensions=at_axis(part.window, 1),
        window_strides=at_axis(part.stride, 1),
        padding=at_axis((part.low, 0), (0, 0)),
        base_dilation=at_axis(part.base, 1),
        window_dilation=at_axis(part.dilation, 1),
    )


def _over_windows(
    target: Any,
    name: str,
    layout: WindowLayout,
    work: WindowWork,
    buffers: dict[str, tuple[Any, str]],
    *,
    vectorised: bool = True,
    **options: bool,
) -> None:
    """A kernel that does `work` for each window: on a device by a thread for each, without what it does for a row."""
    if target.on_device:
        over_each_window(target, name, layout, work, buffers, vectorised)
    else:
        over_windows(target, name, layout, work, buffers, vectorised=vectorised, **options)


def _combination(op: str, dtype: np.dtype) -> WindowCombination:
    kind = "add" if op == "sum" else op

    def reorder(a: str, b: str) -> str:
        if kind == "add" and kind_of(dtype) == "f":
            return f"accumulate({a}, {b})"
        return put_to(kind, dtype, a, b)

    return WindowCombination(
        identity=constant_text(padding_identity(op, dtype), dtype),
        combine=lambda a, b: put_to(kind, dtype, a, b),
        reorder=reorder,
        element=lambda place, tap: f"x[{place}]",
    )


def _selected_last(select_prim: str, dtype: np.dtype) -> str:
    return constant_text(padding_identity("max" if select_prim == "ge" else "min", dtype), dtype)


def _round(target: Any, total: Any, out: Any) -> None:
    body = "for i in range(start, stop):\n    out[i] = total[i]"
    target.kernel(
        "round_to_half",
        body,
        {"total": (total, "r"), "out": (out, "w")},
        out.size,
        bytes=6 * out.size,
        rows=True,
        row_reads=("total",),
    )
