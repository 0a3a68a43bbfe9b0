"""Element-wise arithmetic and elementary functions: each record is its formula and its derivative.

Knows no shapes beyond "equal or rank 0"; promotion and broadcasting are done by the callers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.builders import NUMBERS, binary, unary
from functad.primitives.common import is_linear, scalar_like, unbroadcast
from functad.tracing import bind

# --- arithmetic -------------------------------------------------------------------------------------


def neg(x: Any) -> Any:
    return bind(neg_p, x)


def add(x: Any, y: Any) -> Any:
    return bind(add_p, x, y)


def sub(x: Any, y: Any) -> Any:
    return bind(sub_p, x, y)


def mul(x: Any, y: Any) -> Any:
    return bind(mul_p, x, y)


def div(x: Any, y: Any) -> Any:
    return bind(div_p, x, y)


def _add_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, x) if is_linear(x) else None, unbroadcast(ct, y) if is_linear(y) else None]


def _sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, x) if is_linear(x) else None, neg(unbroadcast(ct, y)) if is_linear(y) else None]


def _mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if is_linear(x):
        return [unbroadcast(mul(ct, y), x), None]
    return [None, unbroadcast(mul(x, ct), y)]


def _div_impl(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "fc":
        return np.divide(x, y)
    # Integer division truncates towards zero, as in C; NumPy's floors.
    quotient, remainder = np.divmod(x, y)
    return quotient + ((remainder != 0) & ((x < 0) != (y < 0))).astype(quotient.dtype)


neg_p = unary(
    "neg",
    np.negative,
    jvp=lambda t, out, x: neg(t),  # d(−x) = −dx
    transpose=lambda ct, x: [neg(ct)],
    kinds=NUMBERS,
    doc="−x.",
)
add_p = binary(
    "add",
    np.add,
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: t],  # d(x + y) = dx + dy
    transpose=_add_transpose,
    doc="x + y.",
)
sub_p = binary(
    "sub",
    np.subtract,
    jvps=[lambda t, out, x, y: t, lambda t, out, x, y: neg(t)],  # d(x − y) = dx − dy
    transpose=_sub_transpose,
    doc="x − y.",
)
mul_p = binary(
    "mul",
    np.multiply,
    jvps=[lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t)],  # d(xy) = y dx + x dy
    transpose=_mul_transpose,
    doc="x · y.",
)
div_p = binary(
    "div",
    _div_impl,
    jvps=[
        lambda t, out, x, y: div(t, y),  # ∂(x/y)/∂x = 1/y
        lambda t, out, x, y: mul(mul(neg(t), out), div(scalar_like(y, 1), y)),  # ∂(x/y)/∂y = −(x/y)/y
    ],
    transpose=lambda ct, x, y: [unbroadcast(div(ct, y), x), None],
    data=lambda: (np.float32([[1, -2, 3]]), np.float32([[2, 0.5, -4]])),
    doc="x / y; for integers, truncated towards zero.",
)

# --- exponentials and trigonometry ------------------------------------------------------------------


def exp(x: Any) -> Any:
    return bind(exp_p, x)


def sin(x: Any) -> Any:
    return bind(sin_p, x)


def cos(x: Any) -> Any:
    return bind(cos_p, x)


exp_p = unary("exp", np.exp, jvp=lambda t, out, x: mul(t, out), doc="e^x.")  # d exp(x) = exp(x) dx
sin_p = unary("sin", np.sin, jvp=lambda t, out, x: mul(t, cos(x)), doc="Sine.")  # d sin(x) = cos(x) dx
cos_p = unary("cos", np.cos, jvp=lambda t, out, x: mul(t, neg(sin(x))), doc="Cosine.")  # d cos(x) = −sin(x) dx
