"""Calls with arguments that few give: name → (a function of a module and arrays, the arrays)."""

from __future__ import annotations

from typing import Any

import numpy as np

V = np.array([1, 5, 2, 8], np.float32)
I = np.array([1, 5, 2, 8], np.int32)  # noqa: E741
M = np.array([[1, 5, 2], [8, 3, 4]], np.float32)
A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
H = np.array([1, 2, 1], np.float16)
Z = np.array([[np.nan, 1, np.inf], [-np.inf, np.nan, 2]], np.float32)
C = np.array([1 + 2j, 3 - 4j], np.complex64)
MASK = np.array([True, False, True, False])

CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "pad, two values": (lambda m, x, c: m.pad(x, 2, constant_values=c), (V, V[:2])),
    "pad, values of axes": (lambda m, x, c: m.pad(x, ((1, 2), (0, 1)), constant_values=c), (M, M[:, :2])),
    "pad, tuple of values": (lambda m, x, c: m.pad(x, 1, constant_values=(c[0], c[1])), (M, V)),
    "pad, one value": (lambda m, x, c: m.pad(x, 1, constant_values=c), (M, V[:1])),
    "pad, ramp": (lambda m, x, c: m.pad(x, 2, "linear_ramp", end_values=c), (M, V[:2])),
    "pad, mean of some": (lambda m, x: m.pad(x, 2, "mean", stat_length=2), (V,)),
    "pad, maxima of some": (lambda m, x: m.pad(x, 2, "maximum", stat_length=((2, 3),)), (I,)),
    "pad, minima of axes": (lambda m, x: m.pad(x, 1, "minimum", stat_length=((1, 1), (2, 9))), (M,)),
    "pad, median": (lambda m, x: m.pad(x, 2, "median"), (M,)),
    "pad, median of some": (lambda m, x: m.pad(x, 2, "median", stat_length=3), (V,)),
    "pad, reflect oddly": (lambda m, x: m.pad(x, 2, "reflect", reflect_type="odd"), (M,)),
    "pad, reflect oddly again": (lambda m, x: m.pad(x, (7, 5), "reflect", reflect_type="odd"), (V,)),
    "pad, mirror oddly": (lambda m, x: m.pad(x, ((0, 3), (9, 2)), "symmetric", reflect_type="odd"), (M,)),
    "pad, one element oddly": (lambda m, x: m.pad(x, 2, "reflect", reflect_type="odd"), (V[:1],)),
    "polyint, k": (lambda m, x, k: m.polyint(x, 1, k=k), (V, V[1])),
    "polyint, ks": (lambda m, x, k: m.polyint(x, 2, k=k), (V, V[1:3])),
    "interp, period": (lambda m, x, p: m.interp(x, x[:2], x[2:], period=p), (V, np.float32(3))),
    "interp, negative period": (lambda m, x: m.interp(x, x[:2], x[2:], period=-3), (V,)),
    "average, axes": (lambda m, x, w: m.average(x, (0, 2), w), (A, A[:, 0] + 1)),
    "average, axes turned": (lambda m, x, w: m.average(x, (2, -3), w), (A, A[:, 1].T + 1)),
    "convolve, dtype": (lambda m, x, y: _wide(m, m.convolve, x, y), (H, H)),
    "correlate, dtype": (lambda m, x, y: _wide(m, m.correlate, x, y), (H, H)),
    "convolve, integers": (lambda m, x: m.convolve(x, x, **_preferred(m, "int32")), (I,)),
    "cov, one observation": (lambda m, x: m.cov(x, rowvar=False), (M[:1],)),
    "cov, two parts": (lambda m, x: m.cov(x, x, rowvar=False), (M,)),
    "corrcoef, one observation": (lambda m, x: m.corrcoef(x, rowvar=False), (M[:1],)),
    "view, complex as float": (lambda m, x: x.view(np.float32), (C,)),
    "view, float as complex": (lambda m, x: x.view(np.complex64), (V,)),
    "view, complex as integers": (lambda m, x: x.view(np.int16), (C,)),
    "view, integers as complex": (lambda m, x: x.view(np.complex64), (I,)),
    "nan_to_num, arrays": (lambda m, x, n: m.nan_to_num(x, nan=n, posinf=n + 1, neginf=n[:1]), (Z, V[:3])),
    "nonzero, fill": (lambda m, x, f: _filled(m, x, f), (MASK, np.int32(7))),
    "delete, unique": (lambda m, x, i: _deleted(m, x, i), (V, np.int32([3, -3]))),
    "delete, unique along an axis": (lambda m, x, i: _deleted(m, x, i, 1), (M, np.uint8([2, 0]))),
    "einsum, one and none": (lambda m, x, y: m.einsum("i,i->i", x, y), (V[:0], V[:1])),
    "einsum, none and one": (lambda m, x, y: m.einsum("i,i->i", x, y), (V[:1], V[:0])),
    "ldexp, far": (lambda m, x, n: m.ldexp(x, n), (V, np.uint32([2**31 + 5, 3, 2**32 - 1, 0]))),
    "ldexp, farther": (lambda m, x, n: m.ldexp(x, n), (V, np.int64([2**40, 3, -(2**40), 0]))),
    "partition, several": (lambda m, x: m.partition(x, (1, 2))[1:3], (V,)),
    "argpartition, several": (lambda m, x: m.argpartition(x, (1, -1))[m.array([1, 3])], (V,)),
    "apply_along_axis, many lines": (lambda m, x: m.apply_along_axis(lambda v: v[:2] * v[-1], 1, x), (A,)),
    "unwrap, integers": (lambda m, x: m.unwrap(x, period=4), (I,)),
    "unwrap, odd period": (lambda m, x: m.unwrap(x, period=5), (I,)),
    "unwrap, floats": (lambda m, x: m.unwrap(x, discont=3, period=5), (V,)),
}
DIFFERS_FROM_JAX = {
    "unwrap, odd period",  # JAX moves a step of half a period, rounded down, to the other side
    "ldexp, far",  # JAX converts exponents to int32
    "ldexp, farther",
    "partition, several",  # JAX takes one place
    "argpartition, several",
    "pad, ramp",  # not traced
    "view, integers as complex",  # with XLA on the CPU, subnormal numbers become 0
}


def _preferred(m: Any, dtype: str) -> dict[str, Any]:
    return {} if m is np else {"preferred_element_type": dtype}


def _wide(m: Any, function: Any, x: Any, y: Any) -> Any:
    if m is np:
        return function(x.astype(np.float32), y.astype(np.float32))
    return function(x, y, preferred_element_type="float32")


def _filled(m: Any, mask: Any, fill: Any) -> Any:
    if m is np:
        return np.int32([0, 2, fill, fill])
    return m.nonzero(mask, size=4, fill_value=fill)[0]


def _deleted(m: Any, x: Any, i: Any, axis: int = 0) -> Any:
    return m.delete(x, i, axis, **({} if m is np else {"assume_unique_indices": True}))
