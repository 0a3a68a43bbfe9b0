"""Words for the text of kernels: casts, constants, and combinations of two values, by dtype.

Knows no primitive and no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from functad.dtypes import DtypeTable, kind_of
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
    "bfloat16": "f32",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
"""The cast to each dtype, as values of it are kept in registers: floats of 16 bits as float32."""

NARROW_CASTS = {"float16": "f16", "bfloat16": "bf16"}
"""The cast that rounds to a float of 16 bits, which is kept as float32."""

AXES_OF_A_COPY = 4
"""How many axes the word `strided_copy` takes, at most."""

# By dtype, because the name of one takes NumPy long to make.
cast: Callable[[np.dtype], str] = DtypeTable(lambda dtype: CASTS[dtype.name]).__getitem__
rounding: Callable[[np.dtype], str] = DtypeTable(lambda dtype: (CASTS | NARROW_CASTS)[dtype.name]).__getitem__


def constant_text(value: complex | int | bool, dtype: np.dtype) -> str:
    """A typed constant, such as `f32(0.5)`"""
    number = converted(np.asarray(value), dtype).item()
    if kind_of(dtype) == "b":
        return str(number)
    if kind_of(dtype) == "c" and number.imag == 0:
        number = number.real
    return f"{cast(dtype)}({number!r})"


def put_to(kind: str, dtype: np.dtype, a: str, b: str) -> str:
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
