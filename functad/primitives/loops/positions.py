"""Kernels that find where the first maximum or minimum along an axis lies.

Knows the interface of a target. A NaN counts as the extremum; the first one wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.order import ordered
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
        if inner == 1:
            text = _rows_text if length < machine_model.FLOATS_OF_VECTOR else _long_rows_text
            body = text(length, kind, x.dtype, index_dtype)
            target.kernel(name, body, buffers, outer, rows=True, row_reads=("x",), **costs)
            return
        held = {"bool": np.dtype(np.uint8), "float16": np.dtype(np.float32)}.get(x.dtype.name, x.dtype)
        buffers["best"] = (target.scratch((outer, inner), held), "w")
        if outer >= machine_model.FEW_ROWS:
            body = _columns_text(length, inner, kind, x.dtype, index_dtype, "range(start, stop)", f"range({inner})")
            target.kernel(name, body, buffers, outer, rows=True, row_reads=("x",), **costs)
            return
        body = _columns_text(length, inner, kind, x.dtype, index_dtype, f"range({outer})", "range(start, stop)")
        target.kernel(name, body, buffers, inner, **costs)

    return rule


def _rows_text(length: int, kind: str, dtype: np.dtype, index_dtype: np.dtype) -> str:
    return f"""\
for r in range(start, stop):
    best = {_element(f"x[{length} * r]", dtype)}
    place = 0
    for j in range(1, {length}):
        element = {_element(f"x[{length} * r + j]", dtype)}
        better = {_better(kind, dtype)}
        best = where(better, element, best)
        place = where(better, j, place)
    out[r] = {cast(index_dtype)}(place)
"""


def _long_rows_text(length: int, kind: str, dtype: np.dtype, index_dtype: np.dtype) -> str:
    """Integers in the order of the elements are compared: vectors of them have a maximum without regard to NaN."""
    block = machine_model.EXTREMUM_BLOCK
    (word, key), (whole, rest) = ordered("element", dtype, nan_first=kind == "min"), divmod(length, block)
    worst = f"{cast(word)}({0 if kind == 'max' else np.iinfo(word).max})"
    lines = _blocks_lines(f"range({whole})", block, length, kind, key, worst) if whole else []
    lines += _blocks_lines(f"range({whole}, {whole + 1})", rest, length, kind, key, worst) if rest else []
    blocks = "\n    ".join(lines)
    searched = length if not whole else f"minimum({block}, {length} - place)" if rest else block
    return f"""\
for r in range(start, stop):
    best = {worst}
    place = 0
    {blocks}
    first = {length} * r + place
    offset = i32({block})
    for j in range({searched}):
        element = x[first + j]
        offset = minimum(offset, where({key} == best, i32(j), i32({block})))
    out[r] = {cast(index_dtype)}(place + offset)
"""


def _blocks_lines(blocks: str, count: int, length: int, kind: str, key: str, worst: str) -> list[str]:
    """Move `place` to a block if it has a better element than all before."""
    size = machine_model.EXTREMUM_BLOCK
    return f"""\
for block in {blocks}:
    first = {length} * r + {size} * block
    top = {worst}
    for j in range({count}):
        element = x[first + j]
        top = {kind}imum(top, {key})
    if top {">" if kind == "max" else "<"} best:
        best = top
        place = {size} * block""".split("\n")


def _columns_text(
    length: int, inner: int, kind: str, dtype: np.dtype, index_dtype: np.dtype, rows: str, columns: str
) -> str:
    index = cast(index_dtype)
    return f"""\
for r in {rows}:
    for i in {columns}:
        best[{inner} * r + i] = {_element(f"x[{length * inner} * r + i]", dtype)}
        out[{inner} * r + i] = {index}(0)
    for j in range(1, {length}):
        place = {index}(j)
        for i in {columns}:
            element = {_element(f"x[{length * inner} * r + {inner} * j + i]", dtype)}
            so_far = best[{inner} * r + i]
            better = {_better(kind, dtype).replace("best", "so_far")}
            best[{inner} * r + i] = where(better, element, so_far)
            out[{inner} * r + i] = where(better, place, out[{inner} * r + i])
"""


def _element(text: str, dtype: np.dtype) -> str:
    return f"u8({text})" if dtype.kind == "b" else text


def _better(kind: str, dtype: np.dtype) -> str:
    order = f"element {'>' if kind == 'max' else '<'} best"
    return f"({order}) | ((element != element) & (best == best))" if dtype.kind == "f" else order
