"""Exponentials, logarithms, roots and trigonometry, element-wise.

Knows promotion and the element-wise primitives; arithmetic, comparison, rounding and parts of complex numbers have
files of their own.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    ShapeError: arguments do not broadcast.
    DTypeError: an argument is no array, or of a dtype that the function does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import finfo, kind_of
from functad.errors import DTypeError
from functad.numpy.building import binary_inexact, real_scalar, scalar, select, unary_inexact
from functad.numpy.promotion import convert, promote_args_inexact
from functad.primitives import elementwise as el

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "rad2deg",
    "radians",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
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


@compound
def logaddexp(x1: Any, x2: Any, /) -> Array:
    """log(e^x1 + e^x2) without overflow, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logaddexp(0.0, 0.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    x, y = promote_args_inexact("logaddexp", x1, x2)
    return _complex_log_add(x, y, el.exp, 1.0) if kind_of(x.dtype) == "c" else el.logaddexp(x, y)


@compound
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


@compound
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


@compound
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
