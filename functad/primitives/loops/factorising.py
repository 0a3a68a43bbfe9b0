"""Kernels that call LAPACK, a matrix after another: no Python runs in between.

Knows the interface of a target, and what the routines take. Fortran has columns one behind another: most matrices are
copied to memory of the kernel's own, transposed, and results back. What the library computes with threads of its own,
and what takes much memory, is left to the implementation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText, matrix_kernel
from functad.primitives.loops.text import cast
from functad.primitives.loops.turning import PitchedMatrix, copy_turned
from functad.system import lapack

_COMPLEX_NAMES = {"orgqr": "ungqr", "syevd": "heevd"}


class RoutineKernel:
    """A kernel that a rule writes: its text is that for the matrices number r.

    dtype: of the matrices. real: of their parts.
    """

    def __init__(self, target: Any, dtype: np.dtype, count: int) -> None:
        self.dtype, self.is_complex = dtype, kind_of(dtype) == "c"
        self.real = np.dtype(f"f{dtype.itemsize // 2}") if self.is_complex else dtype
        self.text = KernelText()
        self.is_possible = True
        self._target, self._count = target, count
        self._buffers: dict[str, tuple[Any, str]] = {}
        self._handles: dict[str, tuple[Any, str]] = {}
        self._scratch = 0

    def given(self, name: str, buffer: Any, mode: str = "r") -> str:
        """The place of the matrix in an operand or result: its name and its first element."""
        self._buffers[name] = (buffer, mode)
        return f"{name}, {buffer.size // self._count} * r"

    def result(self, name: str, buffer: Any) -> str:
        return self.given(name, buffer, "w")

    def scratch(self, name: str, size: int, dtype: Any = None) -> str:
        """The place of so many elements of the kernel's own."""
        buffer = self._target.scratch((self._count, max(size, 1)), self.dtype if dtype is None else dtype)
        self._scratch += buffer.nbytes
        return self.result(name, buffer)

    def call(self, routine: str, *arguments: str | int) -> None:
        """Call a routine; what it says is then `info`. Letters are given in quotes."""
        name = _COMPLEX_NAMES.get(routine, routine) if self.is_complex else routine
        handle = self._target.lapack(name, self.dtype)
        if handle is None:
            self.is_possible = False
            return
        self._handles[name] = (handle, "r")
        given = [str(ord(a[1])) if isinstance(a, str) and a.startswith("'") else str(a) for a in arguments]
        self.text.line(f"info = lapack_{name}({', '.join([name, *given])})")

    def copy(self, source: str, target: str, rows: int, columns: int, value: str = "{0}") -> None:
        """Copy matrices that lie in the same way."""
        with self.text.loop("i", rows * columns):
            self.text.line(f"{_element(target, 'i')} = {value.format(_element(source, 'i'))}")

    def to_columns(self, source: str, target: str, rows: int, columns: int) -> None:
        """Copy a matrix whose rows lie one behind another to one whose columns do."""
        copy_turned(self.text, _matrix(source, columns), _matrix(target, rows), rows, columns, self.dtype)

    def to_rows(self, source: str, target: str, rows: int, columns: int) -> None:
        self.to_columns(source, target, columns, rows)

    def spoil(self, *results: tuple[str, int, np.dtype]) -> None:
        """Let so many elements be NaN if the routine says that it failed."""
        with self.text.block("if info != 0:"):
            for place, size, dtype in results:
                with self.text.loop("i", size):
                    self.text.line(f"{_element(place, 'i')} = {cast(dtype)}(nan)")

    def write(self, flops: int) -> bool:
        """Give the kernel to the target, unless it is not possible."""
        if not self.is_possible or self._scratch > machine_model.ROUTINE_BYTES:
            return False
        text = KernelText()
        with text.block("for r in range(start, stop):"):
            text.line(*str(self.text).split("\n"))
        name, buffers = next(iter(self._handles)), self._buffers
        matrix_kernel(self._target, name, text, buffers, self._count, flops, self._handles)
        return True


def _sizes(buffer: Any) -> tuple[int, int]:
    m, n = buffer.shape[-2:]
    return m, n


def _matrix(place: str, pitch: int) -> PitchedMatrix:
    name, start = place.split(", ")
    return PitchedMatrix(name, start, pitch)


