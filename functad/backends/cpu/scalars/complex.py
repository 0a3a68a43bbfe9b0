"""Words of kernel text for complex numbers: parts, division, and the functions of the C library.

A formula is written against the arithmetic `k` (`PlainArithmetic`), which has no operators for complex numbers;
it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.backends.cpu.scalars.elementary import c128, i64
from functad.backends.cpu.scalars.exact import routine
from functad.primitives.kernels.plain_arithmetic import plain

# --- parts and division -----------------------------------------------------------------------------


@plain
def complex_of(k: Any, x: Any, y: Any) -> Any:
    """x + iy."""
    return k.make_complex(x, y)


@plain
def conjugate(k: Any, z: Any) -> Any:
    return k.make_complex(z.real, -z.imag)


@plain
def complex_divide(k: Any, z: Any, w: Any) -> Any:
    """z / w, without overflow half-way: Smith, "Algorithm 116: complex division", CACM 5 (1962), as NumPy does it."""
    return k.make_complex(*_quotient(k, z.real, z.imag, w.real, w.imag))


def _quotient(k: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
    """The parts of (a + ib) / (c + id)."""
    k, a, b, c, d = k.strictly((a, b, c, d))
    c_size, d_size = k.absolute(c), k.absolute(d)
    flat = c_size >= d_size
    ratio = k.where(flat, d, c) / k.where(flat, c, d)
    scale = 1 / (k.where(flat, c, d) + k.where(flat, d, c) * ratio)
    first, second = k.where(flat, a, b), k.where(flat, b, a)
    real = (first + second * ratio) * scale
    imaginary = k.where(flat, b - a * ratio, b * ratio - a) * scale
    is_zero = (c_size == 0) & (d_size == 0)
    return k.where(is_zero, a / c_size, real), k.where(is_zero, b / c_size, imaginary)


@plain
def complex_reciprocal(k: Any, z: Any) -> Any:
    """1 / z, as NumPy computes it."""
    k, x, y = k.strictly((z.real, z.imag))
    flat = k.absolute(y) <= k.absolute(x)
    ratio = k.where(flat, y, x) / k.where(flat, x, y)
    size = k.where(flat, x + y * ratio, x * ratio + y)
    one = k.constant(1, size.dtype)
    return k.make_complex(k.where(flat, one, ratio) / size, -(k.where(flat, ratio, one) / size))


@plain
def complex_sign(k: Any, z: Any) -> Any:
    """z / |z|, and 0 at 0."""
    size = _magnitude(k, z)
    zero = k.constant(0, size.dtype)
    real, imaginary = _quotient(k, z.real, z.imag, size, zero)
    return k.make_complex(k.where(size == 0, size, real), k.where(size == 0, zero, imaginary))


@plain
def complex_abs(k: Any, z: Any) -> Any:
    """The magnitude, without overflow half-way."""
    return _magnitude(k, z)


def _magnitude(k: Any, z: Any) -> Any:
    infinite = (k.absolute(z.real) == np.inf) | (k.absolute(z.imag) == np.inf)
    if z.real.dtype == np.float32:
        x, y = k.cast(z.real, np.float64), k.cast(z.imag, np.float64)
        size = k.cast(k.sqrt(x * x + y * y), np.float32)
    else:
        size = k.libm("hypot", z.real, z.imag)
    return k.where(infinite, k.constant(np.inf, size.dtype), size)


@plain
def complex_maximum(k: Any, z: Any, w: Any) -> Any:
    """The larger, as NumPy orders them: by the real part, then by the imaginary one; NaN if either is."""
    return _extremum(k, z, w, (z.real > w.real) | ((z.real == w.real) & (z.imag >= w.imag)))


@plain
def complex_minimum(k: Any, z: Any, w: Any) -> Any:
    """The smaller, in the same order."""
    return _extremum(k, z, w, (z.real < w.real) | ((z.real == w.real) & (z.imag <= w.imag)))


def _extremum(k: Any, z: Any, w: Any, first: Any) -> Any:
    known = (w.real == w.real) & (w.imag == w.imag)
    chosen = (first & known) | (z.real != z.real) | (z.imag != z.imag)
    return k.make_complex(k.where(chosen, z.real, w.real), k.where(chosen, z.imag, w.imag))


# --- functions --------------------------------------------------------------------------------------


def _libm(name: str) -> Callable[..., Any]:
    """The C library's function of complex128, which NumPy also calls; complex64 is converted there and back."""

    def formula(k: Any, z: Any) -> Any:
        return k.cast(k.complex_libm(name, k.cast(z, np.complex128)), z.dtype)

    formula.__name__ = f"complex_{name}"
    return plain(formula)


