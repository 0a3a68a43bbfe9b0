"""Functions of complex numbers as formulas of their real and imaginary parts, since a GPU has no C library for them.

A formula `(k, x, y) -> (real, imaginary)` of float64 is written against the arithmetic `k` (`PlainArithmetic`);
it must not know NumPy's or LLVM's values. The inverse functions are Kahan's ("Branch cuts for complex elementary
functions", 1987), which are right on both sides of every cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Pair = tuple[Any, Any]
FAR = 20.0  # |tanh x| is 1 beyond, in float64


def exp(k: Any, x: Any, y: Any) -> Pair:
    size = k.libm("exp", x)
    return size * k.libm("cos", y), k.where(y == 0, y, size * k.libm("sin", y))


def log(k: Any, x: Any, y: Any) -> Pair:
    return k.libm("log", k.libm("hypot", x, y)), k.libm("atan2", y, x)


def sqrt(k: Any, x: Any, y: Any) -> Pair:
    size = k.sqrt((k.absolute(x) + k.libm("hypot", x, y)) * 0.5)
    other = k.where(size == 0, size, k.absolute(y) / (size * 2.0))
    return k.where(x >= 0, size, other), k.copysign(k.where(x >= 0, other, size), y)


def sinh(k: Any, x: Any, y: Any) -> Pair:
    return k.libm("sinh", x) * k.libm("cos", y), k.where(y == 0, y, k.libm("cosh", x) * k.libm("sin", y))


def cosh(k: Any, x: Any, y: Any) -> Pair:
    return k.libm("cosh", x) * k.libm("cos", y), k.libm("sinh", x) * k.libm("sin", y)


def tanh(k: Any, x: Any, y: Any) -> Pair:
    near = k.where(k.absolute(x) < FAR, x, k.copysign(k.constant(FAR, x.dtype), x))
    s, c, sine, cosine = k.libm("sinh", near), k.libm("cosh", near), k.libm("sin", y), k.libm("cos", y)
    size = s * s + cosine * cosine
    real = k.where(k.absolute(x) < FAR, s * c / size, k.copysign(k.constant(1, x.dtype), x))
    return real, sine * cosine / size


def sin(k: Any, x: Any, y: Any) -> Pair:
    return _turned(sinh, k, x, y)


def cos(k: Any, x: Any, y: Any) -> Pair:
    return cosh(k, -y, x)


def tan(k: Any, x: Any, y: Any) -> Pair:
    return _turned(tanh, k, x, y)


def asin(k: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = sqrt(k, 1.0 - x, -y), sqrt(k, 1.0 + x, y)
    return k.libm("atan2", x, a * c - b * d), k.libm("asinh", a * d - b * c)


def acos(k: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = sqrt(k, 1.0 - x, -y), sqrt(k, 1.0 + x, y)
    return k.libm("atan2", a, c) * 2.0, k.libm("asinh", c * b - d * a)


def acosh(k: Any, x: Any, y: Any) -> Pair:
    (a, b), (c, d) = sqrt(k, x - 1.0, y), sqrt(k, x + 1.0, y)
    return k.libm("asinh", a * c + b * d), k.libm("atan2", b, c) * 2.0


def atanh(k: Any, x: Any, y: Any) -> Pair:
    size = k.absolute(x)
    real = k.libm("log1p", size * 4.0 / ((1.0 - size) * (1.0 - size) + y * y)) * 0.25
    return k.copysign(real, x), k.libm("atan2", y * 2.0, (1.0 - size) * (1.0 + size) - y * y) * 0.5


def asinh(k: Any, x: Any, y: Any) -> Pair:
    return _turned(asin, k, x, y)


def atan(k: Any, x: Any, y: Any) -> Pair:
    return _turned(atanh, k, x, y)


def pow(k: Any, x: Any, y: Any, u: Any, v: Any) -> Pair:
    """(x + iy)^(u + iv), for a base that is not 0."""
    a, b = log(k, x, y)
    return exp(k, a * u - b * v, a * v + b * u)


def _turned(f: Callable[..., Pair], k: Any, x: Any, y: Any) -> Pair:
    """-i f(iz): sin from sinh, and so on."""
    real, imaginary = f(k, -y, x)
    return imaginary, -real


FUNCTIONS: dict[str, Callable[..., Pair]] = {
    f.__name__: f for f in (exp, log, sqrt, sinh, cosh, tanh, sin, cos, tan, asin, acos, acosh, atanh, asinh, atan, pow)
}
