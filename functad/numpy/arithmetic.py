"""Arithmetic, powers, division, and element-wise extrema.

Knows promotion and the element-wise primitives; shapes are joined by promotion.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    ShapeError: arguments do not broadcast.
    DTypeError: an argument is no array, or of a dtype that the function does not take.
    ArgumentError: an argument that is no array has a value that is not taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError
from functad.evaluation import aval_of
from functad.numpy import logic
from functad.numpy.building import binary_function, filled, scalar, select
from functad.numpy.promotion import (
    asarray,
    convert,
    operand,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_pair,
    promote_shapes,
)
from functad.primitives import bitcast
from functad.primitives import elementwise as el

__all__ = [
    "abs",
    "absolute",
    "add",
    "clip",
    "copysign",
    "divide",
    "divmod",
    "fabs",
    "float_power",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "heaviside",
    "lcm",
    "ldexp",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nextafter",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "remainder",
    "sign",
    "signbit",
    "spacing",
    "square",
    "subtract",
    "true_divide",
]

# --- arithmetic -------------------------------------------------------------------------------------


def add(x1: Any, x2: Any, /) -> Array:
    """x1 + x2, element-wise; of booleans, logical or.

    >>> import functad.numpy as jnp
    >>> jnp.add(jnp.arange(3), 10)
    Array([10, 11, 12], dtype=int32)
    """
    x, y = promote_pair("add", x1, x2)
    return el.or_(x, y) if kind_of(x.dtype) == "b" else el.add(x, y)


def multiply(x1: Any, x2: Any, /) -> Array:
    """x1 · x2, element-wise; of booleans, logical and.

    >>> import functad.numpy as jnp
    >>> jnp.multiply(jnp.array([1, 2]), 3)
    Array([3, 6], dtype=int32)
    """
    x, y = promote_pair("multiply", x1, x2)
    return el.and_(x, y) if kind_of(x.dtype) == "b" else el.mul(x, y)


subtract = binary_function(
    "subtract",
    """x1 - x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.subtract(jnp.arange(3), 1)
    Array([-1,  0,  1], dtype=int32)
    """,
    "sub",
)


def true_divide(x1: Any, x2: Any, /) -> Array:
    """x1 / x2, element-wise; integers are converted to floats first.

    >>> import functad.numpy as jnp
    >>> jnp.divide(jnp.array([1, 2]), 2)
    Array([0.5, 1. ], dtype=float32)

    >>> import functad.numpy as jnp
    >>> jnp.true_divide(3, 2)
    Array(1.5, dtype=float32, weak_type=True)
    """
    x, y = promote_pair("true_divide", x1, x2)
    if kind_of(x.dtype) not in "fc":
        x, y = promote_args_inexact("true_divide", x1, x2)
    return el.div(x, y)


divide = true_divide


def negative(x: Any, /) -> Array:
    """-x, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return el.neg(asarray(x))


def positive(x: Any, /) -> Array:
    """x itself.

    >>> import functad.numpy as jnp
    >>> jnp.positive(-2)
    Array(-2, dtype=int32, weak_type=True)
    """
    return asarray(x)


