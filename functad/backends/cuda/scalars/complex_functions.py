"""Functions of complex numbers as formulas of their real and imaginary parts, since a GPU has no C library for them.

A formula `(k, x, y) -> (real, imaginary)` of float64 is written against the arithmetic `k` (`PlainArithmetic`);
it must not know NumPy's or LLVM's values. The inverse functions are Kahan's ("Branch cuts for complex elementary
functions", 1987), which are right on both sides of every cut. What parts that are no finite numbers give is that of the
C standard (C17, annex G.6), to which NumPy keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.primitives.kernels.scalar_formulas import is_finite

Pair = tuple[Any, Any]
FAR = 350.0  # |tanh x| is 1 beyond, in float64, and sinh² still a number
LARGE = 709.0  # the exponential of what is above overflows
LESS = 44.0  # less than the logarithm of any sine or cosine but 0, without its sign
MORE = math.exp(LESS)


def exp(k: Any, x: Any, y: Any) -> Pair:
    near, scale = _without_overflow(k, x, x > LARGE)
    size = k.libm("exp", near)
    real, imaginary = size * k.libm("cos", y) * scale, size * k.libm("sin", y) * scale
    endless = (k.absolute(x) == np.inf) & ~is_finite(k, y)
    imaginary = k.where(endless & (size == 0), k.copysign(size, y), imaginary)
    return k.where(endless, size, real), k.where(y == 0, y, imaginary)


def log(k: Any, x: Any, y: Any) -> Pair:
    size = k.libm("hypot", x, y)
    unusual = (k.absolute(size - 1) < 0.5) | (size < 1e-290) | (size > 1e300)
    return k.rarely(unusual, k.libm("log", size), _log_of_size, x, y), k.libm("atan2", y, x)


def _log_of_size(k: Any, x: Any, y: Any) -> Any:
    """ln |x + iy| where that is near 0, or where |x + iy| is nearly no float."""
    x, y = k.absolute(x), k.absolute(y)
    most, least = k.maximum(x, y), k.minimum(x, y)
    near = k.libm("log1p", (most - 1) * (most + 1) + least * least) * 0.5
    shift = k.where(most < 1, k.constant(2.0**200, x.dtype), k.constant(0.25, x.dtype))
    log_of_shift = k.where(most < 1, k.constant(200 * math.log(2), x.dtype), k.constant(-2 * math.log(2), x.dtype))
    far = k.libm("log", k.libm("hypot", x * shift, y * shift)) - log_of_shift
    return k.where((most > 0.25) & (most < 2), near, far)


def sqrt(k: Any, x: Any, y: Any) -> Pair:
    most = k.maximum(k.absolute(x), k.absolute(y))
    one, up, down = (k.constant(value, x.dtype) for value in (1.0, 2.0**300, 2.0**-300))
    root = k.where(most > 2.0**500, up, k.where(most < 2.0**-500, down, one))  # of what parts are divided by
    u, v = x / root / root, y / root / root
    size = k.sqrt((k.absolute(u) + k.libm("hypot", u, v)) * 0.5)
    other = k.where(size == 0, size, k.absolute(v) / (size * 2.0))
    real, imaginary = k.where(x >= 0, size, other) * root, k.copysign(k.where(x >= 0, other, size) * root, y)
    endless = k.absolute(y) == np.inf
    return k.where(endless, k.absolute(y), real), k.where(endless, y, imaginary)


def sinh(k: Any, x: Any, y: Any) -> Pair:
    near, scale = _without_overflow(k, x, k.absolute(x) > LARGE)
    real = k.libm("sinh", near) * k.libm("cos", y) * scale
    imaginary = k.libm("cosh", near) * k.libm("sin", y) * scale
    special = k.where(x == 0, x, k.where(k.absolute(x) == np.inf, k.absolute(x), real))
    return k.where(is_finite(k, y), real, special), k.where(y == 0, y, imaginary)


def cosh(k: Any, x: Any, y: Any) -> Pair:
    near, scale = _without_overflow(k, x, k.absolute(x) > LARGE)
    real = k.libm("cosh", near) * k.libm("cos", y) * scale
    imaginary = k.libm("sinh", near) * k.libm("sin", y) * scale
    turns = is_finite(k, y)
    imaginary = k.where(~turns & (x == 0), k.constant(0, x.dtype), imaginary)
    flat = k.where(x == x, k.copysign(k.constant(1, x.dtype), x) * y, y)
    return k.where(~turns & (k.absolute(x) == np.inf), k.absolute(x), real), k.where(y == 0, flat, imaginary)


def tanh(k: Any, x: Any, y: Any) -> Pair:
    near = k.where(k.absolute(x) > FAR, k.copysign(k.constant(FAR, x.dtype), x), x)
    s, c, sine, cosine = k.libm("sinh", near), k.libm("cosh", near), k.libm("sin", y), k.libm("cos", y)
    size = s * s + cosine * cosine
    far = (k.absolute(x) > FAR) & (is_finite(k, y) | (k.absolute(x) == np.inf))
    real = k.where(far, k.copysign(k.constant(1, x.dtype), x), s * c / size)
    endless = k.absolute(x) == np.inf
    sign = k.where(is_finite(k, y), sine * cosine, y)
    imaginary = k.where(endless, k.copysign(k.constant(0, y.dtype), sign), sine * cosine / size)
    return k.where((x == 0) & ~is_finite(k, y), x, real), k.where(y == 0, y, imaginary)


def sin(k: Any, x: Any, y: Any) -> Pair:
    return _turned(sinh, k, x, y)


def cos(k: Any, x: Any, y: Any) -> Pair:
    return cosh(k, -y, x)


def tan(k: Any, x: Any, y: Any) -> Pair:
    return _turned(tanh, k, x, y)


def asin(k: Any, x: Any, y: Any) -> Pair:
    return _turned(asinh, k, x, y)


def acos(k: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = sqrt(k, 1.0 - x, -y), sqrt(k, 1.0 + x, y)
    real, imaginary = k.libm("atan2", a, c) * 2.0, k.libm("asinh", c * b - d * a)
    endless = _is_infinite(k, x, y)
    real = k.where(endless, k.libm("atan2", k.absolute(y), x), real)
    real = k.where((x == 0) & (y != y), k.constant(math.pi / 2, x.dtype), real)
    return real, k.where(endless, k.copysign(k.constant(np.inf, y.dtype), -y), imaginary)


def acosh(k: Any, x: Any, y: Any) -> Pair:
    real, imaginary = acos(k, x, y)
    return k.absolute(imaginary), k.copysign(real, y)


def atanh(k: Any, x: Any, y: Any) -> Pair:
    size = k.absolute(x)
    real = k.libm("log1p", size * 4.0 / ((1.0 - size) * (1.0 - size) + y * y)) * 0.25
    imaginary = k.libm("atan2", y * 2.0, (1.0 - size) * (1.0 + size) - y * y) * 0.5
    zero, right = k.constant(0, x.dtype), k.constant(math.pi / 2, x.dtype)
    far = ((size > 1e150) | (k.absolute(y) > 1e150)) & (x == x) & (y == y) | _is_infinite(k, x, y)
    real = k.where(far | (x == 0), zero, real)
    return k.copysign(real, x), k.where(far & (y == y), k.copysign(right, y), imaginary)


def asinh(k: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = sqrt(k, 1.0 + y, -x), sqrt(k, 1.0 - y, x)
    real, imaginary = k.libm("asinh", a * d - b * c), k.libm("atan2", y, a * c - b * d)
    endless = _is_infinite(k, x, y)
    real = k.where(endless, k.copysign(k.constant(np.inf, x.dtype), x), real)
    imaginary = k.where(endless, k.libm("atan2", y, k.absolute(x)), imaginary)
    return real, k.where((x != x) & (y == 0), y, imaginary)


def atan(k: Any, x: Any, y: Any) -> Pair:
    return _turned(atanh, k, x, y)


def pow(k: Any, x: Any, y: Any, u: Any, v: Any) -> Pair:
    """(x + iy)^(u + iv), for a base that is not 0."""
    a, b = log(k, x, y)
    return exp(k, a * u - b * v, a * v + b * u)


def _turned(f: Callable[..., Pair], k: Any, x: Any, y: Any) -> Pair:
    """i f(-iz): sin from sinh, and so on."""
    real, imaginary = f(k, y, -x)
    return -imaginary, real


def _without_overflow(k: Any, x: Any, large: Any) -> Pair:
    """A number nearer to 0 where the exponential of x would overflow, and what to multiply its exponential by."""
    one, more = k.constant(1, x.dtype), k.constant(MORE, x.dtype)
    return k.where(large, x - k.copysign(k.constant(LESS, x.dtype), x), x), k.where(large, more, one)


def _is_infinite(k: Any, x: Any, y: Any) -> Any:
    return (k.absolute(x) == np.inf) | (k.absolute(y) == np.inf)


FUNCTIONS: dict[str, Callable[..., Pair]] = {
    f.__name__: f for f in (exp, log, sqrt, sinh, cosh, tanh, sin, cos, tan, asin, acos, acosh, atanh, asinh, atan, pow)
}
