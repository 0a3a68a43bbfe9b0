"""Kernels that write slices of an array at computed positions: scatter, scatter-add, -mul, -min, -max.

Knows dimension numbers and the interface of a target. Updates of one element are applied in their order, whatever the
number of threads: if rows are long, a piece of the parallel range owns a part of the result, and looks at all updates
that may fall into it. Where many updates meet, and their order does not matter, each of several parts of them goes to a
copy of the result; then the copies are put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers
from functad.primitives.kernels.indexing import scatter_accumulator
from functad.primitives.loops.gathering import fits
from functad.primitives.loops.kernel_text import total
from functad.primitives.loops.moving import clamped
from functad.primitives.loops.text import cast, combined, constant, indented


def scatter_rule(kind: str) -> Callable[..., None]:
    """The rule of a scatter that combines by `kind`: set, add, mul, min, max."""

    def rule(
        target: Any,
        ins: Sequence[Any],
        outs: Sequence[Any],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        **_: Any,
    ) -> None:
        operand, indices, updates = ins
        if operand.size == 0 or updates.size == 0:
            target.start_from(outs[0], operand)
            return
        windows = _Windows(operand.shape, indices, updates, dimension_numbers, mode)
        batching = dimension_numbers.scatter_indices_batching_dims
        wide = scatter_accumulator(kind, operand, indices, updates, batching)
        if wide != outs[0].dtype:
            total = target.scratch(operand.shape, wide)
            _convert(target, operand, total)
            _scatter(target, windows, total, kind)
            _convert(target, total, outs[0])
            return
        target.start_from(outs[0], operand)
        _scatter(target, windows, outs[0], kind)

    return rule


# --- what goes where ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """A loop: its variable, its extent, and how far one step goes in the result, the updates and the indices."""

    name: str
    size: int
    out: int = 0
    updates: int = 0
    indices: int = 0

    def merged(self, inner: _Axis) -> _Axis | None:
        """This loop and the next one inside as a single loop, if their elements follow one another."""
        pairs = ((self.out, inner.out), (self.updates, inner.updates), (self.indices, inner.indices))
        if all(stride == inner.size * step for stride, step in pairs):
            return _Axis(inner.name, self.size * inner.size, inner.out, inner.updates, inner.indices)
        return None


class _Windows:
    """The loops over a scatter's updates.

    own: leading axes of the result that no update crosses; each of their elements is written apart from the others.
    batch: the other axes of the indices, in order. window: axes of a window that do not lie in one row, then rows.
    """

    def __init__(
        self,
        shape: Sequence[int],
        indices: Any,
        updates: Any,
        numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
    ) -> None:
        self.shape, self.indices, self.updates, self.mode = tuple(shape), indices, updates, mode
        self.index_map = numbers.scatter_dims_to_operand_dims
        dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        kept = [d for d in range(len(shape)) if d not in dropped]
        self.sizes = dict(zip(kept, (updates.shape[a] for a in numbers.update_window_dims)))
        whole = [d in self.sizes and self.sizes[d] == shape[d] for d in range(len(shape))]
        self.out_strides, update_strides = _strides(shape), _strides(updates.shape)
        window_strides = dict(zip(kept, (update_strides[a] for a in numbers.update_window_dims)))

        batch_axes = [a for a in range(len(updates.shape)) if a not in numbers.update_window_dims]
        index_strides = _strides(indices.shape)
        paired = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))

        own: list[_Axis] = []
        for d in range(len(shape)):
            if d in paired:
                axis = paired[d]
                strides = self.out_strides[d], update_strides[batch_axes[axis]], index_strides[axis]
            elif whole[d] and not all(whole[d:]):
                strides = self.out_strides[d], window_strides[d], 0
            else:
                break
            own.append(_Axis(f"own_{d}", shape[d], *strides))
        first = len(own)
        self.own = [axis for axis in own if axis.size > 1]
        own_axes = {paired[d] for d in range(first) if d in paired}
        outer = {axis: self.out_strides[d] for d, axis in paired.items()}
        self.batch = _merged(
            [
                _Axis(f"b{k}", indices.shape[k], outer.get(k, 0), update_strides[a], index_strides[k])
                for k, a in enumerate(batch_axes)
                if k not in own_axes
            ]
        )
        contiguous = next((d for d in range(len(shape)) if all(whole[d:])), len(shape))
        self.row = math.prod(shape[contiguous:])
        self.window = _merged(
            [
                _Axis(f"w{d}", self.sizes[d], self.out_strides[d], window_strides[d])
                for d in range(first, contiguous)
                if d in self.sizes
            ]
        )
        self.inside = _merged(
            [_Axis(f"i{d}", shape[d], self.out_strides[d], window_strides[d]) for d in range(contiguous, len(shape))]
        )

    @property
    def slabs(self) -> int:
        return math.prod(axis.size for axis in self.own)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _merged(axes: Sequence[_Axis]) -> list[_Axis]:
    result: list[_Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        joined = result[-1].merged(axis) if result else None
        if joined is None:
            result.append(axis)
        else:
            result[-1] = joined
    return result


# --- the kernels --------------------------------------------------------------------------------------------


def _convert(target: Any, source: Any, destination: Any) -> None:
    body = "for i in range(start, stop):\n    out[i] = x[i]"
    buffers = {"x": (source, "r"), "out": (destination, "w")}
    moved = source.size * (source.dtype.itemsize + destination.dtype.itemsize)
    target.kernel("convert", body, buffers, source.size, bytes=moved)


def _scatter(target: Any, windows: _Windows, out: Any, kind: str) -> None:
    """Apply all updates to `out`."""
    moved = 3 * windows.updates.size * out.dtype.itemsize
    buffers = {"indices": (windows.indices, "r"), "updates": (windows.updates, "r")}
    if windows.slabs > 1:
        lines, n = _slab_lines(windows, out.dtype, kind), windows.slabs
    elif _is_worth_sharing(windows, out.dtype):
        n = _next_power_of_two(max(2, target.threads_hint))
        lines = _updates_lines(windows, out.dtype, kind, _belongs_to(windows, out.dtype, n))
    elif (n := _parts(windows, out, kind)) > 1:
        apart = machine_model.APART_BYTES // out.dtype.itemsize
        copies = target.scratch((n, -(-out.size // apart) * apart), out.dtype)
        lines = _part_lines(windows, out, kind, copies.shape)
        target.kernel(f"scatter_{kind}", "\n".join(lines), {**buffers, "out": (copies, "w")}, n, bytes=moved)
        lines, n, moved = _together_lines(out, kind, copies.shape), out.size, (n + 2) * out.size * out.dtype.itemsize
        kind, buffers = "copies", {"copies": (copies, "r")}
    else:
        lines, n = _updates_lines(windows, out.dtype, kind, []), 1
    target.kernel(f"scatter_{kind}", "\n".join(lines), {**buffers, "out": (out, "rw")}, n, bytes=moved)


def _parts(windows: _Windows, out: Any, kind: str) -> int:
    """Into how many parts the updates fall, each with a copy of the result, so that threads share them."""
    may_be_grouped = kind == "add" and out.dtype.kind in "iufc" or kind in ("max", "min") and out.dtype.kind in "iuf"
    if not may_be_grouped or not windows.batch or windows.updates.size < machine_model.ELEMENTS_WORTH_THREADS:
        return 1
    work = windows.updates.size // windows.row * max(windows.row, machine_model.FLOATS_OF_VECTOR)
    most: int = work // (machine_model.UPDATES_OF_PART * out.size)
    return min(most, machine_model.MOST_SCATTER_PARTS, windows.batch[0].size)


def _part_lines(windows: _Windows, out: Any, kind: str, copies: tuple[int, ...]) -> list[str]:
    """Each step of the range is a part of the updates, of which `out` has a copy of the result."""
    parts, size = copies
    copy = [f"copy = part * {size}", *_loop("i", str(out.size), [f"out[copy + i] = {_neutral(kind, out.dtype)}"])]
    n = windows.batch[0].size
    bounds = f"part * {n} // {parts}, (part + 1) * {n} // {parts}"
    return _loop("part", "start, stop", [*copy, *_updates_lines(windows, out.dtype, kind, [], bounds, [("copy", 1)])])


def _together_lines(out: Any, kind: str, copies: tuple[int, ...]) -> list[str]:
    """Each step of the range is an element, to which those of the copies are put."""
    parts, size = copies
    lines = ["total = out[i]"]
    for part in range(parts):
        element = f"copies[{total('i', part * size)}]"
        lines.append(f"total = {combined(kind, out.dtype, 'total', element)}")
    return _loop("i", "start, stop", [*lines, "out[i] = total"])


def _neutral(kind: str, dtype: np.dtype) -> str:
    """What changes nothing that is put to it: −0 + x is x, for x = −0, too."""
    if kind == "add":
        zero = {"c": "complex_of(f64(-0.0), f64(-0.0))", "f": "-0.0"}.get(dtype.kind, "0")
        return f"{cast(dtype)}({zero})"
    if dtype.kind == "f":
        return f"{cast(dtype)}({'-inf' if kind == 'max' else 'inf'})"
    limits = np.iinfo(dtype)
    return constant(limits.min if kind == "max" else limits.max, dtype)


def _is_worth_sharing(windows: _Windows, dtype: np.dtype) -> bool:
    """Whether threads share a scatter: each looks at every update, and often guesses wrongly whether it is its own."""
    row = windows.row * dtype.itemsize
    return windows.updates.size >= machine_model.ELEMENTS_WORTH_THREADS and row >= machine_model.SHARED_ROW_BYTES


def _slab_lines(windows: _Windows, dtype: np.dtype, kind: str) -> list[str]:
    """Each step of the range is one element of the leading axes that no update crosses."""
    lines, after = [], windows.slabs
    for axis in windows.own:
        after //= axis.size
        quotient = f"r // {after}" if after > 1 else "r"
        lines.append(
            f"{axis.name} = {quotient}" if axis is windows.own[0] else f"{axis.name} = {quotient} % {axis.size}"
        )
    return _loop("r", "start, stop", [*lines, *_updates_lines(windows, dtype, kind, [])])


def _belongs_to(windows: _Windows, dtype: np.dtype, shares: int) -> list[str]:
    """Each step of the range is a share of the result, every so many-th block of rows: the lines that tell which.

    The rows of a table are seldom used equally, and often sorted by use: contiguous shares would be unequal.
    """
    rows = _next_power_of_two(-(-machine_model.APART_BYTES // (windows.row * dtype.itemsize)))
    row = f"place // {windows.row}" if windows.row > 1 else "place"
    return [f"share = ({row} >> {rows.bit_length() - 1}) & {shares - 1}", "(share >= start) & (share < stop)"]


def _next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _updates_lines(
    windows: _Windows,
    dtype: np.dtype,
    kind: str,
    belongs: Sequence[str],
    bounds: str = "",
    before: Sequence[tuple[str, int]] = (),
) -> list[str]:
    """The loops over the updates.

    belongs: a line, and the condition under which a row of a window is written. bounds: of the first loop, if not all.
    before: what is added to a place in the result.
    """
    outside = [*windows.own, *windows.batch]
    starts, conditions, place = _positions(windows, outside)
    around = [*outside, *windows.window]
    place += [*before, *((axis.name, axis.out) for axis in around)]
    inner = [*around, *windows.inside]
    source = total(*[(axis.name, axis.updates) for axis in inner])
    destination = "place" if not windows.inside else f"place + {total(*[(a.name, a.out) for a in windows.inside])}"
    update = f"updates[{source}]"
    lines = _loops(windows.inside, [f"out[{destination}] = {combined(kind, dtype, f'out[{destination}]', update)}"])
    if belongs:
        lines = [belongs[0], *indented(f"if {belongs[1]}:", lines)]
    lines = _loops(windows.window, [f"place = {total(*place)}", *lines])
    if conditions:
        lines = indented(f"if {' & '.join(conditions)}:", lines)
    lines = _loops(windows.batch[1:], [*starts, *lines])
    return _loop(windows.batch[0].name, bounds or str(windows.batch[0].size), lines) if windows.batch else lines


def _positions(windows: _Windows, outside: Sequence[_Axis]) -> tuple[list[str], list[str], list[tuple[str, int]]]:
    """The lines that read an index vector, the conditions under which it counts, and its part of the position."""
    lines, conditions, place = [], [], []
    dtype = windows.indices.dtype
    for component, d in enumerate(windows.index_map):
        last = windows.shape[d] - windows.sizes.get(d, 1)
        index = total(*[(axis.name, axis.indices) for axis in outside], component)
        if windows.mode is GatherScatterMode.CLIP:
            if last:
                lines.append(f"at_{d} = {clamped(f'indices[{index}]', dtype, last)}")
        else:
            lines.append(f"index_{d} = indices[{index}]")
            conditions += fits(f"index_{d}", dtype, last)
            lines.append(f"at_{d} = i64(index_{d})")
        if last:
            place.append((f"at_{d}", windows.out_strides[d]))
    return lines, conditions, place


def _loops(axes: Sequence[_Axis], lines: Sequence[str]) -> list[str]:
    for axis in reversed(axes):
        lines = _loop(axis.name, str(axis.size), lines)
    return list(lines)


def _loop(name: str, bounds: str, lines: Sequence[str]) -> list[str]:
    return indented(f"for {name} in range({bounds}):", lines)