def _element(place: str, index: str) -> str:
    name, start = place.split(", ")
    return f"{name}[{start} + {index}]"


def by_routines(
    rule: Callable[..., int],
    function: Callable[..., Any],
    target: Any,
    ins: Sequence[Any],
    outs: Sequence[Any],
    **params: Any,
) -> None:
    """Call LAPACK in a kernel, which `rule(kernel, ins, outs, **params)` writes, or else the function.

    The rule returns the operations for a matrix.
    """
    a = ins[0]
    if all(x.size for x in (*ins, *outs)) and min(a.shape[-2:]) <= machine_model.ONE_THREAD_MATRIX:
        kernel = RoutineKernel(target, a.dtype, math.prod(a.shape[:-2]))
        if kernel.write(rule(kernel, ins, outs, **params)):
            return
    target.call(function, ins, outs, **params)


# --- Cholesky, LU, triangular systems ---------------------------------------------------------------------


def cholesky(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any]) -> int:
    """Of columns the lower factor: OpenBLAS takes a quarter less time than for the upper one of rows."""
    (n, _), dtype, text = _sizes(ins[0]), cast(kernel.dtype), kernel.text
    a, columns, out = kernel.given("a", ins[0]), kernel.scratch("columns", n * n), kernel.result("out", outs[0])
    kernel.to_columns(a, columns, n, n)
    kernel.call("potrf", "'L'", n, columns, n)
    kernel.to_rows(columns, out, n, n)
    with text.loop("i", n):
        with text.loop("j", "i + 1", n):
            text.line(f"{_element(out, f'{n} * i + j')} = {dtype}(0.0)")
        with text.block("if info != 0:"), text.loop("j", "i + 1"):
            text.line(f"{_element(out, f'{n} * i + j')} = {dtype}(nan)")
    return n**3 // 3


def lu(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any]) -> int:
    (m, n), text = _sizes(ins[0]), kernel.text
    k = min(m, n)
    a, columns, rows = (
        kernel.given("a", ins[0]),
        kernel.scratch("columns", m * n),
        kernel.scratch("rows", k, lapack.integer()),
    )
    out, pivots, order = (kernel.result(*x) for x in zip(("out", "pivots", "order"), outs))
    kernel.to_columns(a, columns, m, n)
    kernel.call("getrf", m, n, columns, m, rows)
    kernel.to_rows(columns, out, m, n)
    with text.loop("i", m):
        text.line(f"{_element(order, 'i')} = i32(i)")
    with text.loop("j", k):
        text.line(f"best = i64({_element(rows, 'j')}) - 1", f"{_element(pivots, 'j')} = i32(best)")
        text.line(f"kept = {_element(order, 'j')}", f"{_element(order, 'j')} = {_element(order, 'best')}")
        text.line(f"{_element(order, 'best')} = kept")
    return 2 * m * n * k // 3


def triangular_solve(
    kernel: RoutineKernel,
    ins: Sequence[Any],
    outs: Sequence[Any],
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> int:
    """Rows are columns to Fortran: so the other side, and the other triangle."""
    (m, n), (size, _) = _sizes(ins[1]), _sizes(ins[0])
    a, b, x = kernel.given("a", ins[0]), kernel.given("b", ins[1]), kernel.result("x", outs[0])
    if conjugate_a and not transpose_a and kernel.is_complex:
        a, given = kernel.scratch("conjugates", size * size), a
        kernel.copy(given, a, size, size, "conjugate({0})")
    kernel.copy(b, x, m, n)
    letters = ["'R'" if left_side else "'L'", "'U'" if lower else "'L'"]
    letters += [("'C'" if conjugate_a else "'T'") if transpose_a else "'N'", "'U'" if unit_diagonal else "'N'"]
    kernel.call("trsm", *letters, n, m, f"{cast(kernel.dtype)}(1.0)", a, size, x, n)
    return size * m * n


# --- QR ---------------------------------------------------------------------------------------------------


def qr(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any], *, full_matrices: bool) -> int:
    (m, n), text = _sizes(ins[0]), kernel.text
    k = min(m, n)
    width = m if full_matrices else k  # of Q
    a, columns = kernel.given("a", ins[0]), kernel.scratch("columns", m * max(n, width))
    taus, room, work = kernel.scratch("taus", k), 64 * max(n, width), kernel.scratch("work", 64 * max(n, width))
    q, r = kernel.result("q", outs[0]), kernel.result("upper", outs[1])
    kernel.to_columns(a, columns, m, n)
    kernel.call("geqrf", m, n, columns, m, taus, work, room)
    with text.loop("i", width), text.loop("j", n):
        element = _element(columns, f"{m} * j + i")
        text.line(f"{_element(r, f'{n} * i + j')} = {element} if j >= i else {cast(kernel.dtype)}(0.0)")
    kernel.call("orgqr", m, width, k, columns, m, taus, work, room)
    kernel.to_rows(columns, q, m, width)
    return 4 * m * n * k