def absolute(x: Any, /) -> Array:
    """The absolute value (of complex numbers the modulus), element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.abs(jnp.array([-1, 2]))
    Array([1, 2], dtype=int32)

    >>> import functad.numpy as jnp
    >>> jnp.absolute(-2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x = asarray(x)
    return x if kind_of(x.dtype) in "ub" else el.abs(x)


abs = absolute  # noqa: A001


def fabs(x: Any, /) -> Array:
    """The absolute value as a float, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.fabs(-2)
    Array(2., dtype=float32, weak_type=True)
    """
    return el.abs(*promote_args_inexact("fabs", x))


def sign(x: Any, /) -> Array:
    """-1, 0 or 1 after the sign of x, element-wise; 0 for -0.0, too.

    >>> import functad.numpy as jnp
    >>> jnp.sign(jnp.array([-3.0, 0.0, 2.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    x = asarray(x)
    result = el.sign(x)
    return select(el.eq(x, scalar(x, 0)), scalar(x, 0), result) if kind_of(x.dtype) == "f" else result


def signbit(x: Any, /) -> Array:
    """Whether the sign bit is set, so also for -0.0.

    >>> import functad.numpy as jnp
    >>> jnp.signbit(jnp.array([-0.0, 0.0]))
    Array([ True, False], dtype=bool)
    """
    x = asarray(x)
    if kind_of(x.dtype) in "ub":
        return filled(np.bool_(False), x.shape)
    if kind_of(x.dtype) != "f":  # complex numbers are refused as by all comparisons
        return el.lt(x, scalar(x, 0))
    bits = bitcast.bitcast_convert_type(x, np.dtype(f"i{x.dtype.itemsize}"))  # NaN and -0.0 have a sign bit, too
    return el.lt(bits, scalar(bits, 0))


def copysign(x1: Any, x2: Any, /) -> Array:
    """x1 with the sign of x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.copysign(2.0, -0.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    x, y = promote_args_inexact("copysign", x1, x2)
    magnitude = el.abs(x)
    return select(signbit(y), el.neg(magnitude), magnitude)


def square(x: Any, /) -> Array:
    """x², element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.square(3)
    Array(9, dtype=int32, weak_type=True)
    """
    x = asarray(x)
    return el.square(convert(x, dtypes.default_int_dtype()) if kind_of(x.dtype) == "b" else x)


def reciprocal(x: Any, /) -> Array:
    """1 / x, element-wise; integers are converted to floats first.

    >>> import functad.numpy as jnp
    >>> jnp.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("reciprocal", x)
    return el.integer_pow(x, -1)


def floor_divide(x1: Any, x2: Any, /) -> Array:
    """The largest integer not above x1 / x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    x, y = promote_args_numeric("floor_divide", x1, x2)
    kind = kind_of(x.dtype)
    if kind == "u":
        return el.div(x, y)
    if kind == "i":
        quotient = el.div(x, y)
        inexact = el.and_(el.ne(el.sign(x), el.sign(y)), el.ne(el.rem(x, y), scalar(x, 0)))
        return select(inexact, el.sub(quotient, scalar(x, 1)), quotient)
    return _float_divmod(x, y)[0]


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    remainder = el.rem(x, y)
    whole = el.div(select(el.eq(y, scalar(y, 0)), x, el.sub(x, remainder)), y)
    wrong_side = el.and_(el.ne(remainder, scalar(x, 0)), el.ne(el.sign(y), el.sign(remainder)))
    remainder = select(wrong_side, el.add(remainder, y), remainder)
    whole = select(wrong_side, el.sub(whole, scalar(x, 1)), whole)
    zero = el.mul(el.div(x, y), scalar(x, 0))  # with the sign of the quotient
    return el.round(select(el.eq(whole, scalar(x, 0)), zero, whole), 0), _zero_signed_as(y, remainder)


def _zero_signed_as(y: Any, remainder: Any) -> Any:
    """A remainder of y, where it is a zero with the sign of y; the slopes of both choices are 1."""
    zero = scalar(y, 0)
    return select(el.lt(y, zero), el.neg(el.sub(zero, remainder)), el.add(remainder, zero))


def remainder(x1: Any, x2: Any, /) -> Array:
    """The rest of the floor division, with the sign of x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.mod(-7, 3)
    Array(2, dtype=int32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.remainder(-7, 3)
    Array(2, dtype=int32, weak_type=True)
    """
    x, y = promote_args_numeric("remainder", x1, x2)
    zero = scalar(x, 0)
    y = _no_zero(y)
    truncated = el.rem(x, y)
    if kind_of(x.dtype) == "u":
        return truncated
    opposite = el.ne(el.lt(truncated, zero), el.lt(y, zero))
    result = select(el.and_(opposite, el.ne(truncated, zero)), el.add(truncated, y), truncated)
    return _zero_signed_as(y, result) if kind_of(x.dtype) == "f" else result


mod = remainder


def fmod(x1: Any, x2: Any, /) -> Array:
    """The rest of the truncated division, with the sign of x1, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.fmod(-7.0, 3.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    x, y = promote_args_numeric("fmod", x1, x2)
    return el.rem(x, _no_zero(y))


def _no_zero(divisor: Any) -> Any:
    """An integer divisor with 1 instead of 0, so that the remainder of a division by zero is 0."""
    if kind_of(divisor.dtype) not in "iu" or (type(divisor) is ArrayImpl and np.all(divisor._value)):
        return divisor
    return select(el.eq(divisor, scalar(divisor, 0)), scalar(divisor, 1), divisor)


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:  # noqa: A001
    """`(x1 // x2, x1 % x2)`, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.divmod(7, jnp.array([2, -2]))
    (Array([ 3, -4], dtype=int32), Array([ 1, -1], dtype=int32))
    """
    x, y = promote_args_numeric("divmod", x1, x2)
    if kind_of(x.dtype) == "f":
        return _float_divmod(x, y)
    return floor_divide(x, y), remainder(x, y)


def power(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2, element-wise.

    An exponent that is one known integer gives repeated multiplication, exact for integers and differentiable
    at 0. Integers to a negative power raise.

    >>> import functad.numpy as jnp
    >>> jnp.power(jnp.array([1., 2., 3.]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    x2 = dtypes.adaptable(x2)
    exponent = _static_exponent(x2)
    if exponent is not None:
        return _static_power(x1, x2, exponent)
    x, y = operand("power", x1), operand("power", x2)
    x_kind, y_kind = kind_of(dtypes.dtype_of(x)[0]), kind_of(dtypes.dtype_of(y)[0])
    if x_kind in "iub" and y_kind in "iub":
        base, rest = promote_args_numeric("power", x, y)
        if kind_of(base.dtype) in "iu":
            return _integer_array_power(base, rest)
        # No integer dtype holds those of uint64 and negative ones: floats that adapt.
        return convert(el.pow(*promote_shapes("power", base, asarray(y))), base.dtype, base.weak_type)
    if y_kind in "iub":
        # The exponent stays an integer, so that the derivative at a base of 0 is right.
        x, y = asarray(x), asarray(y)
        if y_kind == "b":
            y = convert(y, dtypes.default_int_dtype())
        x = convert(x, x.dtype, x.weak_type and y.weak_type)
        x, y = promote_shapes("power", x, y)
        return el.pow(x, y)
    x, y = promote_args_inexact("power", x, y)
    return el.pow(x, y)


pow = power  # noqa: A001


def _static_exponent(x: Any) -> int | None:
    """The exponent, where it is one integer whose value is known."""
    if type(x) is int:
        return x
    if isinstance(x, np.integer) or (isinstance(x, (ArrayImpl, np.ndarray)) and x.shape == ()):
        value = np.asarray(x)
        return int(value) if kind_of(value.dtype) in "iu" else None
    return None


def _static_power(x: Any, given: Any, exponent: int) -> Any:
    x = operand("power", x)
    if type(given) is int:
        dtype, weak = dtypes.dtype_of(x)
        if kind_of(dtype) == "b":
            dtype = dtypes.default_int_dtype()
        x = convert(x, dtype, weak) if isinstance(x, Array) else ArrayImpl(np.asarray(x, dtype), weak)
    else:
        x, _ = _promote_dtypes_keeping_floats(x, given)
    if exponent < 0 and kind_of(x.dtype) in "iu":
        raise ArgumentError(
            f"power: integers cannot be raised to the negative power {exponent}; "
            "convert the base to floats first, for example x.astype('float32')"
        )
    return el.integer_pow(x, exponent)


def _promote_dtypes_keeping_floats(x: Any, y: Any) -> tuple[Any, Any]:
    """Join the dtypes of a base and an integer exponent; a float base keeps its own."""
    dtype, weak = dtypes.lattice_join(dtypes.dtype_of(x), dtypes.dtype_of(y))
    return convert(x, dtype, weak), y


def _integer_array_power(x: Any, y: Any) -> Any:
    """Binary exponentiation with as many steps as the exponent has bits; negative exponents give 0 or ±1."""
    one, zero = scalar(x, 1), scalar(x, 0)
    result = el.add(el.mul(x, zero), one) if x.shape else one
    base, rest = x, y
    for _ in range(min(x.dtype.itemsize * 8, 63)):
        odd = el.ne(el.and_(rest, one), zero)
        result = select(odd, el.mul(result, base), result)
        base = el.mul(base, base)
        rest = el.shift_right_logical(rest, one)
    return result


def float_power(x1: Any, x2: Any, /) -> Array:
    """x1 to the power of x2 in floats, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.float_power(2, 3)
    Array(8., dtype=float32, weak_type=True)
    """
    return el.pow(*promote_args_inexact("float_power", x1, x2))


def gcd(x1: Any, x2: Any, /) -> Array:
    """The greatest common divisor of integers, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.gcd(12, jnp.array([8, 9]))
    Array([4, 3], dtype=int32)
    """
    x, y = _integers("gcd", x1, x2)
    x, y = _absolute_integer(x), _absolute_integer(y)
    # Euclid's worst case is two consecutive Fibonacci numbers: about 1.44 steps a bit.
    for _ in range(int(x.dtype.itemsize * 8 * 1.45)):
        done = el.eq(y, scalar(y, 0))
        x, y = select(done, x, y), select(done, y, el.rem(x, select(done, scalar(y, 1), y)))
    return x


def lcm(x1: Any, x2: Any, /) -> Array:
    """The least common multiple of integers, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.lcm(4, jnp.array([6, 10]))
    Array([12, 20], dtype=int32)
    """
    x, y = _integers("lcm", x1, x2)
    x, y = _absolute_integer(x), _absolute_integer(y)
    divisor = gcd(x, y)
    nothing = el.eq(divisor, scalar(x, 0))
    safe = select(nothing, scalar(x, 1), divisor)
    return select(nothing, scalar(x, 0), el.mul(x, el.div(y, safe)))


def _integers(name: str, x1: Any, x2: Any) -> list[Any]:
    x, y = promote_args(name, x1, x2)
    if kind_of(aval_of(x).dtype) not in "iu":
        raise ArgumentError(f"{name} takes integers, but was given {aval_of(x).str_short()}")
    return [asarray(x), asarray(y)]


def _absolute_integer(x: Any) -> Any:
    return x if kind_of(x.dtype) == "u" else el.abs(x)


def ldexp(x1: Any, x2: Any, /) -> Array:
    """x1 · 2^x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.ldexp(3.0, 2)
    Array(12., dtype=float32)
    """
    (x,) = promote_args_inexact("ldexp", x1)
    y = asarray(x2)
    if kind_of(y.dtype) not in "biu" or kind_of(x.dtype) == "c":
        raise DTypeError(
            f"ldexp takes real numbers and integer exponents, but was given {x.dtype.name} and {y.dtype.name}; "
            "write x * 2.0**y"
        )
    # In three steps, as 2^x2 alone may be too large, or too small, where the result is not. The last is as large as a
    # power can be, so that the others make no number subnormal whose result is not 0.
    most = dtypes.finfo(x.dtype).maxexp - 2
    left = convert(y, dtypes.int32) if kind_of(y.dtype) == "b" else el.wide_indices(y, 3 * most)
    parts = []
    for _ in range(3):
        part = el.max(el.min(left, scalar(left, most)), scalar(left, -most))
        left = el.sub(left, part)
        parts.append(convert(part, x.dtype))
    x, last, second, first = promote_shapes("ldexp", x, *parts)
    return el.mul(el.mul(el.mul(x, el.exp2(first)), el.exp2(second)), el.exp2(last))


def heaviside(x1: Any, x2: Any, /) -> Array:
    """0 where x1 is negative, 1 where it is positive, x2 where it is 0.

    >>> import functad.numpy as jnp
    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 1.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = promote_args_inexact("heaviside", x1, x2)
    zero, one = scalar(x, 0), scalar(x, 1)
    step = select(el.lt(x, zero), zero, select(el.gt(x, zero), one, y))
    return select(el.ne(x, x), x, step)


def nextafter(x1: Any, x2: Any, /) -> Array:
    """The next float after x1 towards x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.nextafter(0.0, 1.0) > 0
    Array(True, dtype=bool)
    """
    return el.nextafter(*promote_args_inexact("nextafter", x1, x2))


def spacing(x: Any, /) -> Array:
    """The distance from x to the next float away from 0, negative for negative x; of float16 to the next larger one.

    >>> import functad.numpy as jnp
    >>> jnp.spacing(1.0)
    Array(1.1920929e-07, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("spacing", x)
    upwards = scalar(x, np.inf)
    if aval_of(x).dtype == np.float16:  # as in NumPy
        x = select(el.eq(x, el.neg(upwards)), upwards, x)
        return el.sub(el.nextafter(x, upwards), x)
    return el.sub(el.nextafter(x, select(el.lt(x, scalar(x, 0)), el.neg(upwards), upwards)), x)


# --- extrema ----------------------------------------------------------------------------------------


def maximum(x1: Any, x2: Any, /) -> Array:
    """The larger of x1 and x2, element-wise; NaN if either is. Complex numbers compare by their real part first.

    >>> import functad.numpy as jnp
    >>> jnp.maximum(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """
    return el.max(*promote_pair("maximum", x1, x2))


def minimum(x1: Any, x2: Any, /) -> Array:
    """The smaller of x1 and x2, element-wise; NaN if either is. Complex numbers compare by their real part first.

    >>> import functad.numpy as jnp
    >>> jnp.minimum(jnp.array([1, 5]), 3)
    Array([1, 3], dtype=int32)
    """
    return el.min(*promote_pair("minimum", x1, x2))


def fmax(x1: Any, x2: Any, /) -> Array:
    """The larger of x1 and x2, element-wise; a NaN loses.

    >>> import functad.numpy as jnp
    >>> jnp.fmax(jnp.nan, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, y = promote_args("fmax", x1, x2)
    larger = logic.greater if kind_of(x.dtype) == "c" else el.gt
    return select(el.or_(larger(x, y), el.ne(y, y)), x, y)


def fmin(x1: Any, x2: Any, /) -> Array:
    """The smaller of x1 and x2, element-wise; a NaN loses.

    >>> import functad.numpy as jnp
    >>> jnp.fmin(jnp.nan, 2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    x, y = promote_args("fmin", x1, x2)
    smaller = logic.less if kind_of(x.dtype) == "c" else el.lt
    return select(el.or_(smaller(x, y), el.ne(y, y)), x, y)


@compound
def clip(arr: Any, /, min: Any = None, max: Any = None) -> Array:  # noqa: A002
    """Values below `min` become `min`, values above `max` become `max`.

    Raises:
        ArgumentError: one of the three is complex, and has no order.

    >>> import functad.numpy as jnp
    >>> jnp.clip(jnp.array([-1., 0.5, 2.]), 0, 1)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = asarray(arr)
    if any(isinstance(bound, complex) or np.iscomplexobj(bound) for bound in (x, min, max)):
        raise ArgumentError("clip: complex numbers have no order; clip x.real and x.imag, or scale by abs(x)")
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x
