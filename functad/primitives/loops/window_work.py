"""What is done with one window: reduce it, find the element it selects, move numbers from or to that element.

Knows the text for one window; nothing of the loops around it. Ties go to the first element in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.text import cast, constant_text, put_to
from functad.primitives.loops.window_loops import sum_text
from functad.records import NamedTuple


class WindowCombination(NamedTuple):
    """What is done with the elements of a window.

    identity: what no element changes.
    combine: `(accumulated, element) -> text` of the combination.
    reorder: the same where the elements may be combined in any order.
    element: `(place, tap) -> text` of the element at a place, which is element number `tap` of its window.
    """

    identity: str
    combine: Callable[[str, str], str]
    reorder: Callable[[str, str], str]
    element: Callable[[str, str], str]


class Reduce:
    """The sum, maximum or minimum of `x` over the window; padding changes nothing.

    Comparisons do not tell -0 from +0, but the sign of a maximum is negative if all signs are, that of a minimum
    if any is: signs are gathered apart.
    """

    def __init__(self, op: str, dtype: np.dtype, identity: str) -> None:
        self.op, self.dtype, self.identity = op, dtype, identity
        self.is_float_extremum = op in ("max", "min") and kind_of(dtype) == "f"
        self.relation = ">" if op == "max" else "<"

    def begin(self, text: KernelText, elements: int) -> None:
        pass

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        if self.is_float_extremum:
            self._whole_with_nans(text, offsets)
            return
        # A sum starts from 0, for the sake of windows of negative zeros.
        first = element("x", offsets[0])
        text.line(f"total = {self._combined(self.identity, first) if self.op == 'sum' else first}")
        for offset in offsets[1:]:
            text.line(f"total = {self._combined('total', element('x', offset))}")
        text.line("out[o] = total")

    def _whole_with_nans(self, text: KernelText, offsets: Sequence[int]) -> None:
        """Compare without regard to NaNs, and look for them apart: one instruction finds them in two elements."""
        for k, offset in enumerate(offsets):
            text.line(f"x{k} = {element('x', offset)}")
        text.line("total = x0")
        for k in range(1, len(offsets)):
            text.line(f"total = where(total {self.relation} x{k}, total, x{k})")
        tests = [f"(x{k} != x{k})" for k in range(len(offsets))]
        pairs = [" | ".join(tests[k : k + 2]) for k in range(0, len(tests), 2)]
        text.line(f"has_nan = {pairs[0]}", *[f"has_nan = has_nan | ({pair})" for pair in pairs[1:]])
        text.line(f"signs = {self._signs(*[f'bits(x{k})' for k in range(len(offsets))])}")
        text.line(f"out[o] = where(has_nan, {constant_text(np.nan, self.dtype)}, {self._signed('total')})")

    def start_scan(self, text: KernelText) -> None:
        text.line(f"total = {self.identity}")
        if self.is_float_extremum:
            text.line("signs = bits(total)", "any_nan = total")

    def scan(self, text: KernelText, inside: str | None) -> None:
        text.line(f"candidate = where({inside}, x[place], {self.identity})" if inside else "candidate = x[place]")
        if self.is_float_extremum:
            text.line(f"total = where(total {self.relation} candidate, total, candidate)")
            text.line("any_nan = where(candidate != candidate, candidate, any_nan)")
            text.line(f"signs = {self._signs('signs', 'bits(candidate)')}")
        else:
            text.line(f"total = {self._combined('total', 'candidate')}")

    def end_scan(self, text: KernelText) -> None:
        found = f"where(any_nan != any_nan, any_nan, {self._signed('total')})" if self.is_float_extremum else "total"
        text.line(f"out[o] = {found}")

    def _signs(self, *patterns: str) -> str:
        word = "u64" if self.dtype == np.float64 else "u32"
        return f"{word}({(' & ' if self.op == 'max' else ' | ').join(patterns)})"

    def _signed(self, total: str) -> str:
        return f"copysign({total}, from_bits_{cast(self.dtype)}(signs))"

    def _combined(self, a: str, b: str) -> str:
        return put_to("add" if self.op == "sum" else self.op, self.dtype, a, b)


class Spread:
    """Writes `ct[o]` to all elements of the window; windows share none and leave none out."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def begin(self, text: KernelText, elements: int) -> None:
        pass

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        text.line(f"value = {plus_zero('ct[o]', self.dtype)}")
        text.line(*[f"{element('out', offset)} = value" for offset in offsets])

    def start_scan(self, text: KernelText) -> None:
        text.line(f"value = {plus_zero('ct[o]', self.dtype)}")

    def scan(self, text: KernelText, inside: str | None) -> None:
        text.line("out[place] = value")

    def end_scan(self, text: KernelText) -> None:
        pass


