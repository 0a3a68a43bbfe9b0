"""The words of kernel text, as plain Python functions of NumPy scalars or arrays: casts, choices, functions.

It must not import Numba; how the same words become machine code is known to `scalars_numba` alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.backends.cpu import scalar_formulas, vector_math, vector_trigonometry
from functad.primitives.kernels import extrema

Formula = Callable[..., Any]


class PlainArithmetic:
    """What a formula may do besides operators, done by NumPy. `IRArithmetic` does the same with LLVM instructions."""

    def constant(self, value: Any, dtype: Any) -> Any:
        return np.dtype(dtype).type(value)

    def cast(self, x: Any, dtype: Any) -> Any:
        """As `ndarray.astype` of arrays on x86: out of its range float → int gives the pattern of the hardware."""
        x = np.asarray(x)
        if x.dtype.kind == "f" and dtype == np.uint32:
            return scalar_formulas.float_to_unsigned(self, x[()], np.int32)  # NumPy differs between SIMD and rest
        return _scalar(x.astype(dtype))

    def bits(self, x: Any) -> Any:
        x = np.asarray(x)
        return _scalar(x.view(f"u{x.dtype.itemsize}"))

    def from_bits(self, x: Any, dtype: Any) -> Any:
        return _scalar(np.asarray(x).view(dtype))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return _scalar(np.where(condition, x, y))

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x y + z, rounded once where the machine can: formulas may rely on neither."""
        if np.asarray(x).dtype == np.float32:
            return np.float32(1) * (_double(x) * _double(y) + _double(z)).astype(np.float32)
        return x * y + z

    def product_error(self, x: Any, y: Any, product: Any) -> Any:
        """x y − product, exactly, for float64 x of at most 24 significant bits."""
        high = self.from_bits(self.bits(y) & np.uint64(0xFFFFFFFFF8000000), np.float64)
        return (x * high - product) + x * (y - high)

    def maximum(self, x: Any, y: Any) -> Any:
        return extrema.maximum(x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return extrema.minimum(x, y)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def absolute(self, x: Any) -> Any:
        return np.abs(x)

    def copysign(self, x: Any, y: Any) -> Any:
        return np.copysign(x, y)

    def floor(self, x: Any) -> Any:
        return np.floor(x)

    def ceil(self, x: Any) -> Any:
        return np.ceil(x)

    def trunc(self, x: Any) -> Any:
        return np.trunc(x)

    def rint(self, x: Any) -> Any:
        return np.rint(x)

    def quotient(self, x: Any, y: Any) -> Any:
        """x / y of integers, towards zero; y is not 0, and not −1 of a signed dtype."""
        return (x - np.fmod(x, y)) // y

    def remainder(self, x: Any, y: Any) -> Any:
        """What is left of x, of its sign, after taking y away as often as fits; integers y as for `quotient`."""
        return np.fmod(x, y)

    def bit_count(self, x: Any) -> Any:
        x = np.asarray(x)
        return _scalar(np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype))

    def leading_zeros(self, x: Any) -> Any:
        x = np.asarray(x)
        unsigned = x.view(f"u{x.dtype.itemsize}").copy()
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < 8 * x.dtype.itemsize:
                unsigned |= unsigned >> unsigned.dtype.type(shift)
        return _scalar((8 * x.dtype.itemsize - np.bitwise_count(unsigned).astype(np.int64)).astype(x.dtype))

    def half_bits(self, x: Any) -> Any:
        return _scalar(np.asarray(x).astype(np.float16).view(np.uint16))

    def from_half_bits(self, x: Any) -> Any:
        return _scalar(np.asarray(x).view(np.float16).astype(np.float32))

    def make_complex(self, real: Any, imaginary: Any) -> Any:
        real, imaginary = np.broadcast_arrays(real, imaginary)
        result = np.empty(real.shape, np.complex64 if real.dtype == np.float32 else np.complex128)
        result.real, result.imag = real, imaginary
        return _scalar(result)

    def libm(self, name: str, *args: Any) -> Any:
        """A function of the C library, of float64: for what no formula exists."""
        return _scalar(np.asarray(_LIBM[name](*args)))

    def complex_libm(self, name: str, *args: Any) -> Any:
        """A function of the C library, of complex128."""
        return _LIBM[name](*args)


