"""Kernels that factorise small matrices, or solve with them: one after another, on all threads.

Knows the interface of a target. Larger matrices, and complex ones, are left to LAPACK, which has no time to spare for
each call on matrices of a few rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.dtypes import kind_of
from functad.lowering_rules import Loops
from functad.primitives.loops.kernel_text import KernelText, matrix_kernel, total
from functad.primitives.loops.text import cast


def small_or(small: Callable[..., None], other: Callable[..., None]) -> Loops:
    """The lowering of an operation whose first operand holds matrices: a kernel for small ones, else another rule."""
    return Loops(partial(_small_or, small, other))


def _small_or(
    small: Callable[..., None],
    other: Callable[..., None],
    target: Any,
    ins: Sequence[Any],
    outs: Sequence[Any],
    **params: Any,
) -> None:
    a = ins[0]
    if kind_of(a.dtype) != "c" and max(a.shape[-2:]) <= machine_model.SMALL_MATRIX and all(b.size for b in outs):
        small(target, ins, outs, **params)
    else:
        other(target, ins, outs, **params)


def _batch(x: Any) -> int:
    return math.prod(x.shape[:-2])


# --- Cholesky -------------------------------------------------------------------------------------------


def cholesky_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    """Row after row; a pivot that is not positive spoils the matrix, as in LAPACK one that is not a number does not."""
    (a,), (out,) = ins, outs
    n, zero, text = a.shape[-1], f"{cast(a.dtype)}(0.0)", KernelText()
    with text.block("for r in range(start, stop):"):
        text.line(f"base = {n * n} * r", "fails = False")
        with text.loop("i", n):
            text.line(f"row = base + {n} * i")
            with text.loop("j", "i"):
                text.line(f"other = base + {n} * j", "element = a[row + j]")
                with text.loop("k", "j"):
                    text.line("element = element - out[row + k] * out[other + k]")
                text.line("out[row + j] = element / out[other + j]")
            text.line("pivot = a[row + i]")
            with text.loop("k", "i"):
                text.line("pivot = pivot - out[row + k] * out[row + k]")
            text.line(f"fails = fails | (pivot <= {zero})", "out[row + i] = sqrt(pivot)")
            with text.loop("j", "i + 1", n):
                text.line(f"out[row + j] = {zero}")
        with text.block("if fails:"), text.loop("i", n), text.loop("j", "i + 1"):
            text.line(f"out[base + {n} * i + j] = {cast(a.dtype)}(nan)")
    matrix_kernel(target, "cholesky", text, {"a": (a, "r"), "out": (out, "w")}, _batch(a), n**3 // 3 + 20 * n)


# --- LU -------------------------------------------------------------------------------------------------


def lu_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any]) -> None:
    """Column after column: the largest element becomes the pivot, the first of equal ones, or one that is a NaN."""
    (a,), (out, pivots, order) = ins, outs
    m, n = a.shape[-2:]
    k, zero, text = min(m, n), f"{cast(a.dtype)}(0.0)", KernelText()
    with text.block("for r in range(start, stop):"):
        text.line(f"base = {m * n} * r")
        with text.loop("i", m * n):
            text.line("out[base + i] = a[base + i]")
        with text.loop("i", m):
            text.line(f"order[{m} * r + i] = i32(i)")
        with text.loop("j", k):
            text.line("best = j", f"largest = abs_(out[base + {n} * j + j])")
            with text.loop("i", "j + 1", m):
                text.line(f"size = abs_(out[base + {n} * i + j])")
                with text.block("if (size > largest) | ((size != size) & (largest == largest)):"):
                    text.line("largest = size", "best = i")
            text.line(f"pivots[{k} * r + j] = i32(best)")
            with text.block("if best != j:"):
                _exchange(text, "out", f"base + {n} * j", f"base + {n} * best", n)
                text.line(f"kept = order[{m} * r + j]", f"order[{m} * r + j] = order[{m} * r + best]")
                text.line(f"order[{m} * r + best] = kept")
            text.line(f"pivot = out[base + {n} * j + j]")
            with text.block(f"if pivot != {zero}:"), text.loop("i", "j + 1", m):
                text.line(f"row = base + {n} * i", "factor = out[row + j] / pivot", "out[row + j] = factor")
                with text.loop("c", "j + 1", n):
                    text.line(f"out[row + c] = out[row + c] - factor * out[base + {n} * j + c]")
    buffers = {"a": (a, "r"), "out": (out, "w"), "pivots": (pivots, "w"), "order": (order, "w")}
    matrix_kernel(target, "lu", text, buffers, _batch(a), 2 * m * n * k // 3 + 10 * k * m)


def _exchange(text: KernelText, pointer: str, one: str, other: str, count: int) -> None:
    """Exchange so many elements from two places on."""
    with text.loop("c", count):
        text.line(f"moved = {pointer}[{one} + c]", f"{pointer}[{one} + c] = {pointer}[{other} + c]")
        text.line(f"{pointer}[{other} + c] = moved")


# --- triangular systems -----------------------------------------------------------------------------------


def triangular_solve_rule(
    target: Any,
    ins: Sequence[Any],
    outs: Sequence[Any],
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> None:
    """By substitution: of rows of x with the matrix on the left, else of elements within each row."""
    (a, b), (x,) = ins, outs
    n, (rows, columns) = a.shape[-1], b.shape[-2:]
    forward = lower ^ transpose_a ^ (not left_side)
    known = ("0", "i") if forward else ("i + 1", str(n))

    def element(i: str, j: str) -> str:
        i, j = (j, i) if transpose_a else (i, j)
        return f"a[{total('base', (i, n), j)}]"

    text = KernelText()
    with text.block("for r in range(start, stop):"):
        text.line(f"base = {n * n} * r")
        if left_side:
            text.line(f"first = {rows * columns} * r")
            with text.loop("step", n):
                text.line(f"i = {'step' if forward else f'{n - 1} - step'}", f"row = first + {columns} * i")
                with text.loop("c", columns):
                    text.line("x[row + c] = b[row + c]")
                with text.loop("k", *known):
                    text.line(f"factor = {element('i', 'k')}", f"other = first + {columns} * k")
                    with text.loop("c", columns):
                        text.line("x[row + c] = x[row + c] - factor * x[other + c]")
                if not unit_diagonal:
                    text.line(f"pivot = {element('i', 'i')}")
                    with text.loop("c", columns):
                        text.line("x[row + c] = x[row + c] / pivot")
        else:
            with text.loop("c", rows):
                text.line(f"row = {rows * columns} * r + {columns} * c")
                with text.loop("step", n):
                    text.line(f"i = {'step' if forward else f'{n - 1} - step'}", "value = b[row + i]")
                    with text.loop("k", *known):
                        text.line(f"value = value - x[row + k] * {element('k', 'i')}")
                    text.line("x[row + i] = value" if unit_diagonal else f"x[row + i] = value / {element('i', 'i')}")
    buffers = {"a": (a, "r"), "b": (b, "r"), "x": (x, "w")}
    matrix_kernel(target, "triangular_solve", text, buffers, _batch(a), n * rows * columns + 10 * n)
