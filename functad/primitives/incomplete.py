"""Element-wise incomplete gamma and beta functions, Bessel functions and the Hurwitz zeta function.

Knows no numerical algorithms: those are in `kernels.incomplete`, `kernels.bessel` and `kernels.special`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.dtypes import finfo
from functad.evaluation import aval_of
from functad.ir import Absent, Example
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import abs, add, div, mul, neg, sign, sub
from functad.primitives.builders import FLOATS, Kinks, binary, kinks_of, nary, unary
from functad.primitives.common import broadcast_in_dim, convert_element_type, full_like, scalar_like, uniform
from functad.primitives.joining import concatenate, unstack
from functad.primitives.kernels import bessel, incomplete, special
from functad.primitives.logic import eq, gt, lt, select_n
from functad.primitives.special_functions import lgamma
from functad.primitives.transcendental import exp, log, log1p, sqrt
from functad.tracing import bind

_NO_FORMULA = Absent("its derivative there has no elementary formula; differentiate in the last argument only")


def zeta(x: Any, q: Any) -> Any:
    return bind(zeta_p, x, q)


def igamma(a: Any, x: Any) -> Any:
    return bind(igamma_p, a, x)


def igammac(a: Any, x: Any) -> Any:
    return bind(igammac_p, a, x)


def betainc(a: Any, b: Any, x: Any) -> Any:
    return bind(regularized_incomplete_beta_p, a, b, x)


def igamma_grad_a(a: Any, x: Any) -> Any:
    """∂P(a, x)/∂a; 0 at the ends x = 0 and x = ∞."""
    out = _slope_in_order(convert_element_type(a, np.float64), convert_element_type(x, np.float64))
    return convert_element_type(out, aval_of(a).dtype)


def random_gamma_grad(a: Any, x: Any) -> Any:
    """dx/da at constant P(a, x): how a random number of the gamma distribution moves with its parameter."""
    order, at = convert_element_type(a, np.float64), convert_element_type(x, np.float64)
    out = neg(div(_slope_in_order(order, at), _gamma_density(order, at)))
    return convert_element_type(out, aval_of(a).dtype)


# The central difference of eighth order (B. Fornberg, Mathematics of Computation 51, 1988), and its step: with it the
# rounding of P and what the formula leaves out are of one size, 1e−12.
_DIFFERENCE = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_STEP = 0.06


def _slope_in_order(a: Any, x: Any) -> Any:
    """∂P/∂a in float64: of P, or of 1 − P where that is smaller."""
    is_below = lt(x, a)

    def tail(orders: Any, is_below: Any, x: Any) -> Any:
        return select_n(is_below, igammac(orders, x), igamma(orders, x))

    slope = _slope_of_tail(tail, a, a, is_below, x)
    return select_n(is_below, neg(slope), slope)


def _slope_of_tail(tail: Callable[..., Any], order: Any, sharpness: Any, *others: Any) -> Any:
    """How a tail of a distribution changes with its order, by differences in ln order of ln tail.

    tail: a function of orders and of `others`, called once with all orders, stacked in front.
    sharpness: within 1/√sharpness of ln order the tail changes much.
    """
    shape = max((aval_of(v).shape for v in (order, sharpness, *others)), key=len)
    step = div(np.float64(_STEP), sqrt(add(sharpness, np.float64(1))))
    near = range(-len(_DIFFERENCE), len(_DIFFERENCE) + 1)
    orders = [_in_rows(mul(order, exp(mul(step, np.float64(k)))), 1, shape) for k in near]
    parts = unstack(tail(concatenate(orders, 0), *[_in_rows(v, len(near), shape) for v in others]))
    logs = {k: log(part) for k, part in zip(near, parts) if k}
    terms = [mul(sub(logs[k], logs[-k]), np.float64(c)) for k, c in enumerate(_DIFFERENCE, 1)]
    slope = div(add(add(terms[0], terms[1]), add(terms[2], terms[3])), mul(step, order))
    part = parts[len(_DIFFERENCE)]
    slope = mul(part, slope)
    return select_n(eq(part, np.float64(0)), slope, full_like(slope, 0))  # at an end all orders have the same tail


def _in_rows(x: Any, count: int, shape: tuple[int, ...]) -> Any:
    """So many rows of a shape, each of which is x."""
    dimensions = range(1, 1 + len(aval_of(x).shape))
    return broadcast_in_dim(x, shape=(count, *shape), broadcast_dimensions=tuple(dimensions))


def _betainc_slope(a: Any, b: Any, x: Any) -> Any:
    """∂I_x(a, b)/∂a: of I, or of 1 − I = I_(1−x)(b, a) where that is smaller; 0 at the ends x = 0 and x = 1."""
    dtype = aval_of(a).dtype
    a, b, x = (convert_element_type(v, np.float64) for v in (a, b, x))
    is_below, rest = lt(x, div(a, add(a, b))), sub(np.float64(1), x)

    def tail(orders: Any, is_below: Any, b: Any, x: Any, rest: Any) -> Any:
        return select_n(is_below, betainc(b, orders, rest), betainc(orders, b, x))

    slope = _slope_of_tail(tail, a, div(mul(a, b), add(a, b)), is_below, b, x, rest)
    return convert_element_type(select_n(is_below, neg(slope), slope), dtype)


def bessel_i0e(x: Any) -> Any:
    return bind(bessel_i0e_p, x)


def bessel_i1e(x: Any) -> Any:
    return bind(bessel_i1e_p, x)


def _minus_one(x: Any) -> Any:
    return sub(x, scalar_like(x, 1))


def _gamma_density(a: Any, x: Any) -> Any:
    """x^(a−1) e^−x / Γ(a)."""
    return exp(sub(sub(mul(_minus_one(a), log(x)), x), lgamma(a)))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a−1) (1−x)^(b−1) / B(a, b)."""
    log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(mul(_minus_one(a), log(x)), mul(_minus_one(b), log1p(neg(x))))
    return exp(sub(powers, log_beta))


