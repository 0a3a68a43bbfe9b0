"""Element-wise powers, exponentials, trigonometric and hyperbolic functions: a formula and its derivative each.

Knows no numerical algorithms: those of the special functions are in `kernels.special`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.ir import Aval, Example, Primitive
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import add, div, integer_pow, mul, neg, square, sub
from functad.primitives.builders import (
    FLOATS,
    INEXACT,
    Agreed,
    binary,
    by_kind,
    elementwise_aval,
    kinks_of,
    nary,
    unary,
)
from functad.primitives.common import convert_element_type, full_like, normal, positive_numbers, scalar_like, uniform
from functad.primitives.kernels import special
from functad.primitives.logic import eq, select_n
from functad.tracing import bind

_LN2 = math.log(2)


def _between_ends() -> np.ndarray:
    return uniform(2, 3, low=-0.9, high=0.9)


def _complex() -> np.ndarray:
    return (uniform(3, low=0.2, high=2.0) + 1j * normal(3)).astype(np.complex64)


def _plus(x: Any, constant: float) -> Any:
    return add(x, scalar_like(x, constant))


def _minus_from(constant: float, x: Any) -> Any:
    return sub(scalar_like(x, constant), x)


def _times(constant: float, x: Any) -> Any:
    return mul(scalar_like(x, constant), x)


def _by_double(ufunc: np.ufunc) -> Callable[..., Any]:
    """NumPy's function where that of float32 is wrong by more than two units in the last place: by way of float64."""

    def impl(*operands: np.ndarray) -> Any:
        if operands[0].dtype != np.float32:
            return ufunc(*operands)
        return ufunc(*operands, dtype=np.float64).astype(np.float32)

    return impl


# --- exponentials and logarithms --------------------------------------------------------------------


def exp(x: Any) -> Any:
    return bind(exp_p, x)


def exp2(x: Any) -> Any:
    return bind(exp2_p, x)


def expm1(x: Any) -> Any:
    return bind(expm1_p, x)


def log(x: Any) -> Any:
    return bind(log_p, x)


def log2(x: Any) -> Any:
    return bind(log2_p, x)


def log10(x: Any) -> Any:
    return bind(log10_p, x)


def log1p(x: Any) -> Any:
    return bind(log1p_p, x)


def logistic(x: Any) -> Any:
    return bind(logistic_p, x)


exp_p = unary(
    "exp",
    np.exp,
    jvp=lambda t, out, x: mul(t, out),  # d e^x = e^x dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 1, 1), -np.inf: (0, 0, 0), np.inf: (np.inf, np.inf, np.inf)},
    lower=Scalar(by_kind("exp({0})", c="complex_exp({0})")),
    doc="e^x.",
)
exp2_p = unary(
    "exp2",
    lambda x: np.exp(x * x.dtype.type(_LN2)) if kind_of(x.dtype) == "c" else _by_double(np.exp2)(x),
    jvp=lambda t, out, x: _times(_LN2, mul(t, out)),  # d 2^x = ln(2) 2^x dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (_LN2, _LN2**2, _LN2**3), -np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("exp2({0})", c=f"complex_exp(product({{0}}, {{T}}({_LN2})))")),
    doc="2^x.",
)
expm1_p = unary(
    "expm1",
    lambda x: special.expm1(x) if kind_of(x.dtype) == "c" else _by_double(np.expm1)(x),
    jvp=lambda t, out, x: mul(t, _plus(out, 1)),  # d(e^x − 1) = e^x dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 1, 1), -np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("expm1({0})", c="complex_expm1({0})")),
    doc="e^x − 1, accurate near 0.",
)
log_p = unary(
    "log",
    _by_double(np.log),
    jvp=lambda t, out, x: div(t, x),  # d ln(x) = dx / x
    kinds=INEXACT,
    data=positive_numbers,
    complex_data=_complex,
    kinks={0: (np.inf, -np.inf, np.inf), 1: (1, -1, 2), np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("log({0})", c="complex_log({0})")),
    doc="Natural logarithm.",
)