def geqrf(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any]) -> int:
    m, n = _sizes(ins[0])
    a, columns, work = kernel.given("a", ins[0]), kernel.scratch("columns", m * n), kernel.scratch("work", 64 * n)
    packed, taus = kernel.result("packed", outs[0]), kernel.result("taus", outs[1])
    kernel.to_columns(a, columns, m, n)
    kernel.call("geqrf", m, n, columns, m, taus, work, 64 * n)
    kernel.to_rows(columns, packed, m, n)
    return 2 * m * n * min(m, n)


def householder_product(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any]) -> int:
    (m, n), k = _sizes(ins[0]), int(ins[1].shape[-1])
    a, columns, work = kernel.given("a", ins[0]), kernel.scratch("columns", m * n), kernel.scratch("work", 64 * n)
    taus, q = kernel.given("taus", ins[1]), kernel.result("q", outs[0])
    kernel.to_columns(a, columns, m, n)
    kernel.call("orgqr", m, n, k, columns, m, taus, work, 64 * n)
    kernel.to_rows(columns, q, m, n)
    return 2 * m * n * k


# --- spectra ----------------------------------------------------------------------------------------------


def eigh(kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any], *, lower: bool) -> int:
    n, _ = _sizes(ins[0])
    a, columns = kernel.given("a", ins[0]), kernel.scratch("columns", n * n)
    v, w = kernel.result("v", outs[0]), kernel.result("w", outs[1])
    sizes = [("work", 2 * n + n * n, kernel.dtype)] if kernel.is_complex else []
    sizes += [("reals", 1 + 6 * n + 2 * n * n, kernel.real), ("integers", 3 + 5 * n, lapack.integer())]
    rooms = [argument for name, size, dtype in sizes for argument in (kernel.scratch(name, size, dtype), size)]
    kernel.to_columns(a, columns, n, n)
    kernel.call("syevd", "'V'", "'L'" if lower else "'U'", n, columns, n, w, *rooms)
    kernel.to_rows(columns, v, n, n)
    kernel.spoil((v, n * n, kernel.dtype), (w, n, kernel.real))
    return 9 * n**3


def svd(
    kernel: RoutineKernel, ins: Sequence[Any], outs: Sequence[Any], *, full_matrices: bool, compute_uv: bool
) -> int:
    m, n = _sizes(ins[0])
    k = min(m, n)
    job, left, right = ("N", 1, 1) if not compute_uv else ("A", m, n) if full_matrices else ("S", k, k)
    a, columns, s = kernel.given("a", ins[0]), kernel.scratch("columns", m * n), kernel.result("s", outs[0])
    u, vt = kernel.scratch("left", m * left), kernel.scratch("right", n * right)
    room = 4 * k * k + 64 * (k + max(m, n)) + 7 * k
    work = kernel.scratch("work", room)
    reals = k * (5 * k + 7 + 2 * max(m, n) + 2 * k)
    more = [kernel.scratch("reals", reals, kernel.real)] if kernel.is_complex else []
    integers = kernel.scratch("integers", 8 * k, lapack.integer())
    kernel.to_columns(a, columns, m, n)
    kernel.call("gesdd", f"'{job}'", m, n, columns, m, s, u, m, vt, right, work, room, *more, integers)
    results = [(s, k, kernel.real)]
    if compute_uv:
        into_u, into_vt = kernel.result("u", outs[1]), kernel.result("vt", outs[2])
        kernel.to_rows(u, into_u, m, left)
        kernel.to_rows(vt, into_vt, right, n)
        results += [(into_u, m * left, kernel.dtype), (into_vt, right * n, kernel.dtype)]
    kernel.spoil(*results)
    return 20 * m * n * k