def _i1e_slope(out: Any, x: Any) -> Any:
    """I0e(x) − I1e(x) (sign(x) + 1/x), and at 0 its limit."""
    tiny = scalar_like(x, float(finfo(x.dtype).eps))
    is_apart = gt(abs(x), tiny)
    apart = select_n(is_apart, full_like(x, float(finfo(x.dtype).eps)), x)
    slope = sub(bessel_i0e(apart), add(mul(out, sign(apart)), div(out, apart)))
    return select_n(is_apart, full_like(x, 0.5), slope)


def _orders_and_points() -> tuple[np.ndarray, np.ndarray]:
    return uniform(2, 3, low=0.5, high=4.0), uniform(2, 3, low=0.3, high=5.0, seed=1)


def _betainc_examples() -> list[Example]:
    a, b = _orders_and_points()
    x = uniform(2, 3, low=0.1, high=0.9, seed=2)
    shown = [(a, b, x), (a[0, 0], b, x), (a, b[0, 0], x), (a, b, x[0, 0]), (a[0, 0], b[0, 0], x[0, 0])]
    shown.append((a[:0], b[:0], x[:0]))
    ends: Kinks = {(2, 1, 0): {(None, None, 1): (0, np.nan, np.nan)}, (2, 2, 1): {(None, None, 1): (0, np.nan, np.nan)}}
    return [Example(args=args, params={}) for args in shown] + kinks_of(ends)


