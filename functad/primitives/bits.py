"""Integers as rows of bits: shifts, counts, and the upper half of a product.

Knows no logic between two operands; that is in `logic`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.ir import Primitive, ZeroDerivative
from functad.lowering_rules import Scalar
from functad.primitives.builders import INTEGERS, binary, unary
from functad.primitives.common import integers
from functad.tracing import bind

_DISCRETE = ZeroDerivative("operands and result are integers")


def shift_left(x: Any, y: Any) -> Any:
    return bind(shift_left_p, x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    return bind(shift_right_logical_p, x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    return bind(shift_right_arithmetic_p, x, y)


def population_count(x: Any) -> Any:
    return bind(population_count_p, x)


def clz(x: Any) -> Any:
    return bind(clz_p, x)


def mulhi(x: Any, y: Any) -> Any:
    return bind(mulhi_p, x, y)


_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def _bits(x: np.ndarray) -> Any:
    """The same bits as an unsigned integer."""
    return x.view(_UNSIGNED[x.dtype.itemsize])


def _width(x: np.ndarray) -> int:
    return 8 * x.dtype.itemsize


def _shift_bits(shift: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> Any:
    """A shift that brings in zeros; counts beyond the width, negative ones among them, leave only zeros."""
    bits, count = _bits(x), _bits(y)
    if count.ndim == 0 and int(count) < _width(x):
        return shift(bits, count).view(x.dtype)
    # C leaves a shift by more than the width undefined.
    shifted = np.where(count < _width(x), shift(bits, count), bits.dtype.type(0))
    return shifted.view(x.dtype)


def _shift_right_arithmetic(x: np.ndarray, y: np.ndarray) -> Any:
    """A shift that brings in copies of the sign; counts beyond the width, or negative, leave only those."""
    signed = x.view(f"i{x.dtype.itemsize}")  # the highest bit counts as a sign in unsigned integers, too
    count = np.minimum(_bits(y), _width(x) - 1).view(signed.dtype)
    return np.right_shift(signed, count).view(x.dtype)


def _population_count(x: np.ndarray) -> Any:
    octets = np.ascontiguousarray(x).view(np.uint8).reshape((*x.shape, x.dtype.itemsize))
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=x.dtype)


def _count_leading_zeros(x: np.ndarray) -> Any:
    filled = _bits(x)
    step = 1
    while step < _width(x):  # set every bit below the highest that is set
        filled = filled | (filled >> filled.dtype.type(step))
        step *= 2
    return (_width(x) - _population_count(filled)).astype(x.dtype)


def _multiply_high(x: np.ndarray, y: np.ndarray) -> Any:
    """The upper half of the bits of x · y."""
    width = _width(x)
    if width < 64:
        wide = np.dtype(f"{kind_of(x.dtype)}8")
        return ((x.astype(wide) * y.astype(wide)) >> wide.type(width)).astype(x.dtype)
    a, b, half, low = _bits(x), _bits(y), np.uint64(32), np.uint64(2**32 - 1)
    # By halves: the products of 32 bits each, and what the lower ones carry.
    cross = (a >> half) * (b & low) + (((a & low) * (b & low)) >> half)
    other = (a & low) * (b >> half) + (cross & low)
    high = (a >> half) * (b >> half) + (cross >> half) + (other >> half)
    if kind_of(x.dtype) == "i":  # a negative number was read as one larger by 2^64
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return high.view(x.dtype)


def _shift_text(operator: str) -> Callable[..., str]:
    def text(dtype: np.dtype) -> str:
        width, unsigned = 8 * dtype.itemsize, f"u{8 * dtype.itemsize}"
        shifted = f"{unsigned}({{0}}) {operator} {unsigned}({{1}})"
        return f"where({unsigned}({{1}}) < {width}, {{T}}({shifted}), {{T}}(0))"

    return text


def _shift_right_arithmetic_text(dtype: np.dtype) -> str:
    signed, unsigned = f"i{8 * dtype.itemsize}", f"u{8 * dtype.itemsize}"
    return f"{signed}({{0}}) >> {signed}(minimum({unsigned}({{1}}), {unsigned}({8 * dtype.itemsize - 1})))"


def _multiply_high_text(dtype: np.dtype) -> str:
    width = 8 * dtype.itemsize
    if width == 64:
        return "multiply_high({0}, {1})"
    return f"({kind_of(dtype)}64({{0}}) * {kind_of(dtype)}64({{1}})) >> {kind_of(dtype)}64({width})"


def _shift(name: str, impl: Callable[..., Any], text: Callable[..., str], doc: str) -> Primitive:
    return binary(
        name,
        impl,
        jvps=_DISCRETE,
        kinds=INTEGERS,
        lower=Scalar(text),
        data=lambda: (integers(2, 3, low=-99, high=99), integers(2, 3, low=-1, high=40, seed=1)),
        doc=doc,
    )


def _count(name: str, impl: Callable[..., Any], text: str, doc: str) -> Primitive:
    data = partial(integers, 2, 3, low=-99, high=99)
    return unary(name, impl, jvp=_DISCRETE, kinds=INTEGERS, lower=Scalar(text), data=data, doc=doc)


shift_left_p = _shift(
    "shift_left", lambda x, y: _shift_bits(np.left_shift, x, y), _shift_text("<<"), "The bits moved up; zeros come in."
)
shift_right_logical_p = _shift(
    "shift_right_logical",
    lambda x, y: _shift_bits(np.right_shift, x, y),
    _shift_text(">>"),
    "The bits moved down; zeros come in.",
)
shift_right_arithmetic_p = _shift(
    "shift_right_arithmetic",
    _shift_right_arithmetic,
    _shift_right_arithmetic_text,
    "The bits moved down; copies of the sign come in.",
)
population_count_p = _count("population_count", _population_count, "popcount({0})", "The number of bits that are set.")
clz_p = _count("clz", _count_leading_zeros, "clz({0})", "The number of zeros before the highest bit that is set.")
mulhi_p = binary(
    "mulhi",
    _multiply_high,
    jvps=_DISCRETE,
    kinds=INTEGERS,
    data=lambda: (integers(2, 3, low=-(2**31), high=2**31 - 1), integers(2, 3, low=-(2**31), high=2**31 - 1, seed=1)),
    lower=Scalar(_multiply_high_text),
    doc="The upper half of the bits of x · y.",
)
