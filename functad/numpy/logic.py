"""Comparison, logic, bits, and the tests for NaN and infinity.

Knows promotion and the element-wise primitives.

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
from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.evaluation import aval_of
from functad.numpy.building import as_array, as_boolean, binary_function, filled_like, named, refuse_out, scalar, select
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
from functad.primitives import elementwise as el
from functad.primitives import reduction

__all__ = [
    "allclose",
    "array_equal",
    "array_equiv",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "invert",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
]

# --- comparison -------------------------------------------------------------------------------------

equal = binary_function(
    "equal",
    """x1 == x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.equal(jnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """,
    "eq",
)
not_equal = binary_function(
    "not_equal",
    """x1 != x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.not_equal(jnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """,
    "ne",
)


def _ordering(name: str, primitive: str, doc: str) -> Callable[[Any, Any], Array]:
    compare = getattr(el, primitive)
    strict = getattr(el, {"le": "lt", "ge": "gt"}.get(primitive, primitive))

    def fun(x1: Any, x2: Any, /) -> Any:
        x, y = promote_pair(name, x1, x2)
        if kind_of(x.dtype) == "c":
            # By the real part, then by the imaginary one, as NumPy orders complex numbers.
            same = el.eq(el.real(x), el.real(y))
            return select(same, compare(el.imag(x), el.imag(y)), strict(el.real(x), el.real(y)))
        return compare(x, y)

    return named(fun, name, doc)


less = _ordering(
    "less",
    "lt",
    """x1 < x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.less(jnp.arange(3), 1)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal = _ordering(
    "less_equal",
    "le",
    """x1 <= x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.less_equal(jnp.arange(3), 1)
    Array([ True,  True, False], dtype=bool)
    """,
)
greater = _ordering(
    "greater",
    "gt",
    """x1 > x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.greater(jnp.arange(3), 1)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal = _ordering(
    "greater_equal",
    "ge",
    """x1 >= x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.greater_equal(jnp.arange(3), 1)
    Array([False,  True,  True], dtype=bool)
    """,
)

# --- logic ------------------------------------------------------------------------------------------


def _logical(name: str, primitive: str, doc: str) -> Callable[[Any, Any], Array]:
    combine = getattr(el, primitive)

    def fun(x1: Any, x2: Any, /) -> Any:
        return combine(*promote_shapes(name, as_boolean(name, x1), as_boolean(name, x2)))

    return named(fun, name, doc)


logical_and = _logical(
    "logical_and",
    "and_",
    """Whether both x1 and x2 are true (not zero), element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_or = _logical(
    "logical_or",
    "or_",
    """Whether x1 or x2 is true (not zero), element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logical_or(jnp.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
    """,
)
logical_xor = _logical(
    "logical_xor",
    "xor",
    """Whether exactly one of x1 and x2 is true (not zero), element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logical_xor(jnp.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
    """,
)


def logical_not(x: Any, /) -> Array:
    """Whether x is false (zero), element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """
    return el.not_(as_boolean("logical_not", x))


# --- bits -------------------------------------------------------------------------------------------


def _bitwise(name: str, primitive: str, doc: str) -> Callable[[Any, Any], Array]:
    combine = getattr(el, primitive)

    def fun(x1: Any, x2: Any, /) -> Any:
        return combine(*_check_bits(name, promote_pair(name, x1, x2)))

    return named(fun, name, doc)


def _check_bits(name: str, args: Any) -> Any:
    for a in args:
        if kind_of(a.dtype) not in "biu":
            raise DTypeError(
                f"{name} takes integers or booleans, but was given {aval_of(a).str_short()}; "
                "convert first, for example x.astype('int32'), or use logical_and, logical_or, logical_not"
            )
    return args


bitwise_and = _bitwise(
    "bitwise_and",
    "and_",
    """x1 & x2, bit by bit.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_and(6, 3)
    Array(2, dtype=int32, weak_type=True)
    """,
)
bitwise_or = _bitwise(
    "bitwise_or",
    "or_",
    """x1 | x2, bit by bit.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_or(6, 3)
    Array(7, dtype=int32, weak_type=True)
    """,
)
bitwise_xor = _bitwise(
    "bitwise_xor",
    "xor",
    """x1 ^ x2, bit by bit.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_xor(6, 3)
    Array(5, dtype=int32, weak_type=True)
    """,
)


def bitwise_not(x: Any, /) -> Array:
    """~x, bit by bit.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_invert(jnp.array([0, 7]))
    Array([-1, -8], dtype=int32)

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_not(jnp.array([0, 7]))
    Array([-1, -8], dtype=int32)

    >>> import functad.numpy as jnp
    >>> jnp.invert(jnp.array([0, 7]))
    Array([-1, -8], dtype=int32)
    """
    return el.not_(*_check_bits("bitwise_not", [as_array("bitwise_not", x)]))


invert = bitwise_invert = bitwise_not


def left_shift(x1: Any, x2: Any, /) -> Array:
    """x1 << x2, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_left_shift(1, 3)
    Array(8, dtype=int32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.left_shift(1, 3)
    Array(8, dtype=int32, weak_type=True)
    """
    return el.shift_left(*_check_bits("left_shift", promote_args_numeric("left_shift", x1, x2)))


def right_shift(x1: Any, x2: Any, /) -> Array:
    """x1 >> x2, element-wise; the sign of x1 stays.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_right_shift(8, 3)
    Array(1, dtype=int32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.right_shift(-8, 1)
    Array(-4, dtype=int32, weak_type=True)
    """
    x, y = _check_bits("right_shift", promote_args_numeric("right_shift", x1, x2))
    return el.shift_right_logical(x, y) if kind_of(x.dtype) == "u" else el.shift_right_arithmetic(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


def bitwise_count(x: Any, /) -> Array:
    """The number of bits set in |x|, as uint8.

    >>> import functad.numpy as jnp
    >>> jnp.bitwise_count(jnp.array([0, 7]))
    Array([0, 3], dtype=uint8)
    """
    (x,) = _check_bits("bitwise_count", [as_array("bitwise_count", x)])
    magnitude = el.abs(x) if kind_of(x.dtype) == "i" else x
    return convert(el.population_count(magnitude), dtypes.uint8)


# --- finiteness -------------------------------------------------------------------------------------


def isnan(x: Any, /) -> Array:
    """Where x is NaN.

    >>> import functad.numpy as jnp
    >>> jnp.isnan(jnp.array([1., jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x = as_array("isnan", x)
    return el.ne(x, x)


def isfinite(x: Any, /) -> Array:
    """Where x is neither infinite nor NaN.

    >>> import functad.numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x = as_array("isfinite", x)
    if kind_of(x.dtype) == "c":
        return el.and_(isfinite(el.real(x)), isfinite(el.imag(x)))
    if kind_of(x.dtype) != "f":
        return filled_like(np.bool_(True), x)
    return el.is_finite(x)


def isinf(x: Any, /) -> Array:
    """Where x is positive or negative infinity.

    >>> import functad.numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    x = as_array("isinf", x)
    if kind_of(x.dtype) == "c":
        return el.or_(isinf(el.real(x)), isinf(el.imag(x)))
    if kind_of(x.dtype) != "f":
        return filled_like(np.bool_(False), x)
    return el.eq(el.abs(x), scalar(x, np.inf))


def isposinf(x: Any, /, out: None = None) -> Array:
    """Where x is positive infinity.

    >>> import functad.numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return _is_infinity("isposinf", x, out, np.inf)


def isneginf(x: Any, /, out: None = None) -> Array:
    """Where x is negative infinity.

    >>> import functad.numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    return _is_infinity("isneginf", x, out, -np.inf)


def _is_infinity(name: str, x: Any, out: None, which: float) -> Any:
    refuse_out(name, out)
    x = as_array(name, x)
    if kind_of(x.dtype) == "c":
        raise DTypeError(f"{name} takes real numbers, but was given {aval_of(x).str_short()}")
    if kind_of(x.dtype) != "f":
        return filled_like(np.bool_(False), x)
    return el.eq(x, scalar(x, which))


# --- approximate and whole-array equality -----------------------------------------------------------


def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Array:
    """Where |a - b| <= atol + rtol·|b|; equal infinities are close, random keys if they are equal.

    >>> import functad.numpy as jnp
    >>> jnp.isclose(1.0, 1.0 + 1e-6)
    Array(True, dtype=bool)
    """
    x, y = promote_args("isclose", a, b)
    if x.dtype is dtypes.key_fry:
        return el.eq(x, y)
    if kind_of(x.dtype) not in "fc":
        x, y = promote_args_inexact("isclose", x, y)
    real = np.zeros((), x.dtype).real.dtype
    limit = el.add(convert(operand("isclose", atol), real), el.mul(convert(operand("isclose", rtol), real), el.abs(y)))
    difference = el.abs(el.sub(x, y))
    x_finite, y_finite = isfinite(x), isfinite(y)
    both = el.and_(*promote_shapes("isclose", x_finite, y_finite))
    close = el.and_(el.le(difference, limit), both)
    result = el.or_(close, el.and_(el.not_(both), el.eq(x, y)))
    if equal_nan:
        result = el.or_(result, el.and_(el.ne(x, x), el.ne(y, y)))
    return result


def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Array:
    """Whether `isclose` holds everywhere: a boolean of shape (), of arrays a and b that broadcast.

    >>> import functad.numpy as jnp
    >>> bool(jnp.allclose(jnp.array([1., 2.]), jnp.array([1., 2. + 1e-7])))
    True
    """
    return _everywhere(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether two arrays a1, a2 have one shape and equal elements: a boolean of shape ().

    >>> import functad.numpy as jnp
    >>> jnp.array_equal(jnp.array([1, 2]), jnp.array([1, 2]))
    Array(True, dtype=bool)
    """
    x, y = as_array("array_equal", a1), as_array("array_equal", a2)
    if x.shape != y.shape:
        return asarray(np.bool_(False))
    same = equal(x, y)
    if equal_nan:
        same = el.or_(same, el.and_(isnan(x), isnan(y)))
    return _everywhere(same)


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether two arrays a1, a2 are equal after broadcasting: of shape (), and false where shapes do not broadcast.

    >>> import functad.numpy as jnp
    >>> jnp.array_equiv(jnp.array([1, 1]), 1)
    Array(True, dtype=bool)
    """
    x, y = as_array("array_equiv", a1), as_array("array_equiv", a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return asarray(np.bool_(False))
    return _everywhere(equal(x, y))


def _everywhere(x: Any) -> Any:
    x = asarray(x)
    return reduction.reduce_and(x, axes=tuple(range(x.ndim)))


# --- kinds of values --------------------------------------------------------------------------------


def iscomplex(x: Any) -> Array:
    """Where the imaginary part is not 0.

    >>> import functad.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1 + 0j, 1j]))
    Array([False,  True], dtype=bool)
    """
    x = as_array("iscomplex", x)
    if kind_of(x.dtype) != "c":
        return filled_like(np.bool_(False), x)
    imaginary = el.imag(x)
    return el.ne(imaginary, scalar(imaginary, 0))


def isreal(x: Any) -> Array:
    """Where the imaginary part is 0.

    >>> import functad.numpy as jnp
    >>> jnp.isreal(jnp.array([1 + 0j, 1j]))
    Array([ True, False], dtype=bool)
    """
    return el.not_(iscomplex(x))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype of an array of any shape, or a dtype, is complex, as a Python bool.

    >>> iscomplexobj(1j), iscomplexobj("float32")
    (True, False)
    """
    return kind_of(dtypes.result_type(x if _has_dtype(x) else operand("iscomplexobj", x))) == "c"


def _has_dtype(x: Any) -> bool:
    return isinstance(x, (str, type, np.dtype)) or hasattr(x, "dtype")


def isrealobj(x: Any) -> bool:
    """Whether the dtype of an array of any shape, or a dtype, is not complex, as a Python bool.

    >>> import functad.numpy as jnp
    >>> jnp.isrealobj(jnp.array([1 + 0j]))
    False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a number or an array of shape (), as a Python bool.

    >>> import functad.numpy as jnp
    >>> jnp.isscalar(1.0)
    True
    """
    if isinstance(element, (Array, np.ndarray)):
        return element.ndim == 0
    return bool(np.isscalar(element))
