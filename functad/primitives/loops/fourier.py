"""Kernels of Fourier transforms of one axis whose length has small prime factors: rows on all threads.

Knows the interface of a target, and passes; rows that are long are the business of `fourier_long`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.fourier_passes import Pass, Roots, butterfly, few_roots, of_half, passes, to_half
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import constant_text


def fourier_rule(target: Any, x: Any, out: Any, n: int, inverse: bool) -> None:
    """Rows of length n (that of real arrays, where x or out is one) in groups, each with room for what is between."""
    part = np.zeros(0, x.dtype).real.dtype
    rows = (out if kind_of(out.dtype) == "f" else x).size // n
    in_group = -(-rows // (machine_model.PARTS_A_THREAD * target.threads_hint))
    groups = -(-rows // in_group)
    few = few_roots(n)
    room = {name: (few, np.dtype(np.float64)) for name in ("few_re", "few_im")}
    room |= {name: (n, part) for name in ("root_re", "root_im", "re_0", "im_0", "re_1", "im_1")}
    buffers: dict[str, tuple[Any, str]] = {"x": (x, "r"), "out": (out, "w")}
    buffers |= {name: (target.scratch((groups, size), dtype), "w") for name, (size, dtype) in room.items()}
    text = KernelText()
    writer = _TransformWriter(text, n, part, kind_of(x.dtype) == "f", kind_of(out.dtype) == "f", inverse)
    with text.loop("group", "start", "stop"):
        text.line(f"base = {n} * group")
        writer.roots()
        with text.loop("r", f"{in_group} * group", f"minimum({in_group} * group + {in_group}, {rows})"):
            writer.row()
    flops, moved = int(5 * rows * n * math.log2(n)), x.size * x.dtype.itemsize + out.size * out.dtype.itemsize
    target.kernel("fourier", str(text), buffers, groups, flops=flops, bytes=moved)


class _TransformWriter:
    """Writes the text of the transform of one row. The inverse is a transform with the parts of numbers exchanged.

    n: the length. half: as a row of real numbers of even length is transformed as one of so many complex ones, or 0.
    """

    def __init__(self, text: KernelText, n: int, part: Any, of_real: bool, to_real: bool, inverse: bool) -> None:
        self.text, self.n, self.part = text, n, part
        self.of_real, self.to_real, self.inverse = of_real, to_real, inverse
        self.half = n // 2 if (of_real or to_real) and n % 2 == 0 and n > 2 else 0
        self.passes = passes(self.half or n)

    def roots(self) -> None:
        """Those of all passes, and of a row that is transformed as one of half as many numbers."""
        roots = Roots(self.text, self.n, self.part)
        roots.few("group")
        roots.of_passes("root", ["base"], self.passes, self.n // (self.half or self.n))
        if self.half:
            roots.powers("root", ["base", self.half], self.half, 1)

    # --- a row --------------------------------------------------------------------------------------

    def row(self) -> None:
        text, n, half = self.text, self.n, self.n // 2 + 1
        text.line(f"row = {half if self.to_real else n} * r", f"result = {half if self.of_real else n} * r")
        if self.to_real:
            self._of_halves() if self.half else self._whole_spectrum()
        for number, p in enumerate(self.passes):
            self._pass(number, p)
        if self.of_real:
            self._to_halves() if self.half else self._half_spectrum()

    def _half_spectrum(self) -> None:
        last = (len(self.passes) - 1) % 2
        with self.text.loop("i", self.n // 2 + 1):
            self.text.line(f"out[result + i] = complex_of(re_{last}[base + i], im_{last}[base + i])")

    def _to_halves(self) -> None:
        text, m, last = self.text, self.half, (len(self.passes) - 1) % 2
        text.line(f"x_re = re_{last}[base]", f"x_im = im_{last}[base]", f"zero = {constant_text(0.0, self.part)}")
        text.line("out[result] = complex_of(x_re + x_im, zero)", f"out[result + {m}] = complex_of(x_re - x_im, zero)")
        with text.loop("i", 1, m):
            for name in ("re", "im"):
                text.line(f"a_{name} = {name}_{last}[base + i]", f"b_{name} = {name}_{last}[base + {m} - i]")
            self._root_of_place()
            to_half(text, self.part)
            text.line("out[result + i] = complex_of(y_re, y_im)")

    def _of_halves(self) -> None:
        """The imaginary parts of the first and the last element, which are 0, are not read."""
        text, m = self.text, self.half
        text.line("x_re = x[row].real", f"x_im = x[row + {m}].real")
        text.line("re_1[base] = x_re - x_im", "im_1[base] = x_re + x_im")
        with text.loop("i", 1, m):
            text.line("one = x[row + i]", f"other = x[row + {m} - i]")
            text.line("a_re = one.real", "a_im = one.imag", "b_re = other.real", "b_im = other.imag")
            self._root_of_place()
            of_half(text)
            text.line("im_1[base + i] = y_re", "re_1[base + i] = y_im")

    def _root_of_place(self) -> None:
        self.text.line(*(f"w_{name} = root_{name}[base + {self.half} + i]" for name in ("re", "im")))

    def _whole_spectrum(self) -> None:
        """The half and its conjugate; the imaginary parts of what stands for itself are taken to be 0."""
        text, n, zero = self.text, self.n, constant_text(0.0, self.part)
        text.line(f"re_1[base] = {zero}", "im_1[base] = x[row].real")
        with text.loop("i", 1, (n + 1) // 2):
            text.line("element = x[row + i]", "re_1[base + i] = element.imag", "im_1[base + i] = element.real")
            text.line(f"re_1[base + {n} - i] = -element.imag", f"im_1[base + {n} - i] = element.real")
        if n % 2 == 0:
            text.line(f"re_1[base + {n // 2}] = {zero}", f"im_1[base + {n // 2}] = x[row + {n // 2}].real")

    def _pass(self, number: int, p: Pass) -> None:
        heads = [f"for i in range({p.rest}):"] if p.rest > 1 else []
        heads += [f"for q in range({p.stride}):"] if p.stride > 1 else []
        i, q = ("i" if p.rest > 1 else 0), ("q" if p.stride > 1 else 0)
        with self.text.block(*heads):
            butterfly(
                self.text,
                p,
                self.part,
                lambda k: self._load(number, k, [q, (i, p.stride), p.stride * p.rest * k]),
                lambda k: self._store(number, k, [q, (i, p.stride * p.radix), p.stride * k]),
                "root",
                ["base"],
            )

    def _load(self, number: int, k: int, place: Sequence[Any]) -> None:
        text = self.text
        if number or self.to_real:
            source, where = (number + 1) % 2, total("base", *place)
            text.line(f"x_re_{k} = re_{source}[{where}]", f"x_im_{k} = im_{source}[{where}]")
        elif self.half:
            where = total("row", *[(name, 2 * count) for name, count in _pairs(place)])
            text.line(f"x_re_{k} = x[{where}]", f"x_im_{k} = x[{where} + 1]")
        elif self.of_real:
            text.line(f"x_re_{k} = x[{total('row', *place)}]", f"x_im_{k} = {constant_text(0.0, self.part)}")
        else:
            text.line(f"element_{k} = x[{total('row', *place)}]")
            parts = ("imag", "real") if self.inverse else ("real", "imag")
            text.line(f"x_re_{k} = element_{k}.{parts[0]}", f"x_im_{k} = element_{k}.{parts[1]}")

    def _store(self, number: int, k: int, place: Sequence[Any]) -> None:
        text = self.text
        if number < len(self.passes) - 1 or self.of_real:
            where = total("base", *place)
            text.line(f"re_{number % 2}[{where}] = y_re_{k}", f"im_{number % 2}[{where}] = y_im_{k}")
            return
        scale, where = constant_text(1 / self.n, self.part), total("result", *place)
        if self.half:
            where = total("result", *[(name, 2 * count) for name, count in _pairs(place)])
            text.line(f"out[{where}] = y_im_{k} * {scale}", f"out[{where} + 1] = y_re_{k} * {scale}")
        elif self.to_real:
            text.line(f"out[{where}] = y_im_{k} * {scale}")
        elif self.inverse:
            text.line(f"out[{where}] = complex_of(y_im_{k} * {scale}, y_re_{k} * {scale})")
        else:
            text.line(f"out[{where}] = complex_of(y_re_{k}, y_im_{k})")


def _pairs(place: Sequence[Any]) -> list[tuple[Any, int]]:
    return [term if isinstance(term, tuple) else (term, 1) for term in place]