def _log_to_base(base: int, ufunc: np.ufunc) -> Primitive:
    unit = math.log(base)
    return unary(
        ufunc.__name__,
        _by_double(ufunc),
        jvp=lambda t, out, x: div(t, _times(unit, x)),  # d log_b(x) = dx / (ln(b) x)
        data=positive_numbers,
        kinks={0: (np.inf, -np.inf, np.inf), 1: (1 / unit, -1 / unit, 2 / unit), np.inf: (0, 0, 0)},
        lower=Scalar(f"{ufunc.__name__}({{0}})"),
        doc=f"Logarithm to base {base}.",
    )


log2_p = _log_to_base(2, np.log2)
log10_p = _log_to_base(10, np.log10)
log1p_p = unary(
    "log1p",
    special.log1p,
    jvp=lambda t, out, x: div(t, _plus(x, 1)),  # d ln(1 + x) = dx / (1 + x)
    kinds=INEXACT,
    data=_between_ends,
    complex_data=_complex,
    kinks={0: (1, -1, 2), -1: (np.inf, -np.inf, np.inf), np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("log1p({0})", c="complex_log1p({0})")),
    doc="ln(1 + x), accurate near 0.",
)
logistic_p = unary(
    "logistic",
    special.logistic,
    jvp=lambda t, out, x: mul(t, mul(out, _minus_from(1, out))),  # d σ(x) = σ(x) (1 − σ(x)) dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1 / 4, 0, -1 / 8), np.inf: (0, 0, 0), -np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("logistic({0})", c="complex_divide({T}(1), {T}(1) + complex_exp(-{0}))")),
    doc="1 / (1 + e^−x).",
)

# --- powers and roots -------------------------------------------------------------------------------


def pow(x: Any, y: Any) -> Any:
    return bind(pow_p, x, y)


def sqrt(x: Any) -> Any:
    return bind(sqrt_p, x)


def rsqrt(x: Any) -> Any:
    return bind(rsqrt_p, x)


def cbrt(x: Any) -> Any:
    return bind(cbrt_p, x)


def _pow_aval(x: Aval, y: Aval) -> Aval:
    if kind_of(y.dtype) in "iu":
        y = Aval(y.shape, x.dtype)
    return elementwise_aval("pow", INEXACT, None, x, y)


def _pow_impl(x: np.ndarray, y: np.ndarray) -> Any:
    if kind_of(y.dtype) in "iu" or kind_of(x.dtype) == "c":
        wide = np.complex128 if kind_of(x.dtype) == "c" else np.float64
        return np.power(x.astype(wide), y.astype(wide)).astype(x.dtype)
    if kind_of(x.dtype) == "f" and y.ndim == 0 and y == 0.5:  # NumPy's square root differs at −0 and −inf
        return np.sqrt(np.where(x == -np.inf, -x, x)) + x.dtype.type(0)
    return np.power(x, y)


def _pow_text(operands: Sequence[np.dtype]) -> str:
    base, exponent = operands
    if kind_of(base) == "c":
        return "{T}(complex_pow(c128({0}), c128({1})))"
    return "pow({0}, {1})" if kind_of(exponent) == "f" else "{T}(pow(f64({0}), f64({1})))"


def _pow_base_jvp(t: Any, out: Any, x: Any, y: Any) -> Any:
    # ∂x^y/∂x = y x^(y−1)
    if kind_of(y.dtype) not in "iu":
        return mul(t, mul(y, pow(x, _plus(y, -1))))
    # An exponent of 0 is not lowered: 0 · x^0 is 0 to every order, 0 · x^(−1) is NaN at 0.
    lowered = select_n(eq(y, scalar_like(y, 0)), sub(y, scalar_like(y, 1)), y)
    return mul(t, mul(convert_element_type(y, x.dtype), pow(x, lowered)))


