"""Element-wise error functions, and the gamma function's logarithm with its derivatives.

Knows no numerical algorithms: those are in `kernels.special`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.ir import Absent, Example
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import add, mul, neg, square
from functad.primitives.builders import Kinks, kinks_of, nary, unary
from functad.primitives.common import integers, positive_numbers, scalar_like, uniform
from functad.primitives.kernels import special
from functad.primitives.transcendental import exp
from functad.tracing import bind

_ROOT_PI, _ZETA_3 = math.sqrt(math.pi), 1.2020569031595942  # the last is ζ(3)


def erf(x: Any) -> Any:
    return bind(erf_p, x)


def erfc(x: Any) -> Any:
    return bind(erfc_p, x)


def erf_inv(x: Any) -> Any:
    return bind(erf_inv_p, x)


def lgamma(x: Any) -> Any:
    return bind(lgamma_p, x)


def digamma(x: Any) -> Any:
    return bind(digamma_p, x)


def polygamma(m: Any, x: Any) -> Any:
    return bind(polygamma_p, m, x)


def _gaussian(x: Any) -> Any:
    return exp(neg(square(x)))


def _polygamma_impl(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    m, x = np.broadcast_arrays(m, x)
    result = np.full(x.shape, np.nan, x.dtype)
    for order in np.unique(m):
        if order >= 0 and order == np.floor(order) and np.isfinite(order):
            chosen = m == order
            result[chosen] = special.polygamma(int(order), x[chosen])
    return result


def _polygamma_jvp(t: Any, out: Any, m: Any, x: Any) -> Any:
    return mul(t, polygamma(add(m, scalar_like(m, 1)), x))  # ∂ψ⁽ᵐ⁾(x)/∂x = ψ⁽ᵐ⁺¹⁾(x)


def _polygamma_examples() -> list[Example]:
    m, x = integers(2, 3, high=4, dtype=np.float32), positive_numbers()
    shown = [(m, x), (np.float32(1), x), (m, x[0, 0]), (m[:0], x[:0])]
    at_1: Kinks = {(1, 1): {(None, 1): (-2 * _ZETA_3, np.pi**4 / 15, -24.88626612344)}}
    return [Example(args=a, params={}) for a in shown] + kinks_of(at_1)


erf_p = unary(
    "erf",
    special.erf,
    jvp=lambda t, out, x: mul(scalar_like(x, 2 / _ROOT_PI), mul(t, _gaussian(x))),  # d erf(x) = 2/√π e^(−x²) dx
    kinks={0: (2 / _ROOT_PI, 0, -4 / _ROOT_PI)},
    lower=Scalar("erf({0})"),
    doc="Error function.",
)
erfc_p = unary(
    "erfc",
    special.erfc,
    jvp=lambda t, out, x: mul(scalar_like(x, -2 / _ROOT_PI), mul(t, _gaussian(x))),  # d erfc(x) = −2/√π e^(−x²) dx
    kinks={0: (-2 / _ROOT_PI, 0, 4 / _ROOT_PI)},
    lower=Scalar("erfc({0})"),
    doc="1 − erf(x), accurate where it is small.",
)
erf_inv_p = unary(
    "erf_inv",
    special.erf_inv,
    # with y = erf⁻¹(x), dy = √π/2 e^(y²) dx
    jvp=lambda t, out, x: mul(scalar_like(x, _ROOT_PI / 2), mul(t, exp(square(out)))),
    data=lambda: uniform(2, 3, low=-0.9, high=0.9),
    kinks={0: (_ROOT_PI / 2, 0, _ROOT_PI**3 / 4), 1: (np.inf, np.inf, np.inf), -1: (np.inf, -np.inf, np.inf)},
    lower=Scalar("erf_inv({0})"),
    doc="Inverse of the error function.",
)
lgamma_p = unary(
    "lgamma",
    special.lgamma,
    jvp=lambda t, out, x: mul(t, digamma(x)),  # d ln|Γ(x)| = ψ(x) dx
    data=positive_numbers,
    kinks={1: (-np.euler_gamma, np.pi**2 / 6, -2 * _ZETA_3)},
    lower=Scalar("{T}(lgamma(f64({0})))"),
    doc="Logarithm of the magnitude of the gamma function.",
)
digamma_p = unary(
    "digamma",
    special.digamma,
    jvp=lambda t, out, x: mul(t, polygamma(scalar_like(x, 1), x)),  # dψ(x) = ψ⁽¹⁾(x) dx
    data=positive_numbers,
    kinks={1: (np.pi**2 / 6, -2 * _ZETA_3, np.pi**4 / 15), np.inf: (0, 0, 0)},
    lower=Scalar("{T}(digamma(f64({0})))"),
    doc="ψ(x), the logarithmic derivative of the gamma function.",
)
polygamma_p = nary(
    "polygamma",
    _polygamma_impl,
    jvps=[Absent("the order of a derivative is an integer"), _polygamma_jvp],
    lower=Scalar("{T}(polygamma(f64({0}), f64({1})))"),
    doc="ψ⁽ᵐ⁾(x), the m-th derivative of the digamma function.",
    examples=_polygamma_examples,
)
