"""Kernels of running log-sum-exps along an axis.

Knows the interface of a target; no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.text import cast, indented


def cumulative_logsumexp_rule(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, axis: int, reverse: bool
) -> None:
    """The rule of a running log-sum-exp: totals are kept in float64."""
    (x,), (out,) = ins, outs
    if x.size == 0:
        return
    outer, length, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    if inner == 1:
        _rows(target, x, out, outer, length, reverse)
        return
    buffers: dict[str, tuple[Any, str]] = {"x": (x, "r"), "out": (out, "w")}
    costs = {"bytes": 2 * x.size * x.dtype.itemsize, "flops": 2 * x.size}
    if x.dtype != np.float64:
        buffers["total"] = (target.scratch((outer, inner), np.dtype(np.float64)), "w")
    if outer >= machine_model.FEW_ROWS:
        body = _columns_text(x.dtype, length, inner, reverse, "range(start, stop)", f"range({inner})")
        target.kernel("running_logsumexp", body, buffers, outer, rows=True, row_reads=("x",), **costs)
        return
    body = _columns_text(x.dtype, length, inner, reverse, f"range({outer})", "range(start, stop)")
    target.kernel("running_logsumexp", body, buffers, inner, **costs)


def _columns_text(dtype: np.dtype, length: int, inner: int, reverse: bool, rows: str, columns: str) -> str:
    """Along an axis with others behind it, which are the vectors.

    ln(e^a + e^b) = max(a, b) + ln(1 + e^-|a - b|), where infinity minus itself counts as 0.
    """
    first, sign = (f"{length * inner} * r + {(length - 1) * inner}", "-") if reverse else (f"{length * inner} * r", "+")
    is_wide = dtype == np.float64
    before = f"out[place {'+' if reverse else '-'} {inner} + i]" if is_wide else f"total[{inner} * r + i]"
    begin = [f"out[first + i] = x[first + i] + {cast(dtype)}(0.0)"]  # the log of a sum is never -0
    more = [
        f"running = {before}",
        "element = f64(x[place + i])",
        "gap = where(running == element, f64(0.0), abs_(running - element))",
        "running = maximum(running, element) + log1p(exp(-gap))",
    ]
    if not is_wide:
        begin.append(f"total[{inner} * r + i] = f64(x[first + i])")
        more.append(f"total[{inner} * r + i] = running")
    more.append(f"out[place + i] = {_narrowed(dtype, 'running')}")
    lines = [f"first = {first}", *indented(f"for i in {columns}:", begin)]
    lines += indented(
        f"for j in range(1, {length}):",
        [f"place = first {sign} {inner} * j", *indented(f"for i in {columns}:", more)],
    )
    return "\n".join(indented(f"for r in {rows}:", lines))


def _rows(target: Any, x: Any, out: Any, rows: int, length: int, reverse: bool) -> None:
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
                out[place {sign} j] = {_narrowed(x.dtype, stored)}
"""
    cost = {"flops": 60 * x.size, "bytes": 2 * x.size * x.dtype.itemsize}
    target.kernel("running_logsumexp", body, buffers, groups, **cost)


def _narrowed(dtype: np.dtype, total: str) -> str:
    return f"f32({total})" if dtype == np.float32 else total