def _pow_exponent_jvp(t: Any, out: Any, x: Any, y: Any) -> Any:
    # ∂x^y/∂y = ln(x) x^y, and 0 at x = 0
    return mul(t, mul(log(select_n(eq(x, scalar_like(x, 0)), x, full_like(x, 1))), out))


def _pow_examples() -> list[Example]:
    x, y, n = positive_numbers(), normal(2, 3), np.array([[-1, 2, 1], [0, 3, -2]], np.int32)
    pairs = [(x, y), (x[0, 0], y), (x, y[0, 0]), (x[0, 0], y[0, 0]), (x[:0], y[:0])]
    pairs += [
        (normal(2, 3), n),
        (x, np.int32(3)),
        (x, np.int32(0)),
        (x[0, 0], n),
        (x, n.astype(np.uint8) % 4),
    ]
    return [Example(args=p, params={}) for p in pairs] + _pow_at_0()


def _pow_at_0() -> list[Example]:
    infinite, undefined = (np.inf, -np.inf, np.inf), (np.nan, np.nan, np.nan)
    floats = kinks_of(
        {
            (0, 0): {(1, None): undefined, (None, 1): (0, 0, 0)},
            (0, 1): {(1, None): (1, np.nan, np.nan), (None, 1): (0, 0, 0)},
            (0, 3): {(1, None): (0, 0, 6), (None, 1): (0, 0, 0), (1, 1): (0, 0, 6)},
            (0, 0.5): {(1, None): infinite, (None, 1): (0, 0, 0)},
            (0, -1): {(1, None): (-np.inf, np.inf, -np.inf), (None, 1): undefined},
            (1, 0): {(1, None): (0, 0, 0), (None, 1): (0, 0, 0), (1, 1): (0, 2, -3)},
        }
    )
    exact: dict[int, Agreed] = {0: (0, 0, 0), 1: (1, 0, 0), 2: (0, 2, 0), 3: (0, 0, 6)}
    whole = [
        Example(args=(np.float32(0), np.int32(n)), params={}, along=(1, None), agreed=agreed)
        for n, agreed in exact.items()
    ]
    return floats + whole


pow_p = nary(
    "pow",
    _pow_impl,
    jvps=[_pow_base_jvp, _pow_exponent_jvp],
    abstract_eval=_pow_aval,
    lower=Scalar(_pow_text, all_dtypes=True, kept=(0, 1)),
    doc="x^y; the exponent may be an integer array.",
    examples=_pow_examples,
)
sqrt_p = unary(
    "sqrt",
    np.sqrt,
    jvp=lambda t, out, x: mul(t, div(scalar_like(x, 0.5), out)),  # d √x = dx / (2√x)
    kinds=INEXACT,
    data=positive_numbers,
    complex_data=_complex,
    kinks={0: (np.inf, -np.inf, np.inf), np.inf: (0, 0, 0), -1: (np.nan, np.nan, np.nan)},
    lower=Scalar(by_kind("sqrt({0})", c="complex_sqrt({0})")),
    doc="Square root.",
)
rsqrt_p = unary(
    "rsqrt",
    lambda x: np.reciprocal(np.sqrt(x, dtype=np.float64 if x.dtype == np.float32 else x.dtype)).astype(x.dtype),
    jvp=lambda t, out, x: mul(t, _times(-0.5, div(out, x))),  # d x^(−1/2) = −x^(−1/2) / (2x) dx
    kinds=INEXACT,
    data=positive_numbers,
    complex_data=_complex,
    kinks={0: (-np.inf, np.inf, -np.inf), np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("rsqrt({0})", c="complex_reciprocal(complex_sqrt({0}))")),
    doc="1 / √x.",
)
cbrt_p = unary(
    "cbrt",
    np.cbrt,
    jvp=lambda t, out, x: mul(t, _times(1 / 3, integer_pow(out, -2))),  # d x^(1/3) = x^(−2/3) / 3 dx
    data=lambda: np.array([[0.7, -1.5, 2.0]], np.float32),
    kinks={0: (np.inf, -np.inf, np.inf), -1: (1 / 3, 2 / 9, 10 / 27)},
    lower=Scalar("cbrt({0})"),
    doc="Cube root.",
)