zeta_p = binary(
    "zeta",
    special.zeta,
    # ∂ζ(x, q)/∂q = −x ζ(x + 1, q)
    jvps=[_NO_FORMULA, lambda t, out, x, q: mul(t, mul(neg(x), zeta(add(x, scalar_like(x, 1)), q)))],
    kinds=FLOATS,
    data=lambda: (uniform(2, 3, low=1.5, high=4.0), uniform(2, 3, low=0.5, high=3.0, seed=1)),
    kinks={(2, 1): {(None, 1): (-2.404113806319, 6.49393940227, -24.88626612344)}},  # −2 ζ(3), 6 ζ(4), −24 ζ(5)
    lower=Scalar("{T}(zeta(f64({0}), f64({1})))"),
    doc="Hurwitz zeta function, the sum of (q + k)^−x over k >= 0.",
)
igamma_p = binary(
    "igamma",
    incomplete.igamma,
    jvps=[
        lambda t, out, a, x: mul(t, igamma_grad_a(a, x)),
        lambda t, out, a, x: mul(t, _gamma_density(a, x)),
    ],  # ∂P/∂x = x^(a−1) e^−x / Γ(a)
    kinds=FLOATS,
    data=_orders_and_points,
    kinks={(1 / 2, 0): {(None, 1): (np.inf, -np.inf, np.inf)}, (2, 0): {(None, 1): (0, np.nan, np.nan)}},
    lower=Scalar("{T}(igamma(f64({0}), f64({1})))"),
    doc="P(a, x), the regularised lower incomplete gamma function.",
)
igammac_p = binary(
    "igammac",
    incomplete.igammac,
    jvps=[
        lambda t, out, a, x: neg(mul(t, igamma_grad_a(a, x))),
        lambda t, out, a, x: neg(mul(t, _gamma_density(a, x))),
    ],  # ∂Q/∂x = −x^(a−1) e^−x / Γ(a)
    kinds=FLOATS,
    data=_orders_and_points,
    kinks={(1 / 2, 0): {(None, 1): (-np.inf, np.inf, -np.inf)}, (2, 0): {(None, 1): (0, np.nan, np.nan)}},
    lower=Scalar("{T}(igammac(f64({0}), f64({1})))"),
    doc="Q(a, x) = 1 − P(a, x), the regularised upper incomplete gamma function.",
)
regularized_incomplete_beta_p = nary(
    "regularized_incomplete_beta",
    incomplete.betainc,
    jvps=[
        lambda t, out, a, b, x: mul(t, _betainc_slope(a, b, x)),
        lambda t, out, a, b, x: neg(mul(t, _betainc_slope(b, a, sub(scalar_like(x, 1), x)))),
        lambda t, out, a, b, x: mul(t, _beta_density(a, b, x)),
    ],  # ∂I/∂b = −∂I_(1−x)(b, a)/∂b, ∂I/∂x = x^(a−1) (1−x)^(b−1) / B(a, b)
    lower=Scalar("{T}(betainc(f64({0}), f64({1}), f64({2})))"),
    doc="I_x(a, b), the regularised incomplete beta function.",
    examples=_betainc_examples,
)
bessel_i0e_p = unary(
    "bessel_i0e",
    bessel.bessel_i0e,
    jvp=lambda t, out, x: mul(t, sub(bessel_i1e(x), mul(sign(x), out))),  # d I0e(x) = (I1e(x) − sign(x) I0e(x)) dx
    kinks={0: (0, 1 / 2, 0), np.inf: (0, 0, 0)},
    lower=Scalar("bessel_i0e({0})"),
    doc="e^−|x| I0(x), the modified Bessel function of order 0, scaled.",
)
bessel_i1e_p = unary(
    "bessel_i1e",
    bessel.bessel_i1e,
    jvp=lambda t, out, x: mul(t, _i1e_slope(out, x)),  # d I1e(x) = (I0e(x) − I1e(x) (sign(x) + 1/x)) dx
    kinks={0: (1 / 2, 0, 0), np.inf: (0, 0, 0)},
    lower=Scalar("bessel_i1e({0})"),
    doc="e^−|x| I1(x), the modified Bessel function of order 1, scaled.",
)
