"""Functions whose results are the same to the bit wherever they are evaluated: by NumPy, and in compiled kernels.

Each is a formula of operations that IEEE 754 defines exactly, in one order, with no fused multiply-add and no library
function: there is nothing left for a compiler, a vector unit or a library to choose. It must not know primitives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.primitives.kernels import error_coefficients as table
from functad.primitives.kernels import vector_math, vector_trigonometry
from functad.primitives.kernels.plain_arithmetic import Formula, plain

_F32, _F64, _I32 = np.float32, np.float64, np.int32
_BLOCK = 8192  # elements: the temporaries of a formula stay in the second-level cache


def _strictly(formula: Formula) -> Callable[..., Any]:
    def strict(k: Any, *operands: Any) -> Any:
        return formula(*k.strictly(operands))

    strict.__name__ = f"strict_{formula.__name__.lstrip('_')}"
    return plain(strict)


def on_arrays(word: Callable[..., Any], *operands: np.ndarray) -> np.ndarray:
    """A word at each element of arrays of one shape, or of rank 0; float16 by way of float32, as in kernels."""
    dtype, shape = operands[0].dtype, np.broadcast_shapes(*(np.shape(x) for x in operands))
    working = np.dtype(_F32) if dtype == np.float16 else dtype
    flat = [np.asarray(x, working).reshape(-1) for x in operands]
    out = np.empty(math.prod(shape), working)
    for start in range(0, out.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        out[part] = word(*(x[part] if np.shape(operands[i]) else x for i, x in enumerate(flat)))
    return out.reshape(shape).astype(dtype, copy=False)


# --- the inverse error function ---------------------------------------------------------------------

_Choice = tuple[Any, ...]  # of conditions, the first that holds decides


def _erf_inv(k: Any, x: Any) -> Any:
    """The inverse of the error function: infinite at ±1, NaN beyond."""
    size = k.absolute(x)
    inside = k.copysign(_erf_inv_single(k, x) if x.dtype == _F32 else _erf_inv_double(k, x), x)
    end = k.where(size == 1, k.constant(np.inf, x.dtype), k.constant(np.nan, x.dtype))
    return k.where(size < 1, inside, k.copysign(end, x))


def _erf_inv_single(k: Any, x: Any) -> Any:
    """x + x g(w), where w = −ln(1 − x²) and g is nearly linear in w up to 5, in √w beyond (after M. Giles, 2011)."""
    e, m = vector_math.exponent_and_mantissa(k, (1 - x) * (1 + x))
    w = -vector_math.log_sum(k, m - 1, e)
    centre = w < 5
    tail = k.sqrt(w) - 3
    z, factor = k.where(centre, w - 2.5, tail), k.where(centre, w, tail)
    *slopes, (first, second) = zip(table.ERF_INV_SINGLE_CENTRE, table.ERF_INV_SINGLE_TAIL)
    slope = _chosen_polynomial(k, z, (centre,), slopes)
    return x + x * (slope * factor + _chosen(k, (centre,), (first, second), x.dtype))


def _erf_inv_double(k: Any, x: Any) -> Any:
    """M. J. Wichura's rational approximations, "Algorithm AS 241", Applied Statistics 37 (1988)."""
    size = k.absolute(x)
    root = k.sqrt(-vector_math.log(k, 0.5 * (1 - size)))
    choice = size <= 0.85, root <= 5
    z = k.where(choice[0], 0.180625 - 0.25 * (x * x), k.where(choice[1], root - 1.6, root - 5))
    above = _chosen_polynomial(k, z, choice, zip(*table.ERF_INV_NUMERATORS))
    below = _chosen_polynomial(k, z, choice, zip(*table.ERF_INV_DENOMINATORS))
    return k.where(choice[0], size, k.constant(1, _F64)) * (above / below)


def _chosen_polynomial(k: Any, z: Any, choice: _Choice, coefficients: Any) -> Any:
    """Horner's rule; for each power, the highest first, one coefficient for each condition and one for the rest."""
    total: Any = None
    for values in coefficients:
        value = _chosen(k, choice, values, z.dtype)
        total = value if total is None else total * z + value
    return total


def _chosen(k: Any, choice: _Choice, values: Sequence[float], dtype: Any) -> Any:
    result = k.constant(values[-1], dtype)
    for condition, value in reversed(list(zip(choice, values))):
        result = k.where(condition, k.constant(value, dtype), result)
    return result


# --- other functions --------------------------------------------------------------------------------

_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_SIN = tuple((-1.0) ** n / math.factorial(2 * n + 1) for n in range(9, 0, -1))
_COS = tuple((-1.0) ** n / math.factorial(2 * n) for n in range(9, 0, -1))


def _tan(k: Any, x: Any) -> Any:
    """The tangent; of float64, for |x| < 2 only."""
    if x.dtype == _F32:
        return vector_trigonometry.tan(k, x)
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