# --- trigonometry -----------------------------------------------------------------------------------


def sin(x: Any) -> Any:
    return bind(sin_p, x)


def cos(x: Any) -> Any:
    return bind(cos_p, x)


def tan(x: Any) -> Any:
    return bind(tan_p, x)


def asin(x: Any) -> Any:
    return bind(asin_p, x)


def acos(x: Any) -> Any:
    return bind(acos_p, x)


def atan(x: Any) -> Any:
    return bind(atan_p, x)


def atan2(x: Any, y: Any) -> Any:
    return bind(atan2_p, x, y)


def _squared_length(x: Any, y: Any) -> Any:
    return add(square(x), square(y))


sin_p = unary(
    "sin",
    np.sin,
    jvp=lambda t, out, x: mul(t, cos(x)),  # d sin(x) = cos(x) dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 0, -1)},
    lower=Scalar(by_kind("sin({0})", c="complex_sin({0})")),
    doc="Sine.",
)
cos_p = unary(
    "cos",
    np.cos,
    jvp=lambda t, out, x: neg(mul(t, sin(x))),  # d cos(x) = −sin(x) dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (0, -1, 0)},
    lower=Scalar(by_kind("cos({0})", c="complex_cos({0})")),
    doc="Cosine.",
)
tan_p = unary(
    "tan",
    _by_double(np.tan),
    jvp=lambda t, out, x: mul(t, _plus(square(out), 1)),  # d tan(x) = (1 + tan²x) dx
    kinds=INEXACT,
    data=_between_ends,
    complex_data=_complex,
    kinks={0: (1, 0, 2)},
    lower=Scalar(by_kind("tan({0})", c="complex_tan({0})")),
    doc="Tangent.",
)
asin_p = unary(
    "asin",
    _by_double(np.arcsin),
    jvp=lambda t, out, x: mul(t, rsqrt(_minus_from(1, square(x)))),  # d asin(x) = dx / √(1 − x²)
    kinds=INEXACT,
    data=_between_ends,
    complex_data=_complex,
    kinks={0: (1, 0, 1), 1: (np.inf, np.inf, np.inf), -1: (np.inf, -np.inf, np.inf)},
    lower=Scalar(by_kind("asin({0})", c="complex_asin({0})")),
    doc="Inverse sine.",
)
acos_p = unary(
    "acos",
    np.arccos,
    jvp=lambda t, out, x: mul(t, neg(rsqrt(_minus_from(1, square(x))))),  # d acos(x) = −dx / √(1 − x²)
    kinds=INEXACT,
    data=_between_ends,
    complex_data=_complex,
    kinks={0: (-1, 0, -1), 1: (-np.inf, -np.inf, -np.inf), -1: (-np.inf, np.inf, -np.inf)},
    lower=Scalar(by_kind("acos({0})", c="complex_acos({0})")),
    doc="Inverse cosine.",
)
atan_p = unary(
    "atan",
    np.arctan,
    jvp=lambda t, out, x: div(t, _plus(square(x), 1)),  # d atan(x) = dx / (1 + x²)
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 0, -2)},
    lower=Scalar(by_kind("atan({0})", c="complex_atan({0})")),
    doc="Inverse tangent.",
)
atan2_p = binary(
    "atan2",
    _by_double(np.arctan2),
    jvps=[
        lambda t, out, x, y: mul(t, div(y, _squared_length(x, y))),  # ∂atan2(x, y)/∂x = y / (x² + y²)
        lambda t, out, x, y: mul(t, div(neg(x), _squared_length(x, y))),  # ∂atan2(x, y)/∂y = −x / (x² + y²)
    ],
    kinds=FLOATS,
    kinks={
        (0, 0): {(1, None): (np.nan, np.nan, np.nan), (None, 1): (np.nan, np.nan, np.nan)},
        (0, 1): {(1, None): (1, 0, -2), (None, 1): (0, 0, 0), (1, 1): (1, -2, 4)},
        (0, -1): {(1, None): (-1, 0, 2), (1, 1): (-1, -2, -4)},
    },
    lower=Scalar("atan2({0}, {1})"),
    doc="The angle of the point with ordinate x and abscissa y.",
)