complex_exp = _libm("exp")
complex_log = _libm("log")
complex_sqrt = _libm("sqrt")
complex_sin = _libm("sin")
complex_cos = _libm("cos")
complex_tan = _libm("tan")
complex_asin = _libm("asin")
complex_acos = _libm("acos")
complex_atan = _libm("atan")
complex_sinh = _libm("sinh")
complex_cosh = _libm("cosh")
complex_asinh = _libm("asinh")
complex_acosh = _libm("acosh")
complex_atanh = _libm("atanh")


@plain
def complex_log1p(k: Any, z: Any) -> Any:
    """ln(1 + z), as `kernels.special.log1p` computes it."""
    x, y = k.cast(z.real, np.float64), k.cast(z.imag, np.float64)
    near = (k.absolute(x) < 0.5) & (k.absolute(y) < 0.5)
    real = k.where(near, k.libm("log1p", x * (x + 2) + y * y) * 0.5, k.libm("log", k.libm("hypot", x + 1, y)))
    return k.cast(k.make_complex(real, k.libm("atan2", y, x + 1)), z.dtype)


@plain
def complex_expm1(k: Any, z: Any) -> Any:
    """e^z − 1."""
    x, y = k.cast(z.real, np.float64), k.cast(z.imag, np.float64)
    half = k.libm("sin", y * 0.5)
    real = k.libm("expm1", x) * k.libm("cos", y) - half * half * 2 + 0.0
    imaginary = k.libm("exp", x) * k.libm("sin", y)
    # Where the angle is no number, the size still decides; and an angle of 0 is kept.
    known, far = k.absolute(y) < np.inf, k.absolute(x) == np.inf
    real = k.where(known | (x != x) | (k.absolute(x) < np.inf), real, k.where(x < 0, k.constant(-1, real.dtype), x))
    imaginary = k.where((x < 0) & far & (y - y != 0), k.constant(0, real.dtype), imaginary)
    return k.cast(k.make_complex(real, k.where(y == 0, y, imaginary)), z.dtype)


@plain
def complex_tanh(k: Any, z: Any) -> Any:
    """The C library's; but at an infinite real part the zero has the sign of the imaginary one: `special.tanh`."""
    found = k.complex_libm("tanh", k.cast(z, np.complex128))
    x, y = k.cast(z.real, np.float64), k.cast(z.imag, np.float64)
    far = (k.absolute(x) == np.inf) & (k.absolute(y) < np.inf)
    imaginary = k.where(far, k.copysign(k.constant(0, y.dtype), y), found.imag)
    return k.cast(k.make_complex(found.real, imaginary), z.dtype)


@routine
def complex_pow(x: Any, y: Any) -> Any:
    """x^y of complex128; a small integer power by products, as NumPy computes it."""
    if y.real == 0 and y.imag == 0:
        return c128(1.0)
    if x.real == 0 and x.imag == 0:
        return c128(0.0) if y.real > 0 else complex_of(_NAN, _NAN)
    if y.imag == 0 and abs(y.real) < 100 and y.real == i64(y.real):
        if y.real == 1:
            return x
        if y.real == 2:
            return _rounded_product(x, x)
        if y.real == 3:
            return _rounded_product(x, _rounded_product(x, x))
        power, squared, rest = c128(1.0), x, i64(abs(y.real))  # 1 · inf is NaN here
        while rest > 0:
            if rest & 1 == 1:
                power = _rounded_product(power, squared)
            rest = rest >> 1
            if rest > 0:
                squared = _rounded_product(squared, squared)
        return complex_divide(c128(1.0), power) if y.real < 0 else power
    return _general_pow(x, y)


@plain
def _rounded_product(k: Any, x: Any, y: Any) -> Any:
    """x · y, of which NumPy's powers round every product."""
    k, a, b, c, d = k.strictly((x.real, x.imag, y.real, y.imag))
    return k.make_complex(a * c - b * d, a * d + b * c)


_general_pow = plain(lambda k, x, y: k.complex_libm("pow", x, y), inline=True)
_NAN = np.float64(np.nan)
