"""What kernels of Fourier transforms are made of: passes over a length with small prime factors, and roots of unity.

Knows the text of kernels. Source: Stockham's autosort algorithm, in Van Loan, "Computational frameworks for the fast
Fourier transform", 1992, 1.7: each pass transforms groups of `radix` numbers, and leaves all in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import constant_text
from functad.records import NamedTuple


class Pass(NamedTuple):
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


def passes(n: int) -> list[Pass]:
    """Those of a length; all their roots together are fewer than it."""
    made, stride, roots = [], 1, 0
    for radix in radices(n) or []:
        rest = n // (radix * stride)
        made.append(Pass(radix, rest, stride, roots))
        roots += (radix - 1) * rest if rest > 1 else 0
        stride *= radix
    return made


# --- roots of unity ---------------------------------------------------------------------------------


def few_roots(n: int) -> int:
    """How many roots of order n those are that all others are products of."""
    return machine_model.FFT_ROOTS * _digits(n)


def _digits(n: int) -> int:
    """How many digits to base `FFT_ROOTS` number n things."""
    return 1 + max((k for k in range(1, 8) if machine_model.FFT_ROOTS**k < n), default=0)


def _root(k: int, n: int) -> complex:
    """e^(−2πi k/n), by an angle of at most 45 degrees, which rounding hardly changes."""
    quadrant, rest = divmod(4 * k, n)
    angle = math.pi / 2 * min(rest, n - rest) / n
    cosine, sine = math.cos(angle), math.sin(angle)
    if 2 * rest > n:
        cosine, sine = sine, cosine
    return [complex(cosine, -sine), complex(-sine, -cosine), complex(-cosine, sine), complex(sine, cosine)][quadrant]


class Roots:
    """Writes the text of powers of e^(−2πi / n), each of them a product of few: one for each digit of the exponent."""

    def __init__(self, text: KernelText, n: int, part: Any) -> None:
        self.text, self.n = text, n
        self.cast = "f32" if part == np.float32 else "f64"

    def few(self, owner: str) -> None:
        """The few, which float64 holds, in the part of `few_re` and `few_im` that belongs to an owner."""
        text, few, digits = self.text, machine_model.FFT_ROOTS, range(_digits(self.n))
        text.line(f"few = {few * len(digits)} * {owner}")
        for digit, value in itertools.product(digits, range(few)):
            root, place = _root(value * few**digit % self.n, self.n), few * digit + value
            text.line(f"few_re[few + {place}] = f64({root.real!r})", f"few_im[few + {place}] = f64({root.imag!r})")

    def powers(self, into: str, where: Sequence[Any], count: int, power: int | str, apart: int = 1) -> None:
        """So many powers of e^(−2πi · power / n), in `into_re` and `into_im` from a place on, so far apart."""
        text = self.text
        with self.text.loop("i", count):
            text.line(f"j = {power} * i")
            self.power()
            place = total(*where, ("i", apart))
            text.line(f"{into}_re[{place}] = {self.cast}(u_re)", f"{into}_im[{place}] = {self.cast}(u_im)")

    def power(self) -> None:
        """u = e^(−2πi j / n), in float64."""
        text, few = self.text, machine_model.FFT_ROOTS
        text.line(f"at = few + (j & {few - 1})", "u_re = few_re[at]", "u_im = few_im[at]")
        for digit in range(1, _digits(self.n)):
            text.line(f"at = few + {few * digit} + (j // {few**digit} & {few - 1})")
            text.line("v_re = few_re[at]", "v_im = few_im[at]", "moved = u_re * v_re - u_im * v_im")
            text.line("u_im = u_re * v_im + u_im * v_re", "u_re = moved")

    def of_passes(self, into: str, where: Sequence[Any], made: Sequence[Pass], step: int) -> None:
        """Those of all passes of a length that is n / step."""
        for p in made:
            for k in range(1, p.radix if p.rest > 1 else 1):
                self.powers(into, [*where, p.roots + (k - 1) * p.rest], p.rest, k * p.stride * step)


# --- a pass -----------------------------------------------------------------------------------------

Numbered = Callable[[int], None]


def butterfly(
    text: KernelText, p: Pass, part: Any, load: Numbered, store: Numbered, roots: str, where: Sequence[Any]
) -> None:
    """One transform of `radix` numbers, turned by the roots of its place in the pass, `roots` from `where` on.

    load: writes `x_re_k` and `x_im_k`, for one k; store: takes `y_re_k` and `y_im_k`.
    """
    for k in range(p.radix):
        load(k)
    _small_transform(text, p.radix, part)
    for k in range(p.radix):
        if k and p.rest > 1:
            place = total(*where, p.roots + (k - 1) * p.rest, "i")
            text.line(f"w_re = {roots}_re[{place}]", f"w_im = {roots}_im[{place}]")
            turn(text, k)
        store(k)


def turn(text: KernelText, k: int) -> None:
    """Multiply y_k by w."""
    text.line(f"turned = y_re_{k} * w_re - y_im_{k} * w_im")
    text.line(f"y_im_{k} = y_re_{k} * w_im + y_im_{k} * w_re", f"y_re_{k} = turned")


# --- rows of real numbers, as complex ones of half the length -----------------------------------------


def to_half(text: KernelText, part: Any) -> None:
    """y = X_k of a = Z_k and b = Z_(m − k), the spectrum of x_even + i x_odd: X = (Z + Z*) / 2 − i W (Z − Z*) / 2."""
    _sums_and_differences(text)
    half = constant_text(0.5, part)
    text.line(f"y_re = (e_re + w_re * d_im + w_im * d_re) * {half}")
    text.line(f"y_im = (e_im - w_re * d_re + w_im * d_im) * {half}")


def of_half(text: KernelText) -> None:
    """The other way: y = 2 Z_k of a = X_k and b = X_(m − k)."""
    _sums_and_differences(text)
    text.line("y_re = e_re - w_re * d_im + w_im * d_re", "y_im = e_im + w_re * d_re + w_im * d_im")


def _sums_and_differences(text: KernelText) -> None:
    text.line("e_re = a_re + b_re", "e_im = a_im - b_im", "d_re = a_re - b_re", "d_im = a_im + b_im")


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
            cosines = [f"{constant_text(math.cos(a), part)} * p_{name}_{j}" for j, a in zip(pairs, angles)]
            sines = [f"{constant_text(math.sin(a), part)} * d_{name}_{j}" for j, a in zip(pairs, angles)]
            text.line(f"c_{name} = {' + '.join([f'x_{name}_0', *cosines])}", f"s_{name} = {' + '.join(sines)}")
        text.line(f"y_re_{k} = c_re + s_im", f"y_im_{k} = c_im - s_re")
        text.line(f"y_re_{radix - k} = c_re - s_im", f"y_im_{radix - k} = c_im + s_re")
