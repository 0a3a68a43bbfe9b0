"""Kernels of Fourier transforms of one long axis: as a matrix, first its columns, then its rows, each in a cache.

Knows the interface of a target, and passes. Source: Gentleman and Sande, "Fast Fourier transforms: for fun and profit"
(1966); Bailey, "FFTs in external or hierarchical memory" (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops import fourier_passes
from functad.primitives.loops.fourier_passes import Pass, Roots, butterfly, few_roots, passes, turn
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import constant_text

_Elements = Callable[[int, str, int], None]


def is_long(n: int, rows: int, part: Any, real: bool) -> bool:
    """Whether rows of length n are transformed as matrices: of half as many numbers, if they are real ones."""
    if n < machine_model.FFT_AS_MATRIX * min(rows, machine_model.FFT_ROWS) or (real and n % 2):
        return False
    return sides(n // 2 if real else n)[0] >= _beside(part)


def sides(n: int) -> tuple[int, int]:
    """The rows and columns of the matrix that n numbers are: factors of n, as close to each other as there are."""
    rows = next(a for a in range(math.isqrt(n), 0, -1) if n % a == 0)
    return rows, n // rows


def _beside(part: Any) -> int:
    """How many columns, or rows, are transformed side by side: as many numbers as a line of a cache holds."""
    return int(machine_model.CACHE_LINE // np.dtype(part).itemsize)


def long_fourier_rule(target: Any, x: Any, out: Any, n: int, inverse: bool) -> None:
    """Rows of length n (that of real arrays, where x or out is one), the columns and rows of each on all threads."""
    writer = _LongWriter(target, x, out, n, inverse)
    writer.few_roots()
    writer.roots()
    if writer.to_real:
        writer.of_halves()
    writer.columns()
    writer.rows()
    if writer.of_real:
        writer.to_halves()


class _LongWriter:
    """Writes the kernels: X_k, k = k₁ + a k₂, is Σ W_b^(j₂ k₂) W_n^(j₂ k₁) Σ W_a^(j₁ k₁) x_j, over j = j₁ b + j₂.

    W_n = e^(−2πi / n). a, b: the sides of the matrix. size: how many complex numbers it holds, half of n if x or the
    result is real: then even elements are real parts, odd ones imaginary parts. The inverse is a transform with the
    parts of numbers exchanged.
    """

    def __init__(self, target: Any, x: Any, out: Any, n: int, inverse: bool) -> None:
        self.target, self.x, self.out, self.n, self.inverse = target, x, out, n, inverse
        self.part = np.zeros(0, x.dtype).real.dtype
        self.of_real, self.to_real = kind_of(x.dtype) == "f", kind_of(out.dtype) == "f"
        self.size = n // 2 if self.of_real or self.to_real else n
        self.count = (out if self.to_real else x).size // n
        self.a, self.b = sides(self.size)
        self.beside = _beside(self.part)
        self.across = self.b + self.beside  # from row to row in memory: no power of two, of which a cache holds few
        self.matrix = self._complex_scratch("mid", self.count * self.a * self.across)
        self.spectrum = self._complex_scratch("z", self.count * self.size) if self.size < n else {}
        self.few = {name: target.scratch((few_roots(n),), np.float64) for name in ("few_re", "few_im")}
        self.twist = self._complex_scratch("twist", self.a * self.beside)
        self.roots_a, self.roots_b = self._complex_scratch("root", self.a), self._complex_scratch("root", self.b)

    # --- kernels ------------------------------------------------------------------------------------

    def few_roots(self) -> None:
        """Those that all others are products of."""
        text = KernelText()
        with text.loop("task", "start", "stop"):
            Roots(text, self.n, self.part).few("task")
        self._kernel("few", text, _mode("w", self.few), 1, 0)

    def roots(self) -> None:
        """Of the passes over columns and rows, and W_n^(k₁ q) for the column q of those side by side: a task each."""
        text, step = KernelText(), self.n // self.size
        roots = Roots(text, self.n, self.part)
        with text.loop("task", "start", "stop"):
            text.line("few = 0")
            roots.powers("twist", ["task"], self.a, f"{step} * task", apart=self.beside)
            for task, (into, length, other) in enumerate((("a", self.a, self.b), ("b", self.b, self.a))):
                made = passes(length)
                if len(made) > 1:
                    with text.block(f"if task == {task}:"):
                        roots.of_passes(into, [], made, step * other)
        tables = self.twist | _renamed(self.roots_a, "a") | _renamed(self.roots_b, "b")
        self._kernel("roots", text, _mode("w", tables) | _mode("r", self.few), self.beside, 0)

    def columns(self) -> None:
        """From x to the matrix, whose elements are turned by W_n^(j₂ k₁) = W_n^(first column · k₁) W_n^(q k₁)."""
        text = KernelText()

        def read(k: int, name: str, more: int) -> None:
            self._read(text, k, ["first", "q", (name, self.b), more * self.b])

        def write(k: int, name: str, more: int) -> None:
            where = total("q", (name, self.beside), more * self.beside)
            text.line(f"t_re = twist_re[{where}]", f"t_im = twist_im[{where}]")
            where = total(("group", self.a), name, more)
            text.line(f"s_re = start_re[{where}]", f"s_im = start_im[{where}]")
            text.line("w_re = s_re * t_re - s_im * t_im", "w_im = s_re * t_im + s_im * t_re")
            turn(text, k)
            where = total("matrix", "first", "q", (name, self.across), more * self.across)
            text.line(f"mid_re[{where}] = y_re_{k}", f"mid_im[{where}] = y_im_{k}")

        roots = Roots(text, self.n, self.part)
        with self._tasks(text, self.a, self.b) as groups:
            text.line("few = 0")
            roots.powers("start", [("group", self.a)], self.a, f"{self.n // self.size} * first")
            self._side_by_side(text, self.a, read, write)
        reads = _mode("r", (self.spectrum if self.to_real else {"x": self.x}) | self.twist | self.roots_a | self.few)
        own = self._pieces(groups, self.a) | _mode("w", self._complex_scratch("start", groups * self.a))
        self._kernel("columns", text, reads | _mode("w", self.matrix) | own, groups, 0.5)

    def rows(self) -> None:
        """From the matrix to the result, whose columns its rows are."""
        text = KernelText()

        def read(k: int, name: str, more: int) -> None:
            where = total("matrix", ("first", self.across), ("q", self.across), name, more)
            text.line(f"x_re_{k} = mid_re[{where}]", f"x_im_{k} = mid_im[{where}]")

        def write(k: int, name: str, more: int) -> None:
            self._write(text, k, ["first", "q", (name, self.a), more * self.a])

        with self._tasks(text, self.b, self.a) as groups:
            self._side_by_side(text, self.b, read, write)
        writes = _mode("w", self.spectrum if self.of_real else {"out": self.out})
        reads = _mode("r", self.matrix | self.roots_b)
        self._kernel("rows", text, reads | writes | self._pieces(groups, self.b), groups, 0.5)

    def to_halves(self) -> None:
        """From the spectrum of half as many complex numbers to the half spectrum of real ones."""
        text, m = KernelText(), self.size
        with self._blocks(text) as groups:
            with text.block("if block == 0:"):
                text.line("x_re = z_re[row]", "x_im = z_im[row]", f"zero = {constant_text(0.0, self.part)}")
                text.line("out[half] = complex_of(x_re + x_im, zero)")
                text.line(f"out[half + {m}] = complex_of(x_re - x_im, zero)")
            with self._places(text):
                for name in ("re", "im"):
                    text.line(f"a_{name} = z_{name}[row + i]", f"b_{name} = z_{name}[row + {m} - i]")
                fourier_passes.to_half(text, self.part)
                text.line("out[half + i] = complex_of(y_re, y_im)")
        buffers = _mode("r", self.spectrum | self.few) | _mode("w", {"out": self.out})
        self._kernel("to_halves", text, buffers, groups, 0)

    def of_halves(self) -> None:
        """The other way; the imaginary parts of the first and the last element, which are 0, are not read."""
        text, m = KernelText(), self.size
        with self._blocks(text) as groups:
            with text.block("if block == 0:"):
                text.line("x_re = x[half].real", f"x_im = x[half + {m}].real")
                text.line("z_re[row] = x_re - x_im", "z_im[row] = x_re + x_im")
            with self._places(text):
                text.line("one = x[half + i]", f"other = x[half + {m} - i]")
                text.line("a_re = one.real", "a_im = one.imag", "b_re = other.real", "b_im = other.imag")
                fourier_passes.of_half(text)
                text.line("z_im[row + i] = y_re", "z_re[row + i] = y_im")
        buffers = _mode("r", {"x": self.x} | self.few) | _mode("w", self.spectrum)
        self._kernel("of_halves", text, buffers, groups, 0)

    # --- what they consist of -----------------------------------------------------------------------

    @contextmanager
    def _grouped(self, text: KernelText, tasks: int) -> Iterator[int]:
        """A loop over tasks, in groups that have memory of their own; gives their number."""
        in_group = -(-tasks // (machine_model.PARTS_A_THREAD * self.target.threads_hint))
        with text.loop("group", "start", "stop"):
            with text.loop("task", f"{in_group} * group", f"minimum({in_group} * group + {in_group}, {tasks})"):
                yield -(-tasks // in_group)

    @contextmanager
    def _tasks(self, text: KernelText, n: int, many: int) -> Iterator[int]:
        """A loop over blocks of `many` transforms of length n; the last block may hold some of the one before, too."""
        blocks = -(-many // self.beside)
        with self._grouped(text, self.count * blocks) as groups:
            text.line(f"base = {n * self.beside} * group", f"r = task // {blocks}", f"row = {self.size} * r")
            text.line(f"matrix = {self.a * self.across} * r")
            text.line(f"first = minimum({self.beside} * (task - {blocks} * r), {many - self.beside})")
            yield groups

    @contextmanager
    def _blocks(self, text: KernelText) -> Iterator[int]:
        """A loop over blocks of places of spectra, and u, the root of the first of a block."""
        roots, blocks = Roots(text, self.n, self.part), -(-self.size // machine_model.FFT_ROOTS)
        with self._grouped(text, self.count * blocks) as groups:
            text.line("few = 0")
            text.line(f"r = task // {blocks}", f"row = {self.size} * r", f"half = {self.size + 1} * r")
            text.line(f"block = task - {blocks} * r", f"j = {machine_model.FFT_ROOTS} * block")
            roots.power()
            yield groups

    @contextmanager
    def _places(self, text: KernelText) -> Iterator[None]:
        """The loop over the places of a block, but for the first of all, with w = W_n^i."""
        cast = Roots(text, self.n, self.part).cast
        with text.loop("i", "maximum(j, 1)", f"minimum(j + {machine_model.FFT_ROOTS}, {self.size})"):
            text.line("v_re = few_re[few + i - j]", "v_im = few_im[few + i - j]")
            text.line(f"w_re = {cast}(u_re * v_re - u_im * v_im)", f"w_im = {cast}(u_re * v_im + u_im * v_re)")
            yield

    def _side_by_side(self, text: KernelText, n: int, read: _Elements, write: _Elements) -> None:
        """Passes over transforms of length n: `read` and `write` take an element of the one that is called `q`."""
        made = passes(n)
        for number, p in enumerate(made):
            self._pass(text, p, f"p_{1 - number % 2}", f"p_{number % 2}", read if not number else None, write)

    def _pass(
        self, text: KernelText, p: Pass, source: str, result: str, read: _Elements | None, write: _Elements
    ) -> None:
        reach, ends = p.stride * self.beside, p.rest == 1
        outer, many, wide = ("e", p.stride, self.beside) if ends else ("i", p.rest, self.beside if read else reach)

        def load(k: int) -> None:
            if read:
                return read(k, outer, p.rest * k)
            where = total("base", "q", (outer, self.beside if ends else reach), reach * p.rest * k)
            text.line(f"x_re_{k} = {source}_re[{where}]", f"x_im_{k} = {source}_im[{where}]")

        def store(k: int) -> None:
            if ends:
                return write(k, outer, p.stride * k)
            where = total("base", "q", (outer, reach * p.radix), reach * k)
            text.line(f"{result}_re[{where}] = y_re_{k}", f"{result}_im[{where}] = y_im_{k}")

        with text.block(f"for {outer} in range({many}):", f"for q in range({wide}):"):
            butterfly(text, p, self.part, load, store, "root", [])

    def _read(self, text: KernelText, k: int, place: list[Any]) -> None:
        if self.to_real:
            where = total("row", *place)
            text.line(f"x_re_{k} = z_re[{where}]", f"x_im_{k} = z_im[{where}]")
        elif self.of_real:
            where = total(("row", 2), *_twice(place))
            text.line(f"x_re_{k} = x[{where}]", f"x_im_{k} = x[{where} + 1]")
        else:
            text.line(f"element_{k} = x[{total('row', *place)}]")
            parts = ("imag", "real") if self.inverse else ("real", "imag")
            text.line(f"x_re_{k} = element_{k}.{parts[0]}", f"x_im_{k} = element_{k}.{parts[1]}")

    def _write(self, text: KernelText, k: int, place: list[Any]) -> None:
        scale, where = constant_text(1 / self.n, self.part), total("row", *place)
        if self.of_real:
            text.line(f"z_re[{where}] = y_re_{k}", f"z_im[{where}] = y_im_{k}")
        elif self.to_real:
            where = total(("row", 2), *_twice(place))
            text.line(f"out[{where}] = y_im_{k} * {scale}", f"out[{where} + 1] = y_re_{k} * {scale}")
        elif self.inverse:
            text.line(f"out[{where}] = complex_of(y_im_{k} * {scale}, y_re_{k} * {scale})")
        else:
            text.line(f"out[{where}] = complex_of(y_re_{k}, y_im_{k})")

    # --- buffers ------------------------------------------------------------------------------------

    def _complex_scratch(self, name: str, size: int) -> dict[str, Any]:
        return {f"{name}_{part}": self.target.scratch((size,), self.part) for part in ("re", "im")}

    def _pieces(self, groups: int, n: int) -> dict[str, Any]:
        """Of each group, the two between which passes go."""
        size = groups * n * self.beside
        return _mode("w", self._complex_scratch("p_0", size) | self._complex_scratch("p_1", size))

    def _kernel(self, name: str, text: KernelText, buffers: dict[str, Any], groups: int, of_all: float) -> None:
        flops = int(5 * self.count * self.n * math.log2(self.n) * of_all)
        moved = self.x.size * self.x.dtype.itemsize + self.out.size * self.out.dtype.itemsize
        self.target.kernel(f"fourier_{name}", str(text), buffers, groups, flops=flops, bytes=moved)


def _mode(mode: str, buffers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: (buffer, mode) for name, buffer in buffers.items()}


def _renamed(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {f"{name}_{part}": table[f"root_{part}"] for part in ("re", "im")}


def _twice(place: list[Any]) -> list[Any]:
    return [(term[0], 2 * term[1]) if isinstance(term, tuple) else (term, 2) for term in place]