def _double(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _scalar(x: np.ndarray) -> Any:
    return x[()]


def _pow(x: Any, y: Any) -> Any:
    # Of a scalar 0.5 NumPy takes the square root, which differs at −0 and −inf.
    x, y = np.broadcast_arrays(x, y)
    return _scalar(np.power(np.array(x, ndmin=1), np.array(y, ndmin=1)).reshape(x.shape))


_LIBM: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "cbrt")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh", "sin", "cos", "tan", "nextafter")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2")},
    "pow": _pow,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "sqrt": np.sqrt,
    **{name: np.vectorize(getattr(math, name), otypes=[np.float64]) for name in ("erf", "erfc")},
}

PLAIN = PlainArithmetic()


def plain(formula: Formula, *, inline: bool = False) -> Callable[..., Any]:
    """The plain function of a formula `(arithmetic, *operands) -> result`, which `scalars_numba` finds and compiles.

    inline: emit the formula's instructions at every call instead of one function for the module; for short formulas.
    """

    @functools.wraps(formula)
    def function(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return formula(PLAIN, *operands)

    del function.__wrapped__
    function.formula = formula  # type: ignore[attr-defined]
    function.inline = inline  # type: ignore[attr-defined]
    return function


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

from_bits_i8 = plain(lambda k, x: k.from_bits(x, np.int8), inline=True)
from_bits_i16 = plain(lambda k, x: k.from_bits(x, np.int16), inline=True)
from_bits_i32 = plain(lambda k, x: k.from_bits(x, np.int32), inline=True)
from_bits_i64 = plain(lambda k, x: k.from_bits(x, np.int64), inline=True)
from_bits_f32 = plain(lambda k, x: k.from_bits(x, np.float32), inline=True)
from_bits_f64 = plain(lambda k, x: k.from_bits(x, np.float64), inline=True)
bits = plain(lambda k, x: k.bits(x), inline=True)
bits_f16 = plain(scalar_formulas.bits_f16)
from_bits_f16 = plain(scalar_formulas.from_bits_f16)

# --- selection and sums -----------------------------------------------------------------------------

where = plain(lambda k, condition, x, y: k.where(condition, x, y), inline=True)
maximum = plain(lambda k, x, y: k.maximum(x, y), inline=True)
minimum = plain(lambda k, x, y: k.minimum(x, y), inline=True)


def accumulate(total: Any, x: Any) -> Any:
    """total + x, as one term of a sum whose terms may be added in any order."""
    with np.errstate(all="ignore"):
        return total + x


# --- rounding, signs and bits -----------------------------------------------------------------------

floor = plain(lambda k, x: k.floor(x), inline=True)
ceil = plain(lambda k, x: k.ceil(x), inline=True)
trunc = plain(lambda k, x: k.trunc(x), inline=True)
round_even = plain(lambda k, x: k.rint(x), inline=True)
abs_ = plain(lambda k, x: k.absolute(x), inline=True)
copysign = plain(lambda k, x, y: k.copysign(x, y), inline=True)
sqrt = plain(lambda k, x: k.sqrt(x), inline=True)
rsqrt = plain(lambda k, x: 1 / k.sqrt(x), inline=True)
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
log1p = plain(vector_math.log1p)
logaddexp = plain(vector_math.logaddexp)
logaddexp2 = plain(vector_math.logaddexp2)
logistic = plain(vector_math.logistic)
sinh = plain(vector_math.sinh)
cosh = plain(vector_math.cosh)
tanh = plain(vector_math.tanh)
pow = plain(vector_math.pow)
cbrt = plain(vector_math.cbrt)
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
