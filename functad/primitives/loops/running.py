"""Kernels of running sums, products, extrema and log-sum-exps along an axis.

Knows the interface of a target; no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.text import cast, combined, indented

# Sums and products are kept in this dtype, so that the error does not grow with the length.
_WIDE = {"float16": "float32", "float32": "float64", "complex64": "complex128"}


def cumulative_rule(kind: str) -> Callable[..., None]:
    """The rule of a running combination: add, mul, max, min, logsumexp."""

    def rule(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, axis: int, reverse: bool) -> None:
        (x,), (out,) = ins, outs
        if x.size == 0:
            return
        outer, length, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
        wide = np.dtype(_WIDE.get(x.dtype.name, x.dtype) if kind in ("add", "mul") else x.dtype)
        if kind == "logsumexp":
            wide = np.dtype(np.float64)
        step = _RunningStep(kind, x.dtype, wide)
        buffers: dict[str, tuple[Any, str]] = {"x": (x, "r"), "out": (out, "w")}
        costs = {"bytes": 2 * x.size * x.dtype.itemsize, "flops": 2 * x.size}
        if inner == 1 and kind == "logsumexp":
            _log_sum_exp_rows(target, x, out, outer, length, reverse)
            return
        if inner == 1:
            body = _rows_text(length, reverse, step)
            target.kernel(f"running_{kind}", body, buffers, outer, rows=True, row_reads=("x",), **costs)
            return
        if wide != x.dtype:
            buffers["total"] = (target.scratch((outer, inner), wide), "w")
        if outer >= machine_model.FEW_ROWS:
            body = _columns_text(length, inner, reverse, step, "range(start, stop)", f"range({inner})")
            reads = ("x",)
            target.kernel(f"running_{kind}", body, buffers, outer, rows=True, row_reads=reads, **costs)
            return
        body = _columns_text(length, inner, reverse, step, f"range({outer})", "range(start, stop)")
        target.kernel(f"running_{kind}", body, buffers, inner, **costs)

    return rule


class _RunningStep:
    """How one more element joins a running total."""

    def __init__(self, kind: str, dtype: np.dtype, wide: np.dtype) -> None:
        self.kind, self.dtype, self.wide = kind, dtype, wide
        # Products in another order may over- or underflow where these do not.
        self.may_be_grouped = kind in ("max", "min", "add")

    def widened(self, element: str) -> str:
        return element if self.wide == self.dtype else f"{cast(self.wide)}({element})"

    def narrowed(self, total: str) -> str:
        return total if self.wide == self.dtype or self.dtype == np.float16 else f"{cast(self.dtype)}({total})"

    def first(self, element: str) -> str:
        """The total of one element: the log of a sum is never −0."""
        return f"{element} + {cast(self.dtype)}(0.0)" if self.kind == "logsumexp" else element

    def lines(self, total: str, element: str) -> list[str]:
        """The lines that put an element to a total."""
        if self.kind != "logsumexp":
            return [f"{total} = {combined(self.kind, self.wide, total, element)}"]
        # ln(e^a + e^b) = max(a, b) + ln(1 + e^-|a - b|), where infinity minus itself counts as 0
        return [
            f"gap = where({total} == {element}, f64(0.0), abs_({total} - {element}))",
            f"{total} = maximum({total}, {element}) + log1p(exp(-gap))",
        ]


def _rows_text(length: int, reverse: bool, step: _RunningStep) -> str:
    """Along contiguous rows."""
    size = machine_model.RUNNING_GROUP
    groups = (length - 1) // size if step.may_be_grouped and length > 4 * size else 0
    first, sign = (f"{length} * r + {length - 1}", "-") if reverse else (f"{length} * r", "+")
    lines = [f"first = {first}", f"total = {step.widened('x[first]')}", f"out[first] = {step.narrowed('total')}"]
    if groups:
        group = [f"place = first {sign} 1 {sign} {size} * g", f"part_0 = {step.widened('x[place]')}"]
        for k in range(1, size):
            element = step.widened(f"x[place {sign} {k}]")
            group.append(f"part_{k} = {combined(step.kind, step.wide, f'part_{k - 1}', element)}")
        for k in range(size):
            joined = combined(step.kind, step.wide, "total", f"part_{k}")
            group.append(f"out[{'place' if k == 0 else f'place {sign} {k}'}] = {step.narrowed(joined)}")
        group.append(f"total = {combined(step.kind, step.wide, 'total', f'part_{size - 1}')}")
        lines += indented(f"for g in range({groups}):", group)
    one = [f"element = {step.widened(f'x[first {sign} j]')}", *step.lines("total", "element")]
    one.append(f"out[first {sign} j] = {step.narrowed('total')}")
    lines += indented(f"for j in range({1 + groups * size}, {length}):", one)
    return "\n".join(indented("for r in range(start, stop):", lines))


def _columns_text(length: int, inner: int, reverse: bool, step: _RunningStep, rows: str, columns: str) -> str:
    """Along an axis with others behind it, which are the vectors."""
    first, sign = (f"{length * inner} * r + {(length - 1) * inner}", "-") if reverse else (f"{length * inner} * r", "+")
    keeps = step.wide != step.dtype
    before = f"total[{inner} * r + i]" if keeps else f"out[place {'+' if reverse else '-'} {inner} + i]"
    begin = [f"out[first + i] = {step.first('x[first + i]')}"]
    more = [f"running = {before}", f"element = {step.widened('x[place + i]')}", *step.lines("running", "element")]
    if keeps:
        begin.append(f"total[{inner} * r + i] = {step.widened('x[first + i]')}")
        more.append(f"total[{inner} * r + i] = running")
    more.append(f"out[place + i] = {step.narrowed('running')}")
    lines = [f"first = {first}", *indented(f"for i in {columns}:", begin)]
    lines += indented(
        f"for j in range(1, {length}):",
        [f"place = first {sign} {inner} * j", *indented(f"for i in {columns}:", more)],
    )
    return "\n".join(indented(f"for r in {rows}:", lines))


def _log_sum_exp_rows(target: Any, x: Any, out: Any, rows: int, length: int, reverse: bool) -> None:
    """Running sums of exponentials relative to the running maximum: `sum = sum · e^(before - after) + e^(x - after)`.

    Infinity minus itself counts as 0. All exponentials of a block, and all its logarithms, are computed together.
    """
    in_group = -(-rows // (machine_model.PARTS_A_THREAD * target.threads_hint))
    groups, block = -(-rows // in_group), min(machine_model.RUNNING_BLOCK, length)
    first, sign = (f"{length} * r + {length - 1}", "-") if reverse else (f"{length} * r", "+")
    buffers = {"x": (x, "r"), "out": (out, "w")}
    for name in ("before", "after", "terms"):
        buffers[name] = (target.scratch((groups, block), np.dtype(np.float64)), "w")
    stored = "after[row + j] + log(terms[row + j])"
    body = f"""\
for group in range(start, stop):
    row = {block} * group
    for r in range({in_group} * group, minimum({in_group} * group + {in_group}, {rows})):
        largest = f64(x[{first}])
        total = f64(0.0)
        for k in range(0, {length}, {block}):
            place = {first} {sign} k
            count = minimum({block}, {length} - k)
            for j in range(count):
                before[row + j] = largest
                largest = maximum(largest, f64(x[place {sign} j]))
                after[row + j] = largest
            for j in range(count):
                element = f64(x[place {sign} j])
                high = after[row + j]
                low = before[row + j]
                before[row + j] = exp(where(low == high, f64(0.0), low - high))
                terms[row + j] = exp(where(element == high, f64(0.0), element - high))
            for j in range(count):
                total = total * before[row + j] + terms[row + j]
                terms[row + j] = total
            for j in range(count):
                out[place {sign} j] = {stored if x.dtype != np.float32 else f"f32({stored})"}
"""
    cost = {"flops": 60 * x.size, "bytes": 2 * x.size * x.dtype.itemsize}
    target.kernel("running_logsumexp", body, buffers, groups, **cost)
