"""Kernels that find where the first maximum or minimum along an axis lies, of columns that fit into a vector together.

Knows the interface of a target. A NaN counts as the extremum; the first one wins. Others are reductions instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import compute_dtype, kind_of
from functad.primitives.loops.text import cast


def position_rule(kind: str) -> Callable[..., None]:
    """The rule of argmax ("max") or argmin ("min")."""

    def rule(
        target: Any, ins: Sequence[Any], outs: Sequence[Any], *, axes: Sequence[int], index_dtype: np.dtype
    ) -> None:
        (x,), (out,), (axis,) = ins, outs, axes
        if out.size == 0:
            return
        outer, length, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
        name, costs = f"arg{kind}", {"bytes": x.size * x.dtype.itemsize, "flops": 2 * x.size}
        buffers: dict[str, tuple[Any, str]] = {"x": (x, "r"), "out": (out, "w")}
        held = np.dtype(np.uint8) if x.dtype == np.bool_ else compute_dtype(x.dtype)
        buffers["best"] = (target.scratch((outer, inner), held), "w")
        body = _columns_text(length, inner, kind, x.dtype, index_dtype)
        target.kernel(name, body, buffers, outer, rows=True, row_reads=("x",), **costs)

    return rule


def _columns_text(length: int, inner: int, kind: str, dtype: np.dtype, index_dtype: np.dtype) -> str:
    index = cast(index_dtype)
    return f"""\
for r in range(start, stop):
    for i in range({inner}):
        best[{inner} * r + i] = {_element(f"x[{length * inner} * r + i]", dtype)}
        out[{inner} * r + i] = {index}(0)
    for j in range(1, {length}):
        place = {index}(j)
        for i in range({inner}):
            element = {_element(f"x[{length * inner} * r + {inner} * j + i]", dtype)}
            so_far = best[{inner} * r + i]
            better = {_better(kind, dtype).replace("best", "so_far")}
            best[{inner} * r + i] = where(better, element, so_far)
            out[{inner} * r + i] = where(better, place, out[{inner} * r + i])
"""


def _element(text: str, dtype: np.dtype) -> str:
    return f"u8({text})" if kind_of(dtype) == "b" else text


def _better(kind: str, dtype: np.dtype) -> str:
    order = f"element {'>' if kind == 'max' else '<'} best"
    return f"({order}) | ((element != element) & (best == best))" if kind_of(dtype) == "f" else order