class _Selecting:
    """Goes through a window as long as the best element so far keeps its place: `best >= candidate` (or `<=`).

    A NaN never keeps it. Padding takes part, with the value that is selected last.
    """

    def __init__(self, select_prim: str, dtype: np.dtype, padding: str) -> None:
        self.relation = ">=" if select_prim == "ge" else "<="
        self.dtype, self.padding = dtype, padding
        self.zero = constant_text(0, dtype)

    def begin(self, text: KernelText, elements: int) -> None:
        pass

    def start_scan(self, text: KernelText) -> None:
        text.line("tap = i64(0)", f"best = {self.padding}")

    def scan(self, text: KernelText, inside: str | None) -> None:
        candidate = f"where({inside}, x[place], {self.padding})" if inside else "x[place]"
        text.line(f"candidate = {candidate}", f"keep = (best {self.relation} candidate) & (tap > 0)")
        text.line("best = where(keep, best, candidate)")
        self.move(text, inside)
        text.line("tap += 1")

    def move(self, text: KernelText, inside: str | None) -> None:
        raise NotImplementedError


class Gather(_Selecting):
    """The element of `t` at the place of the selected element of `x`; 0 in padding."""

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        text.line(f"best = {element('x', offsets[0])}", f"value = {element('t', offsets[0])}")
        for offset in offsets[1:]:
            text.line(f"candidate = {element('x', offset)}", f"keep = best {self.relation} candidate")
            text.line("best = where(keep, best, candidate)", f"value = where(keep, value, {element('t', offset)})")
        text.line(f"out[o] = {plus_zero('value', self.dtype)}")

    def start_scan(self, text: KernelText) -> None:
        super().start_scan(text)
        text.line(f"value = {self.zero}")

    def move(self, text: KernelText, inside: str | None) -> None:
        element = f"where({inside}, t[place], {self.zero})" if inside else "t[place]"
        text.line(f"value = where(keep, value, {element})")

    def end_scan(self, text: KernelText) -> None:
        text.line(f"out[o] = {plus_zero('value', self.dtype)}")


class Select(_Selecting):
    """The number, within its window, of the selected element; -1 for padding."""

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        text.line(f"best = {element('x', offsets[0])}", "chosen = i32(0)")
        for tap, offset in enumerate(offsets[1:], 1):
            text.line(f"candidate = {element('x', offset)}", f"keep = best {self.relation} candidate")
            text.line("best = where(keep, best, candidate)", f"chosen = where(keep, chosen, i32({tap}))")
        text.line("selected[o] = chosen")

    def start_scan(self, text: KernelText) -> None:
        super().start_scan(text)
        text.line("chosen = i32(0)")

    def move(self, text: KernelText, inside: str | None) -> None:
        number = f"where({inside}, i32(tap), i32(-1))" if inside else "i32(tap)"
        text.line(f"chosen = where(keep, chosen, {number})")

    def end_scan(self, text: KernelText) -> None:
        text.line("selected[o] = chosen")


class Scatter(_Selecting):
    """Adds `ct[o]` to `out` at the place of the selected element of `x`.

    covered: windows share no elements and leave none out, so that each window writes all of its elements;
    otherwise zeros are written first.
    """

    def __init__(self, select_prim: str, dtype: np.dtype, padding: str, covered: bool) -> None:
        super().__init__(select_prim, dtype, padding)
        self.covered = covered

    def begin(self, text: KernelText, elements: int) -> None:
        if not self.covered:
            with text.block(f"for e in range({elements} * r, {elements} * r + {elements}):"):
                text.line(f"out[e] = {self.zero}")

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        text.line(f"best = {element('x', offsets[0])}")
        last = len(offsets) - 1
        for tap in range(1, last + 1):
            text.line(f"candidate = {element('x', offsets[tap])}", f"keep{tap} = best {self.relation} candidate")
            if tap < last:
                text.line(f"best = where(keep{tap}, best, candidate)")
        # From the last element to the first: what did not keep an earlier one takes the cotangent.
        text.line(f"left = {plus_zero('ct[o]', self.dtype)}")
        for tap in range(last, 0, -1):
            text.line(f"{element('out', offsets[tap])} = where(keep{tap}, {self.zero}, left)")
            text.line(f"left = where(keep{tap}, left, {self.zero})")
        text.line(f"{element('out', offsets[0])} = left")

    def start_scan(self, text: KernelText) -> None:
        super().start_scan(text)
        text.line("chosen = i64(0)")

    def move(self, text: KernelText, inside: str | None) -> None:
        place = f"where({inside}, place, i64(-1))" if inside else "place"
        text.line(f"chosen = where(keep, chosen, {place})")

    def end_scan(self, text: KernelText) -> None:
        with text.block("if chosen >= 0:"):
            total = "out[chosen] + ct[o]"
            text.line(f"out[chosen] = {f'{cast(self.dtype)}({total})' if kind_of(self.dtype) in 'iu' else total}")


def padding_identity(op: str, dtype: np.dtype) -> Any:
    """What padding holds: it changes no sum ("sum"), maximum ("max") or minimum ("min")."""
    if op == "sum":
        return 0
    lowest = op == "max"
    if kind_of(dtype) == "f":
        return -math.inf if lowest else math.inf
    if kind_of(dtype) == "b":
        return not lowest
    return int(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)


def element(name: str, offset: int) -> str:
    """The element of a window at an offset from its first one."""
    return f"{name}[{sum_text('w', offset)}]"


def plus_zero(value: str, dtype: np.dtype) -> str:
    """The value as what is left of it when it is added to zero: a negative zero becomes positive."""
    return f"{constant_text(0, dtype)} + {value}" if kind_of(dtype) in "fc" else value
