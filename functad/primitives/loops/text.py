"""Words for the text of kernels: casts, constants, and combinations of two values, by dtype.

Knows no primitive and no compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.kernels.conversion import converted

CASTS = {
    "bool": "b1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f32",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
"""The cast to each dtype, as values of it are kept in registers: float16 as float32."""


def cast(dtype: np.dtype) -> str:
    return CASTS[dtype.name]


def rounding(dtype: np.dtype) -> str:
    """The cast that also rounds to a dtype: to float16, `f16`."""
    return "f16" if dtype == np.float16 else CASTS[dtype.name]


def constant(value: complex | int | bool, dtype: np.dtype) -> str:
    """A typed constant, such as `f32(0.5)`"""
    number = converted(np.asarray(value), dtype).item()
    if kind_of(dtype) == "b":
        return str(number)
    if kind_of(dtype) == "c" and number.imag == 0:
        number = number.real
    return f"{cast(dtype)}({number!r})"


def combined(kind: str, dtype: np.dtype, a: str, b: str) -> str:
    """The text of what replaces `a` when `b` is put to it by `kind`: set, add, mul, min, max."""
    if kind == "set":
        return b
    if kind_of(dtype) == "b":
        return f"{a} | {b}" if kind in ("add", "max") else f"{a} & {b}"
    if kind in ("min", "max"):
        return f"{'complex_' if kind_of(dtype) == 'c' else ''}{'minimum' if kind == 'min' else 'maximum'}({a}, {b})"
    if dtype == np.int64:  # Numba takes it that these do not overflow
        a, b = f"u64({a})", f"u64({b})"
    text = f"{a} {'+' if kind == 'add' else '*'} {b}"
    return f"{cast(dtype)}({text})" if kind_of(dtype) in "iu" else text


def indented(head: str, lines: Sequence[str]) -> list[str]:
    """The lines of a block: a loop or a condition, and what stands inside."""
    return [head, *(f"    {line}" for line in lines)]
