"""Functions whose results are the same to the bit wherever they are evaluated: by NumPy, and in compiled kernels.

Each is a formula of operations that IEEE 754 defines exactly, in one order, with no fused multiply-add and no library
function: there is nothing left for a compiler, a vector unit or a library to choose. It must not know primitives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype
from functad.primitives.kernels import error_coefficients as table
from functad.primitives.kernels import vector_math, vector_trigonometry
from functad.primitives.kernels.plain_arithmetic import ARRAYS, Formula, plain

_F32, _F64, _I32 = np.float32, np.float64, np.int32


def _strictly(formula: Formula) -> Callable[..., Any]:
    def strict(k: Any, *operands: Any) -> Any:
        return formula(*k.strictly(operands))

    strict.__name__ = f"strict_{formula.__name__.lstrip('_')}"
    return plain(strict)


def on_arrays(intrinsic: Callable[..., Any], *operands: np.ndarray) -> np.ndarray:
    """An intrinsic at each element of arrays of one shape, or of rank 0; narrow floats by way of float32."""
    dtype = operands[0].dtype
    working = compute_dtype(dtype)
    flat, shape = [], ()
    for x in operands:
        value = np.asarray(x, working)
        if value.shape:
            shape = value.shape
            value = value.reshape(-1)
        flat.append(value)
    size, block = math.prod(shape), machine_model.STRICT_BLOCK
    formula: Callable[..., np.ndarray] = intrinsic.formula  # type: ignore[attr-defined]
    out: np.ndarray
    if not shape:
        out = np.asarray(intrinsic(*flat))
    elif size <= block:
        out = formula(ARRAYS, *flat)
        if not out.shape or any(out is x for x in flat):  # where a formula chose a constant, or an operand, throughout
            out = np.full(size, out)
    else:
        out = np.empty(size, working)
        for start in range(0, size, block):
            part = slice(start, start + block)
            out[part] = formula(ARRAYS, *(x[part] if x.shape else x for x in flat))
    out = out.reshape(shape)
    return out if dtype is working else out.astype(dtype)


# --- the inverse error function ---------------------------------------------------------------------


def _erf_inv(k: Any, x: Any) -> Any:
    """The inverse of the error function: infinite at ±1, NaN beyond."""
    size, one = k.absolute(x), k.constant(1, x.dtype)
    inside = k.copysign(_erf_inv_single(k, x) if x.dtype == _F32 else _erf_inv_double(k, x), x)
    end = k.where(size == one, k.constant(np.inf, x.dtype), k.constant(np.nan, x.dtype))
    return k.where(size < one, inside, k.copysign(end, x))


def _erf_inv_single(k: Any, x: Any) -> Any:
    """x + x g(w), where w = −ln(1 − x²) and g is nearly linear in w up to 5, in √w beyond (after M. Giles, 2011)."""
    one, three = k.constant(1, _F32), k.constant(3, _F32)
    e, m = vector_math.exponent_and_mantissa(k, (one - x) * (one + x))
    w = -vector_math.log_sum(k, m - one, e)
    centre = w < k.constant(5, _F32)
    tail = k.sqrt(w) - three
    z, factor = k.where(centre, w - k.constant(2.5, _F32), tail), k.where(centre, w, tail)
    *slopes, last = k.either(centre, table.ERF_INV_SINGLE_CENTRE, table.ERF_INV_SINGLE_TAIL, _F32)
    return k.fma(x, k.fma(k.horner(z, slopes), factor, last), x)


def _erf_inv_double(k: Any, x: Any) -> Any:
    """A number near the result, |x| or √−ln(1 − |x|) − 3/8, plus a rational function and what the root rounds off."""
    size = k.absolute(x)
    square = -vector_math.log(k, 1 - size)
    root = k.sqrt(square)
    centre, middle = size <= 0.75, root <= table.ERF_INV_TAIL
    choice = k.first_of(centre, middle)
    offset = k.one_of(choice, (0.0, table.ERF_INV_MIDDLE, table.ERF_INV_TAIL), _F64)
    z = k.where(centre, 0.5625 - x * x, root - offset)
    above = k.horner(z, [k.one_of(choice, values, _F64) for values in zip(*table.ERF_INV_NUMERATORS)])
    below = k.horner(z, [k.one_of(choice, values, _F64) for values in zip(*table.ERF_INV_DENOMINATORS)])
    twice = root + root
    shift = k.where(centre, size * above, twice * above + _square_error(k, root, square) * below)
    return k.where(centre, size, root - 0.375) + shift / k.where(centre, below, twice * below)


def _square_error(k: Any, x: Any, square: Any) -> Any:
    """square − x², of a float64 square next to x²: the products of halves of x are exact."""
    high = k.from_bits(k.bits(x) & np.uint64(0xFFFFFFFFF8000000), _F64)
    low = x - high
    return ((square - high * high) - 2 * high * low) - low * low


# --- other functions --------------------------------------------------------------------------------

_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_SIN = tuple((-1.0) ** n / math.factorial(2 * n + 1) for n in range(9, 0, -1))
_COS = tuple((-1.0) ** n / math.factorial(2 * n) for n in range(9, 0, -1))


def _tan(k: Any, x: Any) -> Any:
    """The tangent; of float64, for |x| < 2 only."""
    if x.dtype == _F32:
        return vector_trigonometry.tan_of_any_size(k, x)
    turns = k.where(k.absolute(x) > 0.5 * _HALF_PI_HIGH, k.copysign(k.constant(1, _F64), x), k.constant(0, _F64))
    r = (x - turns * _HALF_PI_HIGH) - turns * _HALF_PI_LOW
    z = r * r
    sine = r + r * (z * vector_math.polynomial(k, z, _SIN))
    cosine = 1 + z * vector_math.polynomial(k, z, _COS)
    tangent = k.where(turns == 0, sine, -cosine) / k.where(turns == 0, cosine, sine)
    return k.where(k.absolute(x) < 2, k.where(x == 0, x, tangent), k.constant(np.nan, _F64))


def _product(k: Any, x: Any, y: Any) -> Any:
    return x * y


erf_inv = _strictly(_erf_inv)
strict_erf = _strictly(vector_trigonometry.erf)
strict_log = _strictly(vector_math.log)
strict_log1p = _strictly(vector_math.log1p)
strict_product = _strictly(_product)
strict_tan = _strictly(_tan)
