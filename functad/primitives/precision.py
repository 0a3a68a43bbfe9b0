"""Floats rounded to fewer bits, of their own dtype.

Knows no dtype that a program can have besides; conversion between those is in `common`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.dtypes import finfo, is_narrow_float
from functad.errors import ArgumentError
from functad.ir import Aval, Example
from functad.lowering_rules import Scalar
from functad.primitive_record import takes_narrow
from functad.primitives.builders import FLOATS, elementwise_aval, nary
from functad.primitives.common import normal
from functad.primitives.loops.text import rounding
from functad.tracing import bind


def reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return bind(reduce_precision_p, x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


def _reduce_precision_aval(x: Aval, *, exponent_bits: int, mantissa_bits: int) -> Aval:
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ArgumentError(
            "reduce_precision takes at least 1 bit of exponent and 0 of mantissa, but was given "
            f"exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}; float16 has 5 and 10 of them"
        )
    return elementwise_aval("reduce_precision", FLOATS, None, x)


def _reduce_precision_impl(x: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    width, own_mantissa = 8 * x.dtype.itemsize, finfo(x.dtype).nmant
    own_exponent = width - 1 - own_mantissa
    bits = np.asarray(x).view(f"u{x.dtype.itemsize}")
    word = bits.dtype.type
    if mantissa_bits < own_mantissa:
        dropped = own_mantissa - mantissa_bits
        is_odd = (bits >> word(dropped)) & word(1)
        # Just below a half, or from an odd number a whole half; a carry raises the exponent, as it should.
        bits = bits + (word(2 ** (dropped - 1) - 1) + is_odd)
        bits = (bits >> word(dropped)) << word(dropped)
    if exponent_bits < own_exponent:
        bias, reach = 2 ** (own_exponent - 1) - 1, 2 ** (exponent_bits - 1) - 1
        exponent = (bits >> word(own_mantissa)) & word(2**own_exponent - 1)
        sign = bits & word(2 ** (width - 1))
        infinite = sign | word((2**own_exponent - 1) << own_mantissa)
        bits = np.where(exponent > bias + reach, infinite, np.where(exponent <= bias - reach, sign, bits))
    return np.where(np.isnan(x), x, bits.view(x.dtype))


def _reduce_precision_text(dtype: np.dtype, *, exponent_bits: int, mantissa_bits: int) -> str:
    suffix = f"_{rounding(dtype)}" if is_narrow_float(dtype) else ""
    return f"reduce_precision{suffix}({{0}}, {exponent_bits}, {mantissa_bits})"


def _examples() -> list[Example]:
    x, all_bits = normal(2, 3), {"exponent_bits": 11, "mantissa_bits": 52}
    shown = [Example(args=(a,), params=all_bits) for a in (x, x[0, 0], x[:0])]
    for exponent_bits, mantissa_bits in [(5, 10), (8, 7)]:
        params = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
        shown.append(Example(args=(x,), params=params, differentiable=False, tolerance=2.0**-mantissa_bits))
    return shown


reduce_precision_p = nary(
    "reduce_precision",
    takes_narrow(_reduce_precision_impl),
    # dx, of as few bits as x: what a narrower dtype would give, not the derivative of a staircase
    jvps=[lambda t, out, x, **params: reduce_precision(t, **params)],
    transpose=lambda ct, x, **params: [reduce_precision(ct, **params)],
    abstract_eval=_reduce_precision_aval,
    lower=Scalar(_reduce_precision_text),
    doc="x rounded to the nearest float, halves to even, of that many bits of exponent and mantissa.",
    examples=_examples,
)
