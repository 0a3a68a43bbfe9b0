"""Small windows as one slice of the padded operand for each of their elements, which are combined.

So a nest is cut into an interior and borders, where the kernel of windows asks at each element that is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import is_narrow_float, kind_of
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.primitives.bitcast import bitcast_convert_type
from functad.primitives.common import full, full_like
from functad.primitives.elementwise import add, and_, eq, ge, gt, le, lt, max, min, ne, or_, select_n
from functad.primitives.loops import window_work
from functad.primitives.structure import pad, slice_
from functad.primitives.window_geometry import dilated, window_count


def as_taps(
    op: str,
    x: Aval,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> Callable[[Any], Any] | None:
    """The function of the operand, for windows of which many are cut off; None where the kernel is faster."""
    along = [*zip(x.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)]
    counts = [window_count(*axis) for axis in along]
    holes = any(base > 1 and n > 1 for n, base in zip(x.shape, base_dilation))
    rounds = op == "sum" and is_narrow_float(x.dtype)  # after each addition; the kernel does not
    if (
        holes
        or rounds
        or not _suit(window_dimensions, window_strides)
        or _cut_off(along) < machine_model.WINDOWS_CUT_OFF
    ):
        return None

    def fun(operand: Any) -> Any:
        value = np.asarray(window_work.padding_identity(op, x.dtype), x.dtype)
        padded = pad(operand, value, [(low, high, 0) for low, high in padding])
        taps = _slices(padded, window_dimensions, counts, window_strides, window_dilation)
        if op != "sum" and kind_of(x.dtype) == "f":
            return _extremum(op, taps)
        if op == "sum":  # 0 + −0 is 0
            return reduce(add, taps, full(counts, value))
        return reduce({"max": max, "min": min}[op], taps)

    return fun


def scatter_as_taps(
    source: Aval,
    operand: Aval,
    *,
    select_prim: str,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> Callable[[Any, Any], Any] | None:
    """The function for windows that begin at every element: what each selects, then what each element is given."""
    ones = (1,) * operand.ndim
    along = [*zip(operand.shape, window_dimensions, window_strides, padding, ones, ones)]
    everywhere = all(stride == 1 for stride in window_strides)
    by_lines = operand.ndim > 0 and window_dimensions[-1] == 1  # elements side by side have windows side by side
    if is_narrow_float(operand.dtype) or not by_lines or not _suit(window_dimensions, window_strides):
        return None
    if not everywhere and _cut_off(along) < machine_model.WINDOWS_CUT_OFF:
        return None
    back = [window - 1 for window in window_dimensions]
    last = np.asarray(
        window_work.padding_identity("max" if select_prim == "ge" else "min", operand.dtype), operand.dtype
    )

    def around(ct: Any, nothing: Any) -> Any:
        before = [reach - low for reach, (low, _) in zip(back, padding)]
        ends = [
            n + reach - low - dilated(count, stride)
            for n, reach, low, count, stride in zip(operand.shape, back, before, source.shape, window_strides)
        ]
        return pad(ct, nothing, [(low, high, stride - 1) for low, high, stride in zip(before, ends, window_strides)])

    def fun(ct: Any, x: Any) -> Any:
        padded = pad(x, last, [(low, high, 0) for low, high in padding])
        taps = _slices(padded, window_dimensions, source.shape, window_strides, ones)
        best, chosen = taps[0], full(source.shape, np.int32(0))
        for number, tap in enumerate(taps[1:], 1):
            keeps = (ge if select_prim == "ge" else le)(best, tap)  # a NaN never does
            best, chosen = select_n(keeps, tap, best), select_n(keeps, full(source.shape, np.int32(number)), chosen)
        numbers = _slices(around(chosen, np.int32(-1)), window_dimensions, operand.shape, ones, ones)
        zero = np.asarray(0, operand.dtype)
        cotangents = _slices(around(ct, zero), window_dimensions, operand.shape, ones, ones)
        total = nothing = full(operand.shape, zero)
        for number, (whose, given) in enumerate(zip(reversed(numbers), reversed(cotangents))):
            total = add(total, select_n(eq(whose, full(operand.shape, np.int32(number))), nothing, given))
        return total

    return fun


def _slices(
    x: Any, windows: Sequence[int], counts: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[Any]:
    """The first element of each window, the second of each, ..."""
    reach = [(count - 1) * stride + 1 for count, stride in zip(counts, strides)]
    starts = [[k * apart for k, apart in zip(tap, dilation)] for tap in np.ndindex(*windows)]
    return [slice_(x, start, [at + r for at, r in zip(start, reach)], strides) for start in starts]


def _suit(window_dimensions: Sequence[int], window_strides: Sequence[int]) -> bool:
    """Whether windows are small, and vectors hold elements that lie side by side."""
    leaps = bool(window_strides) and window_strides[-1] > 1
    return not leaps and 1 < math.prod(window_dimensions) <= machine_model.WINDOW_WRITTEN_OUT


def _cut_off(along: Sequence[tuple[int, int, int, tuple[int, int], int, int]]) -> float:
    """The share of windows that reach beyond the operand."""
    counts = [window_count(*axis) for axis in along]
    if 0 in (*counts, *[n for n, *_ in along]):
        return 0.0
    whole = 1
    for count, (n, window, stride, (low, _), _, dilation) in zip(counts, along):
        reach = (window - 1) * dilation
        whole *= sum(low <= k * stride and k * stride + reach < low + n for k in range(count))
    return 1 - whole / math.prod(counts)


def _extremum(op: str, taps: Sequence[Any]) -> Any:
    """Of floats, as a chain of `max` or `min`, but what is rare, a NaN or a zero's sign, is looked after once."""
    beyond, signs_of = (gt, and_) if op == "max" else (lt, or_)
    word = np.dtype(f"u{aval_of(taps[0]).dtype.itemsize}")
    sign = 1 << 8 * word.itemsize - 1
    found = reduce(lambda best, tap: select_n(beyond(best, tap), tap, best), taps)
    words = [bitcast_convert_type(tap, word) for tap in taps]
    size = and_(bitcast_convert_type(found, word), full_like(words[0], sign - 1))
    signed = or_(size, and_(reduce(signs_of, words), full_like(words[0], sign)))
    has_nan = reduce(or_, [ne(tap, tap) for tap in taps])
    return select_n(has_nan, bitcast_convert_type(signed, found.dtype), full_like(found, np.nan))
