"""Element-wise operations under JAX's names: arithmetic, comparison, logic, bits, elementary and special functions.

Knows the primitives and how operands are taken; nothing of axes.

Shapes:
    The result has the shape of the operands; scalars beside them count as arrays of that shape.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take: nothing is promoted.
    ShapeError: operands have different shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.lax.operands import bind_checked, operand, same_dtype, same_shape
from functad.primitives import barrier
from functad.primitives import elementwise as el
from functad.primitives.arithmetic import RoundingMethod
from functad.primitives.bitcast import bitcast_convert_type_p
from functad.primitives.common import convert_element_type as _convert
from functad.primitives.common import full_like
from functad.tree_util import tree_flatten, tree_map, tree_unflatten

_WHAT = {
    "float": "a float or complex array or number",
    "number": "an array or number",
    "integer": "an integer array or number",
    "bits": "a boolean or integer array, or a bool or int",
    "real": "a real array or number",
    "only float": "a float array or number",
    "complex": "a complex array or number",
}


def _unary(name: str, takes: str, doc: str, example: str, result: str, primitive: str = "") -> Callable[[Any], Array]:
    record = getattr(el, f"{primitive or name}_p")

    def fun(x: Any) -> Any:
        return bind_checked(record, operand(name, x))

    return _described(fun, name, takes, doc, example, result)


def _elementary(name: str, takes: str, doc: str, example: str, result: str) -> Callable[..., Array]:
    """A function whose accuracy JAX lets one choose."""
    record = getattr(el, f"{name}_p")

    def fun(x: Any, *, accuracy: Any = None) -> Any:
        return bind_checked(record, operand(name, x))

    return _described(fun, name, takes, doc, example, result, "\n        accuracy: has no effect: there is one.")


def _described(
    fun: Callable[..., Array], name: str, takes: str, doc: str, example: str, result: str, more: str = ""
) -> Callable[..., Array]:
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{doc}

    Args:
        x: {_WHAT[takes]}.{more}

    Returns:
        An array of the shape of x.

    Raises:
        DTypeError: x is something else.

    >>> {name}({example})
    {result}
    """
    return fun


