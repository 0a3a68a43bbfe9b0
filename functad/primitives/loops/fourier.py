"""Kernels of Fourier transforms of one axis whose length has small prime factors: rows on all threads.

Knows the interface of a target. Source: Stockham's autosort algorithm, in Van Loan, "Computational frameworks for the
fast Fourier transform", 1992, 1.7: each pass transforms groups of `radix` numbers, and leaves all in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import constant


def _digits(n: int) -> int:
    """How many digits to base `FFT_ROOTS` number n things."""
    return 1 + max((k for k in range(1, 8) if machine_model.FFT_ROOTS**k < n), default=0)


class _Pass(NamedTuple):
    """A pass over transforms of length `radix · rest`, `stride` of them side by side. roots: where its roots begin."""

    radix: int
    rest: int
    stride: int
    roots: int


def radices(n: int) -> list[int] | None:
    """The radices of the passes for a length; None if it has larger prime factors, or is 1."""
    found = []
    for radix in machine_model.FFT_RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return found if n == 1 and found else None


def _passes(n: int) -> list[_Pass]:
    made, stride, roots = [], 1, 0
    for radix in radices(n) or []:
        rest = n // (radix * stride)
        made.append(_Pass(radix, rest, stride, roots))
        roots += (radix - 1) * rest if rest > 1 else 0
        stride *= radix
    return made


def _root(k: int, n: int) -> complex:
    """e^(−2πi k/n), by an angle of at most 45 degrees, which rounding hardly changes."""
    quadrant, rest = divmod(4 * k, n)
    angle = math.pi / 2 * min(rest, n - rest) / n
    cosine, sine = math.cos(angle), math.sin(angle)
    if 2 * rest > n:
        cosine, sine = sine, cosine
    return [complex(cosine, -sine), complex(-sine, -cosine), complex(-cosine, sine), complex(sine, cosine)][quadrant]


def fourier_rule(target: Any, x: Any, out: Any, n: int, inverse: bool) -> None:
    """Rows of length n (that of real arrays, where x or out is one) in groups, each with room for what is between."""
    part = np.zeros(0, x.dtype).real.dtype
    rows = (out if kind_of(out.dtype) == "f" else x).size // n
    in_group = -(-rows // (machine_model.PARTS_A_THREAD * target.threads_hint))
    groups = -(-rows // in_group)
    few = machine_model.FFT_ROOTS * _digits(n)
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
        self.passes = _passes(self.half or n)

    # --- roots of unity -----------------------------------------------------------------------------

    def roots(self) -> None:
        """e^(−2πi j/N) for every pass: each a product of few, one for each digit of j, which float64 holds."""
        text, few, digits = self.text, machine_model.FFT_ROOTS, range(_digits(self.n))
        text.line(f"few = {few * len(digits)} * group")
        for digit, value in itertools.product(digits, range(few)):
            root, place = _root(value * few**digit % self.n, self.n), few * digit + value
            text.line(f"few_re[few + {place}] = f64({root.real!r})", f"few_im[few + {place}] = f64({root.imag!r})")
        step = self.n // (self.half or self.n)
        for p in self.passes:
            for k in range(1, p.radix if p.rest > 1 else 1):
                self._powers(p.roots + (k - 1) * p.rest, p.rest, k * p.stride * step)
        if self.half:
            self._powers(self.half, self.half, 1)

    def _powers(self, place: int, count: int, power: int) -> None:
        """So many powers of e^(−2πi · power / N), from a place on."""
        text, few, cast = self.text, machine_model.FFT_ROOTS, "f32" if self.part == np.float32 else "f64"
        with text.loop("i", count):
            text.line(f"j = {power} * i", f"at = few + (j & {few - 1})", "w_re = few_re[at]", "w_im = few_im[at]")
            for digit in range(1, _digits(self.n)):
                text.line(f"at = few + {few * digit} + (j // {few**digit} & {few - 1})")
                text.line("v_re = few_re[at]", "v_im = few_im[at]", "u_re = w_re * v_re - w_im * v_im")
                text.line("w_im = w_re * v_im + w_im * v_re", "w_re = u_re")
            where = total("base", place, "i")
            text.line(f"root_re[{where}] = {cast}(w_re)", f"root_im[{where}] = {cast}(w_im)")

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
        """From the spectrum Z of z = x_even + i x_odd: X = (Z + Z*) / 2 − i W (Z − Z*) / 2, Z* that from the end."""
        text, m, last = self.text, self.half, (len(self.passes) - 1) % 2
        text.line(f"x_re = re_{last}[base]", f"x_im = im_{last}[base]", f"zero = {constant(0.0, self.part)}")
        text.line("out[result] = complex_of(x_re + x_im, zero)", f"out[result + {m}] = complex_of(x_re - x_im, zero)")
        with text.loop("i", 1, m):
            for name in ("re", "im"):
                text.line(f"a_{name} = {name}_{last}[base + i]", f"b_{name} = {name}_{last}[base + {m} - i]")
            self._sums()
            text.line("y_re = e_re + w_re * d_im + w_im * d_re", "y_im = e_im - w_re * d_re + w_im * d_im")
            half = constant(0.5, self.part)
            text.line(f"out[result + i] = complex_of(y_re * {half}, y_im * {half})")

    def _of_halves(self) -> None:
        """The other way: twice Z; the imaginary parts of the first and the last element, which are 0, are not read."""
        text, m = self.text, self.half
        text.line("x_re = x[row].real", f"x_im = x[row + {m}].real")
        text.line("re_1[base] = x_re - x_im", "im_1[base] = x_re + x_im")
        with text.loop("i", 1, m):
            text.line("one = x[row + i]", f"other = x[row + {m} - i]")
            text.line("a_re = one.real", "a_im = one.imag", "b_re = other.real", "b_im = other.imag")
            self._sums()
            text.line("im_1[base + i] = e_re - w_re * d_im + w_im * d_re")
            text.line("re_1[base + i] = e_im + w_re * d_re + w_im * d_im")

    def _sums(self) -> None:
        self.text.line("e_re = a_re + b_re", "e_im = a_im - b_im", "d_re = a_re - b_re", "d_im = a_im + b_im")
        self.text.line(*(f"w_{name} = root_{name}[base + {self.half} + i]" for name in ("re", "im")))

    def _whole_spectrum(self) -> None:
        """The half and its conjugate; the imaginary parts of what stands for itself are taken to be 0."""
        text, n, zero = self.text, self.n, constant(0.0, self.part)
        text.line(f"re_1[base] = {zero}", "im_1[base] = x[row].real")
        with text.loop("i", 1, (n + 1) // 2):
            text.line("element = x[row + i]", "re_1[base + i] = element.imag", "im_1[base + i] = element.real")
            text.line(f"re_1[base + {n} - i] = -element.imag", f"im_1[base + {n} - i] = element.real")
        if n % 2 == 0:
            text.line(f"re_1[base + {n // 2}] = {zero}", f"im_1[base + {n // 2}] = x[row + {n // 2}].real")

    def _pass(self, number: int, p: _Pass) -> None:
        heads = [f"for i in range({p.rest}):"] if p.rest > 1 else []
        heads += [f"for q in range({p.stride}):"] if p.stride > 1 else []
        with self.text.block(*heads):
            i, q = ("i" if p.rest > 1 else 0), ("q" if p.stride > 1 else 0)
            for k in range(p.radix):
                self._load(number, k, [q, (i, p.stride), p.stride * p.rest * k])
            _small_transform(self.text, p.radix, self.part)
            for k in range(p.radix):
                if k and p.rest > 1:
                    place = total("base", p.roots + (k - 1) * p.rest, i)
                    self.text.line(f"w_re = root_re[{place}]", f"w_im = root_im[{place}]")
                    self.text.line(f"turned = y_re_{k} * w_re - y_im_{k} * w_im")
                    self.text.line(f"y_im_{k} = y_re_{k} * w_im + y_im_{k} * w_re", f"y_re_{k} = turned")
                self._store(number, k, [q, (i, p.stride * p.radix), p.stride * k])

    def _load(self, number: int, k: int, place: Sequence[Any]) -> None:
        text = self.text
        if number or self.to_real:
            source, where = (number + 1) % 2, total("base", *place)
            text.line(f"x_re_{k} = re_{source}[{where}]", f"x_im_{k} = im_{source}[{where}]")
        elif self.half:
            where = total("row", *[(name, 2 * count) for name, count in _pairs(place)])
            text.line(f"x_re_{k} = x[{where}]", f"x_im_{k} = x[{where} + 1]")
        elif self.of_real:
            text.line(f"x_re_{k} = x[{total('row', *place)}]", f"x_im_{k} = {constant(0.0, self.part)}")
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
        scale, where = constant(1 / self.n, self.part), total("result", *place)
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


# --- transforms of a few numbers --------------------------------------------------------------------


def _small_transform(text: KernelText, radix: int, part: Any) -> None:
    """y_0, … from x_0, …, written out."""
    if radix == 2:
        for name in ("re", "im"):
            text.line(f"y_{name}_0 = x_{name}_0 + x_{name}_1", f"y_{name}_1 = x_{name}_0 - x_{name}_1")
    elif radix == 4:
        _transform_of_4(text)
    else:
        _transform_of_odd(text, radix, part)


def _transform_of_4(text: KernelText) -> None:
    for name in ("re", "im"):
        text.line(f"even_{name} = x_{name}_0 + x_{name}_2", f"odd_{name} = x_{name}_1 + x_{name}_3")
        text.line(f"less_{name} = x_{name}_0 - x_{name}_2", f"turn_{name} = x_{name}_1 - x_{name}_3")
        text.line(f"y_{name}_0 = even_{name} + odd_{name}", f"y_{name}_2 = even_{name} - odd_{name}")
    text.line("y_re_1 = less_re + turn_im", "y_im_1 = less_im - turn_re")
    text.line("y_re_3 = less_re - turn_im", "y_im_3 = less_im + turn_re")


def _transform_of_odd(text: KernelText, radix: int, part: Any) -> None:
    """Elements that mirror one another have equal cosines and opposite sines: half of the products."""
    pairs = range(1, radix // 2 + 1)
    for name in ("re", "im"):
        for j in pairs:
            text.line(f"p_{name}_{j} = x_{name}_{j} + x_{name}_{radix - j}")
            text.line(f"d_{name}_{j} = x_{name}_{j} - x_{name}_{radix - j}")
        text.line(f"y_{name}_0 = {' + '.join([f'x_{name}_0', *(f'p_{name}_{j}' for j in pairs)])}")
    for k in pairs:
        angles = [2 * math.pi * (j * k % radix) / radix for j in pairs]
        for name in ("re", "im"):
            cosines = [f"{constant(math.cos(a), part)} * p_{name}_{j}" for j, a in zip(pairs, angles)]
            sines = [f"{constant(math.sin(a), part)} * d_{name}_{j}" for j, a in zip(pairs, angles)]
            text.line(f"c_{name} = {' + '.join([f'x_{name}_0', *cosines])}", f"s_{name} = {' + '.join(sines)}")
        text.line(f"y_re_{k} = c_re + s_im", f"y_im_{k} = c_im - s_re")
        text.line(f"y_re_{radix - k} = c_re - s_im", f"y_im_{radix - k} = c_im + s_re")
