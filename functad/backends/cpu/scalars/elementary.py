"""The intrinsics of kernel text, as plain Python functions of NumPy scalars or arrays: casts, choices, functions.

It must not import Numba; how the same intrinsics become machine code is known to `elementary_numba` alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.primitives.kernels import log_sums, powers, scalar_formulas, vector_math, vector_trigonometry
from functad.primitives.kernels.plain_arithmetic import plain
from functad.primitives.kernels.strict_math import erf_inv as erf_inv
from functad.primitives.kernels.strict_math import strict_erf as strict_erf
from functad.primitives.kernels.strict_math import strict_log as strict_log
from functad.primitives.kernels.strict_math import strict_log1p as strict_log1p
from functad.primitives.kernels.strict_math import strict_product as strict_product
from functad.primitives.kernels.strict_math import strict_tan as strict_tan

# --- casts ------------------------------------------------------------------------------------------


def _cast(name: str, dtype: type) -> Callable[..., Any]:
    def cast(k: Any, x: Any) -> Any:
        return k.cast(x, dtype)

    cast.__name__ = name
    return plain(cast, inline=True)


b1 = _cast("b1", np.bool_)
i8 = _cast("i8", np.int8)
i16 = _cast("i16", np.int16)
i32 = _cast("i32", np.int32)
i64 = _cast("i64", np.int64)
u8 = _cast("u8", np.uint8)
u16 = _cast("u16", np.uint16)
u32 = _cast("u32", np.uint32)
u64 = _cast("u64", np.uint64)
f32 = _cast("f32", np.float32)
f64 = _cast("f64", np.float64)
c64 = _cast("c64", np.complex64)
c128 = _cast("c128", np.complex128)
f16 = plain(scalar_formulas.f16)
bf16 = plain(scalar_formulas.bf16, inline=True)

from_bits_i8 = plain(lambda k, x: k.from_bits(x, np.int8), inline=True)
from_bits_i16 = plain(lambda k, x: k.from_bits(x, np.int16), inline=True)
from_bits_i32 = plain(lambda k, x: k.from_bits(x, np.int32), inline=True)
from_bits_i64 = plain(lambda k, x: k.from_bits(x, np.int64), inline=True)
from_bits_f32 = plain(lambda k, x: k.from_bits(x, np.float32), inline=True)
from_bits_f64 = plain(lambda k, x: k.from_bits(x, np.float64), inline=True)
bits = plain(lambda k, x: k.bits(x), inline=True)
bits_f16 = plain(scalar_formulas.bits_f16)
from_bits_f16 = plain(scalar_formulas.from_bits_f16)
bits_bf16 = plain(scalar_formulas.bits_bf16, inline=True)
from_bits_bf16 = plain(scalar_formulas.from_bits_bf16, inline=True)

# --- selection and sums -----------------------------------------------------------------------------

where = plain(lambda k, condition, x, y: k.where(condition, x, y), inline=True)
maximum = plain(lambda k, x, y: k.maximum(x, y), inline=True)
minimum = plain(lambda k, x, y: k.minimum(x, y), inline=True)


def accumulate(total: Any, x: Any) -> Any:
    """total + x, as one term of a sum whose terms may be added in any order."""
    with np.errstate(all="ignore"):
        return total + x


def _term(k: Any, x: Any, y: Any) -> Any:
    """x · y as a term of an accumulated sum: it may be added without being rounded first."""
    if dtypes.kind_of(x.dtype) == "c":
        return k.make_complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)
    return x * y


term = plain(_term, inline=True)

# --- rounding, signs and bits -----------------------------------------------------------------------

floor = plain(lambda k, x: k.floor(x), inline=True)
ceil = plain(lambda k, x: k.ceil(x), inline=True)
trunc = plain(lambda k, x: k.trunc(x), inline=True)
round_even = plain(lambda k, x: k.rint(x), inline=True)
abs_ = plain(lambda k, x: k.absolute(x), inline=True)
copysign = plain(lambda k, x, y: k.copysign(x, y), inline=True)
sqrt = plain(lambda k, x: k.sqrt(x), inline=True)
popcount = plain(lambda k, x: k.bit_count(x), inline=True)
clz = plain(lambda k, x: k.leading_zeros(x), inline=True)
is_nan = plain(lambda k, x: x != x, inline=True)
is_finite = plain(scalar_formulas.is_finite, inline=True)
round_away = plain(scalar_formulas.round_away)
sign = plain(scalar_formulas.sign)
nextafter = plain(scalar_formulas.nextafter)

# --- functions --------------------------------------------------------------------------------------

exp = plain(vector_math.exp)
exp2 = plain(vector_math.exp2)
expm1 = plain(vector_math.expm1)
log = plain(vector_math.log)
log2 = plain(vector_math.log2)
log10 = plain(vector_math.log10)
log1p = plain(vector_math.log1p)
logaddexp = plain(log_sums.logaddexp)
logaddexp2 = plain(log_sums.logaddexp2)
logistic = plain(vector_math.logistic)
sinh = plain(vector_math.sinh)
cosh = plain(vector_math.cosh)
tanh = plain(vector_math.tanh)
pow = plain(powers.pow)
cbrt = plain(vector_math.cbrt)
rsqrt = plain(vector_math.rsqrt)
asinh = plain(vector_math.asinh)
acosh = plain(vector_math.acosh)
atanh = plain(vector_math.atanh)
sin = plain(vector_trigonometry.sin)
cos = plain(vector_trigonometry.cos)
tan = plain(vector_trigonometry.tan)
asin = plain(vector_trigonometry.asin)
acos = plain(vector_trigonometry.acos)
atan = plain(vector_trigonometry.atan)
atan2 = plain(vector_trigonometry.atan2)
erf = plain(vector_trigonometry.erf)
erfc = plain(vector_trigonometry.erfc)
inf = math.inf
nan = math.nan