# --- hyperbolic functions ---------------------------------------------------------------------------


def sinh(x: Any) -> Any:
    return bind(sinh_p, x)


def cosh(x: Any) -> Any:
    return bind(cosh_p, x)


def tanh(x: Any) -> Any:
    return bind(tanh_p, x)


def asinh(x: Any) -> Any:
    return bind(asinh_p, x)


def acosh(x: Any) -> Any:
    return bind(acosh_p, x)


def atanh(x: Any) -> Any:
    return bind(atanh_p, x)


def _acosh_jvp(t: Any, out: Any, x: Any) -> Any:
    # d acosh(x) = dx / √(x² − 1); for complex x the square root of the product is on the wrong branch
    if kind_of(x.dtype) == "c":
        return mul(t, mul(rsqrt(_plus(x, -1)), rsqrt(_plus(x, 1))))
    return mul(t, rsqrt(_plus(square(x), -1)))


sinh_p = unary(
    "sinh",
    np.sinh,
    jvp=lambda t, out, x: mul(t, cosh(x)),  # d sinh(x) = cosh(x) dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 0, 1)},
    lower=Scalar(by_kind("sinh({0})", c="complex_sinh({0})")),
    doc="Hyperbolic sine.",
)
cosh_p = unary(
    "cosh",
    _by_double(np.cosh),
    jvp=lambda t, out, x: mul(t, sinh(x)),  # d cosh(x) = sinh(x) dx
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (0, 1, 0)},
    lower=Scalar(by_kind("cosh({0})", c="complex_cosh({0})")),
    doc="Hyperbolic cosine.",
)
tanh_p = unary(
    "tanh",
    special.tanh,
    # d tanh(x) = (1 + tanh(x)) (1 − tanh(x)) dx, which loses no digits where tanh(x) is near 1
    jvp=lambda t, out, x: mul(add(t, mul(t, out)), _minus_from(1, out)),
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 0, -2), np.inf: (0, 0, 0), -np.inf: (0, 0, 0)},
    lower=Scalar(by_kind("tanh({0})", c="complex_tanh({0})")),
    doc="Hyperbolic tangent.",
)
asinh_p = unary(
    "asinh",
    np.arcsinh,
    jvp=lambda t, out, x: mul(t, rsqrt(_plus(square(x), 1))),  # d asinh(x) = dx / √(1 + x²)
    kinds=INEXACT,
    complex_data=_complex,
    kinks={0: (1, 0, -1)},
    lower=Scalar(by_kind("asinh({0})", c="complex_asinh({0})")),
    doc="Inverse hyperbolic sine.",
)
acosh_p = unary(
    "acosh",
    np.arccosh,
    jvp=_acosh_jvp,
    kinds=INEXACT,
    data=lambda: uniform(2, 3, low=1.3, high=4.0),
    complex_data=lambda: _complex() - np.complex64(1),
    kinks={1: (np.inf, -np.inf, np.nan)},
    lower=Scalar(by_kind("acosh({0})", c="complex_acosh({0})")),
    doc="Inverse hyperbolic cosine.",
)
atanh_p = unary(
    "atanh",
    np.arctanh,
    jvp=lambda t, out, x: mul(integer_pow(_plus(x, 1), -1), div(t, _minus_from(1, x))),  # dx / ((1 + x) (1 − x))
    kinds=INEXACT,
    data=_between_ends,
    complex_data=_complex,
    kinks={0: (1, 0, 2), 1: (np.inf, np.nan, np.nan)},
    lower=Scalar(by_kind("atanh({0})", c="complex_atanh({0})")),
    doc="Inverse hyperbolic tangent.",
)