def _binary(
    name: str, takes: str, doc: str, example: str, result: str, primitive: str = ""
) -> Callable[[Any, Any], Any]:
    record = getattr(el, f"{primitive or name}_p")

    def fun(x: Any, y: Any) -> Any:
        return bind_checked(record, *same_shape(name, x, y))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{doc}

    Args:
        x, y: {_WHAT[takes]} each, of one dtype; of one shape, or scalars.

    Returns:
        An array of that shape.

    Raises:
        ShapeError: x and y have different shapes.
        DTypeError: they are something else, or of different dtypes.

    >>> {name}({example})
    {result}
    """
    return fun


def _weak(value: str) -> str:
    return f"Array({value}, dtype=float32, weak_type=True)"


def _weak_int(value: str) -> str:
    return f"Array({value}, dtype=int32, weak_type=True)"


def _bool(value: str) -> str:
    return f"Array({value}, dtype=bool)"


# --- arithmetic -------------------------------------------------------------------------------------------

neg = _unary("neg", "number", "−x.", "2.0", _weak("-2."))
abs = _unary("abs", "number", "|x|; real for a complex x.", "-2.0", _weak("2."))
sign = _unary("sign", "number", "−1, 0 or 1 (of a complex number x / |x|).", "-2.0", _weak("-1."))
square = _unary("square", "number", "x².", "3.0", _weak("9."))
floor = _unary("floor", "only float", "The largest integer that is not above x.", "-1.5", _weak("-2."))
ceil = _unary("ceil", "only float", "The smallest integer that is not below x.", "-1.5", _weak("-1."))
add = _binary("add", "number", "x + y.", "1.0, 2.0", _weak("3."))
sub = _binary("sub", "number", "x − y.", "1.0, 2.0", _weak("-1."))
div = _binary("div", "number", "x / y; for integers truncated towards zero.", "-7, 2", _weak_int("-3"))
rem = _binary("rem", "real", "What remains of x / y, with the sign of x.", "-7, 2", _weak_int("-1"))
max = _binary("max", "number", "The larger of x and y; NaN if either is.", "1.0, 2.0", _weak("2."))
min = _binary("min", "number", "The smaller of x and y; NaN if either is.", "1.0, 2.0", _weak("1."))
real = _unary("real", "complex", "The real part.", "1 + 2j", _weak("1."))
imag = _unary("imag", "complex", "The imaginary part.", "1 + 2j", _weak("2."))
complex = _binary("complex", "only float", "x + iy.", "1.0, 2.0", "Array(1.+2.j, dtype=complex64, weak_type=True)")


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Array:
    """x · y.

    Args:
        x, y: an array or number each, of one dtype; of one shape, or scalars.
        out_dtype: the dtype of the result, to which both are converted first.

    Returns:
        An array of that shape.

    >>> mul(3.0, 2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    operands = same_shape("mul", x, y)
    if out_dtype is not None:
        operands = [convert_element_type(v, out_dtype) for v in operands]
    return bind_checked(el.mul_p, *operands)


def nextafter(x1: Any, x2: Any) -> Array:
    """The float next to x1 in the direction of x2.

    Args:
        x1, x2: a float array or number each, of one dtype; of one shape, or scalars.

    Returns:
        An array of that shape.

    >>> nextafter(0.0, 1.0)
    Array(1.e-45, dtype=float32, weak_type=True)
    """
    return bind_checked(el.nextafter_p, *same_shape("nextafter", x1, x2))


def conj(x: Any) -> Array:
    """The complex conjugate; a real x becomes complex.

    Args:
        x: a float or complex array or number.

    Returns:
        A complex array of the shape of x.

    >>> import numpy as np
    >>> conj(np.complex64(1 + 2j))
    Array(1.-2.j, dtype=complex64)
    """
    x = operand("conj", x)
    if kind_of(aval_of(x).dtype) == "c":
        return el.conj(x)
    return bind_checked(el.complex_p, x, full_like(x, 0))


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integer, as a float.

    Args:
        x: a float array or number.
        rounding_method: where halves go, `RoundingMethod.AWAY_FROM_ZERO` or `TO_NEAREST_EVEN`.

    >>> round(2.5), round(2.5, RoundingMethod.TO_NEAREST_EVEN)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    return bind_checked(el.round_p, operand("round", x), rounding_method=RoundingMethod(rounding_method))


def integer_pow(x: Any, y: int) -> Array:
    """x^y for a Python integer y, by multiplication.

    Args:
        x: an array or number.
        y: the exponent; negative only for a float or complex x.

    >>> import numpy as np
    >>> integer_pow(np.float32(3), 2)
    Array(9., dtype=float32)
    """
    return bind_checked(el.integer_pow_p, operand("integer_pow", x), y=y)


def reciprocal(x: Any) -> Array:
    """1 / x.

    >>> import numpy as np
    >>> reciprocal(np.float32(4))
    Array(0.25, dtype=float32)
    """
    return bind_checked(el.integer_pow_p, operand("reciprocal", x), y=-1)


# --- comparison, logic and bits ---------------------------------------------------------------------------

eq = _binary("eq", "number", "Whether x = y.", "1, 2", _bool("False"))
ne = _binary("ne", "number", "Whether x ≠ y.", "1, 2", _bool("True"))
lt = _binary("lt", "real", "Whether x < y.", "1, 2", _bool("True"))
le = _binary("le", "real", "Whether x ≤ y.", "1, 2", _bool("True"))
gt = _binary("gt", "real", "Whether x > y.", "1, 2", _bool("False"))
ge = _binary("ge", "real", "Whether x ≥ y.", "1, 2", _bool("False"))
is_finite = _unary("is_finite", "only float", "Whether x is neither infinite nor NaN.", "1.0", _bool("True"))

bitwise_not = _unary("bitwise_not", "bits", "Every bit inverted.", "True", _bool("False"), "not")
bitwise_and = _binary("bitwise_and", "bits", "x and y, bit by bit.", "6, 3", _weak_int("2"), "and")
bitwise_or = _binary("bitwise_or", "bits", "x or y, bit by bit.", "6, 3", _weak_int("7"), "or")
bitwise_xor = _binary("bitwise_xor", "bits", "x or y but not both, bit by bit.", "6, 3", _weak_int("5"), "xor")
shift_left = _binary("shift_left", "integer", "The bits of x moved up by y places.", "3, 2", _weak_int("12"))
shift_right_logical = _binary(
    "shift_right_logical",
    "integer",
    "The bits of x moved down by y places, zeros above.",
    "12, 2",
    _weak_int("3"),
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", "integer", "x / 2^y, rounded down: the sign is kept.", "-12, 2", _weak_int("-3")
)
mulhi = _binary("mulhi", "integer", "The upper half of the bits of x · y.", "2**30, 8", _weak_int("2"))
population_count = _unary("population_count", "integer", "The number of bits that are set.", "7", _weak_int("3"))
clz = _unary("clz", "integer", "The number of leading bits that are zero.", "1", _weak_int("31"))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """The bits of an array read as another dtype.

    Args:
        operand: an array or number.
        new_dtype: the dtype; of a smaller size it gives the shape a last axis, of a larger one it takes it away.

    >>> import numpy as np
    >>> bitcast_convert_type(np.float32(1), np.int32)
    Array(1065353216, dtype=int32)
    """
    return bind_checked(
        bitcast_convert_type_p, _operand("bitcast_convert_type", operand), new_dtype=dtypes.as_dtype(new_dtype)
    )


_operand = operand  # where an argument has that name


def select_n(which: Any, *cases: Any) -> Array:
    """Element by element, the case of that number.

    Args:
        which: boolean (two cases, the first for False) or integer, of the cases' shape or a scalar.
        *cases: arrays of one shape and dtype.

    >>> import numpy as np
    >>> select_n(np.array([True, False]), np.int32([1, 2]), np.int32([10, 20]))
    Array([10,  2], dtype=int32)
    """
    return bind_checked(el.select_n_p, operand("select_n", which), *same_dtype("select_n", *cases))


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """`on_true` where `pred` holds, else `on_false`: `functad.numpy.where` without promotion.

    Args:
        pred: boolean, of the shape of the others or a scalar.
        on_true, on_false: arrays of one shape and dtype.

    >>> import numpy as np
    >>> select(np.array([True, False]), np.int32([1, 2]), np.int32([10, 20]))
    Array([ 1, 20], dtype=int32)
    """
    return bind_checked(el.select_n_p, operand("select", pred), *same_dtype("select", on_false, on_true))


def clamp(min: Any, x: Any, max: Any) -> Array:
    """x, but not below `min` and not above `max`.

    Args:
        min, max: scalars or arrays of the shape of x, and of its dtype.
        x: a real array or number.

    >>> import numpy as np
    >>> clamp(0.0, np.float32([-1, 0.5, 2]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return bind_checked(el.clamp_p, *same_dtype("clamp", min, x, max))


# --- elementary and special functions ---------------------------------------------------------------------

exp = _elementary("exp", "float", "e^x.", "0.0", _weak("1."))
exp2 = _elementary("exp2", "float", "2^x.", "3.0", _weak("8."))
expm1 = _elementary("expm1", "float", "e^x − 1, accurate also near 0.", "0.0", _weak("0."))
log = _elementary("log", "float", "The natural logarithm.", "1.0", _weak("0."))
log1p = _elementary("log1p", "float", "log(1 + x), accurate also near 0.", "0.0", _weak("0."))
logistic = _elementary("logistic", "float", "1 / (1 + e^−x).", "0.0", _weak("0.5"))
sqrt = _elementary("sqrt", "float", "The square root.", "9.0", _weak("3."))
rsqrt = _elementary("rsqrt", "float", "1 / √x.", "4.0", _weak("0.5"))
cbrt = _elementary("cbrt", "only float", "The cube root.", "8.0", _weak("2."))
sin = _elementary("sin", "float", "The sine of x, in radians.", "0.0", _weak("0."))
cos = _elementary("cos", "float", "The cosine of x, in radians.", "0.0", _weak("1."))
tan = _elementary("tan", "float", "The tangent of x, in radians.", "0.0", _weak("0."))
asin = _unary("asin", "float", "The angle in radians whose sine is x.", "0.0", _weak("0."))
acos = _unary("acos", "float", "The angle in radians whose cosine is x.", "1.0", _weak("0."))
atan = _unary("atan", "float", "The angle in radians whose tangent is x.", "0.0", _weak("0."))
atan2 = _binary(
    "atan2",
    "only float",
    "The angle in radians of the point (y, x): atan(x / y) in the right quadrant.",
    "0.0, 1.0",
    _weak("0."),
)
sinh = _unary("sinh", "float", "The hyperbolic sine.", "0.0", _weak("0."))
cosh = _unary("cosh", "float", "The hyperbolic cosine.", "0.0", _weak("1."))
tanh = _elementary("tanh", "float", "The hyperbolic tangent.", "0.0", _weak("0."))
asinh = _unary("asinh", "float", "The number whose hyperbolic sine is x.", "0.0", _weak("0."))
acosh = _unary("acosh", "float", "The number whose hyperbolic cosine is x.", "1.0", _weak("0."))
atanh = _unary("atanh", "float", "The number whose hyperbolic tangent is x.", "0.0", _weak("0."))
erf = _unary("erf", "only float", "The error function, 2/√π ∫₀ˣ e^(−t²) dt.", "0.0", _weak("0."))
erfc = _unary("erfc", "only float", "1 − erf(x), accurate also for a large x.", "0.0", _weak("1."))
erf_inv = _unary("erf_inv", "only float", "The number whose error function is x.", "0.0", _weak("0."))
lgamma = _unary("lgamma", "only float", "log |Γ(x)|.", "1.0", _weak("0."))
digamma = _unary("digamma", "only float", "Γ′(x) / Γ(x).", "1.0", _weak("-0.5772157"))


def polygamma(m: Any, x: Any) -> Array:
    """The m-th derivative of digamma at x.

    Args:
        m, x: float arrays or numbers of one dtype and shape, or scalars; m holds whole numbers.

    >>> import numpy as np
    >>> polygamma(np.float32(0), np.float32(1))
    Array(-0.5772157, dtype=float32)
    """
    return bind_checked(el.polygamma_p, *same_shape("polygamma", m, x))


def pow(x: Any, y: Any) -> Array:
    """x^y.

    Args:
        x: a float or complex array or number.
        y: an exponent of the dtype of x, or integers; of the shape of x or a scalar.

    >>> import numpy as np
    >>> pow(np.float32([2, 3]), 2)
    Array([4., 9.], dtype=float32)
    """
    if kind_of(dtypes.dtype_of(y)[0]) in "iu":
        return bind_checked(el.pow_p, operand("pow", x), operand("pow", y))
    return bind_checked(el.pow_p, *same_shape("pow", x, y))


# --- conversion, and the identity -------------------------------------------------------------------------


def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """Convert every element to another dtype.

    Args:
        operand: an array or number.
        new_dtype: the dtype, in any form that `numpy.dtype` takes; `float` and `int` are the 32-bit ones.

    >>> import numpy as np
    >>> convert_element_type(np.float32([1.5, -1.5]), int)
    Array([ 1, -1], dtype=int32)
    """
    return _convert(_operand("convert_element_type", operand), dtypes.requested_dtype(new_dtype))


def optimization_barrier(operand: Any, /) -> Any:
    """The identity for a pytree of arrays, none of which can be had before all of them are computed.

    Under `jit` it keeps the compiler from computing what follows earlier, from fusing it with what comes before in one
    loop, and from finding that both are the same. It costs nothing: the results lie in the memory of the operands.

    >>> optimization_barrier((1.0, {"x": 2.0}))
    (Array(1., dtype=float32, weak_type=True), {'x': Array(2., dtype=float32, weak_type=True)})
    """
    leaves, tree = tree_flatten(operand)
    values = [_operand("optimization_barrier", leaf) for leaf in leaves]
    return tree_unflatten(tree, barrier.optimization_barrier(*values) if values else [])


def stop_gradient(x: Any) -> Any:
    """The identity, through which no derivative flows.

    Args:
        x: a pytree of arrays and numbers; integers in it pass unchanged.

    >>> import functad
    >>> functad.grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def stop(leaf: Any) -> Any:
        leaf = operand("stop_gradient", leaf)
        return el.stop_gradient(leaf) if kind_of(aval_of(leaf).dtype) in "fc" else leaf

    return tree_map(stop, x)
