"""Exponentials, trigonometry, rounding and complex parts, element-wise.

Knows promotion and the element-wise primitives; arithmetic and comparison have their own files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.api import custom_jvp
from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, DTypeError
from functad.numpy.building import binary_inexact, filled, named, real_scalar, scalar, select, unary_inexact
from functad.numpy.promotion import asarray, constant, convert, operand, promote_args_inexact
from functad.primitives import elementwise as el

__all__ = [
    "acos",
    "acosh",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "floor",
    "hypot",
    "i0",
    "imag",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "modf",
    "nan_to_num",
    "rad2deg",
    "radians",
    "real",
    "real_if_close",
    "rint",
    "round",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]

# --- exponentials, logarithms, roots ----------------------------------------------------------------

exp = unary_inexact(
    "exp",
    """e^x, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.exp(jnp.array([0., 1.]))
    Array([1.       , 2.7182817], dtype=float32)
    """,
)
exp2 = unary_inexact(
    "exp2",
    """2^x, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """,
)
expm1 = unary_inexact(
    "expm1",
    """e^x - 1, accurate also near 0.

    >>> import functad.numpy as jnp
    >>> jnp.expm1(1e-5)
    Array(1.000005e-05, dtype=float32, weak_type=True)
    """,
)
log = unary_inexact(
    "log",
    """The natural logarithm, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.log(10.0)
    Array(2.3025851, dtype=float32, weak_type=True)
    """,
)
log1p = unary_inexact(
    "log1p",
    """log(1 + x), accurate also near 0.

    >>> import functad.numpy as jnp
    >>> jnp.log1p(1e-5)
    Array(9.99995e-06, dtype=float32, weak_type=True)
    """,
)
sqrt = unary_inexact(
    "sqrt",
    """The square root, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.sqrt(2)
    Array(1.4142135, dtype=float32, weak_type=True)
    """,
)
cbrt = unary_inexact(
    "cbrt",
    """The cube root, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.cbrt(8.0)
    Array(2., dtype=float32, weak_type=True)
    """,
)


def log2(x: Any, /) -> Array:
    """The logarithm to base 2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.log2(8.0)
    Array(3., dtype=float32)
    """
    (x,) = promote_args_inexact("log2", x)
    return _over(el.log(convert(x, x.dtype)), np.log(2)) if kind_of(x.dtype) == "c" else el.log2(convert(x, x.dtype))


def log10(x: Any, /) -> Array:
    """The logarithm to base 10, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.log10(1000.0)
    Array(3., dtype=float32)
    """
    (x,) = promote_args_inexact("log10", x)
    return _over(el.log(convert(x, x.dtype)), np.log(10)) if kind_of(x.dtype) == "c" else el.log10(convert(x, x.dtype))


def _over(x: Any, divisor: float) -> Any:
    """x over a real number; of a complex x each part, as a complex quotient makes NaN of an infinity."""
    if kind_of(x.dtype) == "c":
        return el.complex(_over(el.real(x), divisor), _over(el.imag(x), divisor))
    return el.div(x, scalar(x, divisor))


def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(e^x1 + e^x2) without overflow, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logaddexp(0.0, 0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    x, y = promote_args_inexact("logaddexp", x1, x2)
    return _complex_log_add(x, y, el.exp, 1.0) if kind_of(x.dtype) == "c" else el.logaddexp(x, y)


def logaddexp2(x1: Any, x2: Any, /) -> Array:
    """log2(2^x1 + 2^x2) without overflow, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logaddexp2(3.0, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """
    x, y = promote_args_inexact("logaddexp2", x1, x2)
    return _complex_log_add(x, y, el.exp2, float(np.log(2))) if kind_of(x.dtype) == "c" else el.logaddexp2(x, y)


def _complex_log_add(x: Any, y: Any, power: Callable[[Any], Any], unit: float) -> Any:
    larger = el.stop_gradient(el.max(el.real(x), el.real(y)))
    shift = convert(select(el.is_finite(larger), larger, scalar(larger, 0)), x.dtype, x.weak_type)
    total = el.add(power(el.sub(x, shift)), power(el.sub(y, shift)))
    return el.add(_over(el.log(total), unit), shift)


# --- trigonometry -----------------------------------------------------------------------------------

sin = unary_inexact(
    "sin",
    """The sine of x in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.sin(jnp.array([0., jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """,
)
cos = unary_inexact(
    "cos",
    """The cosine of x in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tan = unary_inexact(
    "tan",
    """The tangent of x in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.tan(1.0)
    Array(1.5574077, dtype=float32, weak_type=True)
    """,
)
arcsin = unary_inexact(
    "arcsin",
    """The inverse sine, in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arcsin(1.0)
    Array(1.5707964, dtype=float32, weak_type=True)
    """,
    "asin",
)
arccos = unary_inexact(
    "arccos",
    """The inverse cosine, in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arccos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
    "acos",
)
arctan = unary_inexact(
    "arctan",
    """The inverse tangent, in radians, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arctan(1.0)
    Array(0.7853982, dtype=float32, weak_type=True)
    """,
    "atan",
)
sinh = unary_inexact(
    "sinh",
    """The hyperbolic sine, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.sinh(1.0)
    Array(1.1752012, dtype=float32, weak_type=True)
    """,
)
cosh = unary_inexact(
    "cosh",
    """The hyperbolic cosine, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """,
)
tanh = unary_inexact(
    "tanh",
    """The hyperbolic tangent, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.tanh(0.5)
    Array(0.4621172, dtype=float32, weak_type=True)
    """,
)
arcsinh = unary_inexact(
    "arcsinh",
    """The inverse hyperbolic sine, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arcsinh(1.0)
    Array(0.8813736, dtype=float32, weak_type=True)
    """,
    "asinh",
)
arccosh = unary_inexact(
    "arccosh",
    """The inverse hyperbolic cosine, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arccosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """,
    "acosh",
)
arctanh = unary_inexact(
    "arctanh",
    """The inverse hyperbolic tangent, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.arctanh(0.5)
    Array(0.54930615, dtype=float32, weak_type=True)
    """,
    "atanh",
)
arctan2 = binary_inexact(
    "arctan2",
    """The angle of the point (x2, x1) in the plane, in radians.

    >>> import functad.numpy as jnp
    >>> jnp.arctan2(1.0, -1.0)
    Array(2.3561945, dtype=float32, weak_type=True)
    """,
    "atan2",
)
asin, acos, atan, asinh, acosh, atanh, atan2 = arcsin, arccos, arctan, arcsinh, arccosh, arctanh, arctan2


def deg2rad(x: Any, /) -> Array:
    """Degrees to radians.

    >>> import functad.numpy as jnp
    >>> jnp.deg2rad(180.0)
    Array(3.1415927, dtype=float32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.radians(180.0)
    Array(3.1415927, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("deg2rad", x)
    return el.mul(x, scalar(x, np.pi / 180))


def rad2deg(x: Any, /) -> Array:
    """Radians to degrees.

    >>> import functad.numpy as jnp
    >>> jnp.degrees(jnp.pi)
    Array(180., dtype=float32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.rad2deg(jnp.pi)
    Array(180., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("rad2deg", x)
    return el.mul(x, scalar(x, 180 / np.pi))


radians = deg2rad
degrees = rad2deg


def sinc(x: Any, /) -> Array:
    """sin(pi x) / (pi x), and 1 at 0, with all its derivatives.

    >>> import functad.numpy as jnp
    >>> jnp.sinc(0.5)
    Array(0.63661975, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("sinc", x)
    scaled = el.mul(scalar(x, np.pi), x)
    # Near 0 the series 1 - s^2/6 + s^4/120 - s^6/5040; the quotient's derivative is 0/0 there.
    small = el.lt(el.abs(scaled), real_scalar(x, 0.1))
    # Each side stays finite where the other is taken: infinity times a zero cotangent is NaN.
    safe = select(small, scalar(x, 1.0), scaled)
    squared = el.square(select(small, scaled, scalar(x, 0.0)))
    series = scalar(x, 1.0)
    for power in (42.0, 20.0, 6.0):
        series = el.sub(scalar(x, 1.0), el.mul(el.div(squared, scalar(x, power)), series))
    return select(small, series, el.div(el.sin(safe), safe))


def hypot(x1: Any, x2: Any, /) -> Array:
    """sqrt(x1^2 + x2^2) without overflow half-way, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.hypot(3.0, 4.0)
    Array(5., dtype=float32, weak_type=True)
    """
    x, y = promote_args_inexact("hypot", x1, x2)
    if kind_of(x.dtype) == "c":
        raise DTypeError("hypot takes real numbers, but was given complex ones; take abs(x) and abs(y) first")
    if dtypes.is_narrow_float(x.dtype):
        return convert(hypot(convert(x, dtypes.float32), convert(y, dtypes.float32)), x.dtype)
    x, y = el.abs(x), el.abs(y)
    larger = el.max(x, y)
    infinite = el.or_(el.eq(x, scalar(x, np.inf)), el.eq(y, scalar(x, np.inf)))
    special = el.or_(infinite, el.eq(larger, scalar(x, 0)))
    # Multiplied by a power of two, squares neither overflow, nor lose digits where they matter.
    third = 2.0 ** (finfo(x.dtype).maxexp // 3)
    below = select(el.lt(larger, scalar(x, 1 / third)), scalar(x, third**2), scalar(x, 1.0))
    scale = select(el.gt(larger, scalar(x, third)), scalar(x, third**-2), below)
    # Where the result is known, derivatives must not come from 0 times infinity.
    squares = [el.square(el.mul(select(special, scalar(x, 1), z), scale)) for z in (x, y)]
    length = el.div(el.sqrt(el.add(*squares)), scale)
    return select(special, select(infinite, scalar(x, np.inf), larger), length)


# --- modified Bessel functions ------------------------------------------------------------------------


def i0(x: Any) -> Array:
    """I0(x), the modified Bessel function of the first kind and order 0, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.i0(1.0)
    Array(1.2660658, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("i0", x)
    if kind_of(x.dtype) == "c":
        raise DTypeError(f"i0 takes real numbers, got {x.aval.str_short()}")
    return bessel_i0(x)


@custom_jvp
def bessel_i0(x: Any) -> Any:
    """I0 of a real array. With rules of its own: |x|, which it is computed from, has a kink at 0, and I0 has none."""
    return _unscaled(x, el.bessel_i0e(x))


@custom_jvp
def bessel_i1(x: Any) -> Any:
    """I1 of a real array."""
    return _unscaled(x, el.bessel_i1e(x))


@bessel_i0.defjvp
def _bessel_i0_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return bessel_i0(x), el.mul(t, bessel_i1(x))  # d I0(x) = I1(x) dx


@bessel_i1.defjvp
def _bessel_i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value, is_zero = bessel_i1(x), el.eq(x, scalar(x, 0))
    ratio = select(is_zero, scalar(x, 0.5), el.div(value, select(is_zero, scalar(x, 1), x)))
    return value, el.mul(t, el.sub(bessel_i0(x), ratio))  # d I1(x) = (I0(x) − I1(x) / x) dx


def _unscaled(x: Any, scaled: Any) -> Any:
    root = el.exp(el.mul(el.abs(x), scalar(x, 0.5)))  # e^|x| overflows before the product does
    return el.mul(el.mul(scaled, root), root)


# --- rounding ---------------------------------------------------------------------------------------


def _rounding(name: str, doc: str) -> Callable[[Any], Array]:
    apply = getattr(el, name)

    def fun(x: Any, /) -> Any:
        x = asarray(x)
        return x if kind_of(x.dtype) in "iub" else apply(x)

    return named(fun, name, doc)


floor = _rounding(
    "floor",
    """The largest integer not above x, element-wise, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """,
)
ceil = _rounding(
    "ceil",
    """The smallest integer not below x, element-wise, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.ceil(1.2)
    Array(2., dtype=float32, weak_type=True)
    """,
)


def trunc(x: Any, /) -> Array:
    """x without its fraction, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.fix(jnp.array([-1.5, 1.5]))
    Array([-1.,  1.], dtype=float32)

    >>> import functad.numpy as jnp
    >>> jnp.trunc(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    x = asarray(x)
    if kind_of(x.dtype) in "iub":
        return x
    return select(el.lt(x, scalar(x, 0)), el.ceil(x), el.floor(x))


fix = trunc


def rint(x: Any, /) -> Array:
    """The nearest integer as a float; halves go to the even one.

    >>> import functad.numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    (x,) = promote_args_inexact("rint", x)
    return _round_to_even(x)


def round(a: Any, decimals: int = 0, out: None = None) -> Array:  # noqa: A001
    """Round to a number of decimals; halves go to the even neighbour.

    >>> import functad.numpy as jnp
    >>> jnp.around(1.25, 1)
    Array(1.2, dtype=float32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.round(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    x = asarray(a)
    if kind_of(x.dtype) in "iub":
        if decimals < 0:
            raise ArgumentError(f"round: integers cannot be rounded to {decimals} decimals; convert to floats first")
        return x
    if decimals == 0:
        return _round_to_even(x)
    working = convert(x, dtypes.compute_dtype(x.dtype), x.weak_type)
    factor = scalar(working, 10.0**decimals)
    rounded = el.div(_round_to_even(el.mul(working, factor)), factor)
    return convert(rounded, x.dtype, x.weak_type)


around = round


def _round_to_even(x: Any) -> Any:
    if kind_of(x.dtype) == "c":
        return el.complex(el.round(el.real(x), 1), el.round(el.imag(x), 1))
    return el.round(x, 1)


def modf(x: Any, /) -> tuple[Any, Any]:
    """The fraction and the whole part, both with the sign of x.

    >>> import functad.numpy as jnp
    >>> jnp.modf(2.5)
    (Array(0.5, dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    (x,) = promote_args_inexact("modf", x)
    whole = trunc(x)
    return el.sub(x, whole), whole


# --- complex parts ----------------------------------------------------------------------------------


def real(val: Any, /) -> Array:
    """The real part; of a real array the array itself.

    >>> import functad.numpy as jnp
    >>> jnp.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    x = asarray(val)
    return el.real(x) if kind_of(x.dtype) == "c" else x


def real_if_close(a: Any, tol: float = 100) -> Array:
    """The real part of a complex array whose imaginary part is small everywhere, and any other array itself.

    Args:
        a: array; a complex one must have a known value, which decides the dtype of the result.
        tol: what is small: above 1 in units of the dtype's machine epsilon.

    >>> import functad.numpy as jnp
    >>> jnp.real_if_close(jnp.array([1 + 1e-7j]))
    Array([1.], dtype=float32)
    """
    x = asarray(a)
    if kind_of(x.dtype) != "c":
        return x
    rewrite = "Write functad.numpy.real(x): the dtype of a result cannot depend on values."
    size = np.abs(constant(x, "real_if_close", rewrite).imag)
    return el.real(x) if np.all(size < (tol * finfo(x.dtype).eps if tol > 1 else tol)) else x


def imag(val: Any, /) -> Array:
    """The imaginary part; of a real array zeros.

    >>> import functad.numpy as jnp
    >>> jnp.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    x = asarray(val)
    return el.imag(x) if kind_of(x.dtype) == "c" else filled(scalar(x, 0), x.shape)


def conjugate(x: Any, /) -> Array:
    """The complex conjugate; of a real array the array itself.

    >>> import functad.numpy as jnp
    >>> jnp.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.conjugate(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    x = asarray(x)
    return el.conj(x) if kind_of(x.dtype) == "c" else x


conj = conjugate


def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers in radians, or in degrees.

    >>> import functad.numpy as jnp
    >>> jnp.angle(1j, deg=True)
    Array(90., dtype=float32, weak_type=True)
    """
    (z,) = promote_args_inexact("angle", z)
    result = el.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Replace NaN by `nan`, and infinities by the largest finite numbers or what is given; of complex x in both parts.

    >>> import functad.numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0]), nan=7.0)
    Array([7., 1.], dtype=float32)
    """
    x = asarray(x)
    if kind_of(x.dtype) == "c":
        return el.complex(*(nan_to_num(part, copy, nan, posinf, neginf) for part in (el.real(x), el.imag(x))))
    if kind_of(x.dtype) != "f":
        return x
    limits = finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    fill = [convert(operand("nan_to_num", v), x.dtype) for v in (nan, high, low)]
    x = select(el.ne(x, x), fill[0], x)
    x = select(el.eq(x, scalar(x, np.inf)), fill[1], x)
    return select(el.eq(x, scalar(x, -np.inf)), fill[2], x)
