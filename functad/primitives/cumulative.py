"""Running sums, products, extrema and log-sum-exps along an axis.

Knows nothing of how they are computed: that is in `kernels.sorting`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import ShapeError
from functad.ir import Aval, Example, OwnDerivative, Primitive, Zero
from functad.lowering_rules import Loops, Running
from functad.primitives.builders import FLOATS, NUMBERS, RowKinks, check_kind, kinks_of_rows
from functad.primitives.common import NOT_LINEAR, add_cotangents, full_like, integers, normal, scalar_like
from functad.primitives.elementwise import (
    add,
    eq,
    exp,
    is_finite,
    log,
    max,
    min,
    mul,
    select_n,
    stop_gradient,
    sub,
)
from functad.primitives.joining import concatenate
from functad.primitives.kernels import sorting as kernels
from functad.primitives.loops import running
from functad.primitives.ordering import share_of_extremum
from functad.primitives.reduction import slice_along
from functad.primitives.structure import pad, rev
from functad.tracing import bind


def cumsum(operand: Any, *, axis: int = 0, reverse: bool = False) -> Any:
    """Running sum along an axis, from its end if `reverse`."""
    return bind(cumsum_p, operand, axis=axis, reverse=reverse)


def cumprod(operand: Any, *, axis: int = 0, reverse: bool = False) -> Any:
    """Running product along an axis, from its end if `reverse`."""
    return bind(cumprod_p, operand, axis=axis, reverse=reverse)


def cummax(operand: Any, *, axis: int = 0, reverse: bool = False) -> Any:
    """Running maximum along an axis, from its end if `reverse`; NaN persists."""
    return bind(cummax_p, operand, axis=axis, reverse=reverse)


def cummin(operand: Any, *, axis: int = 0, reverse: bool = False) -> Any:
    """Running minimum along an axis, from its end if `reverse`; NaN persists."""
    return bind(cummin_p, operand, axis=axis, reverse=reverse)


def cumlogsumexp(operand: Any, *, axis: int = 0, reverse: bool = False) -> Any:
    """Running logarithm of the sum of exponentials along an axis, from its end if `reverse`."""
    return bind(cumlogsumexp_p, operand, axis=axis, reverse=reverse)


# --- what they share --------------------------------------------------------------------------------


def _cumulative(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: Any,
    lower: Running | Loops,
    kinds: str,
    doc: str,
    transpose: Any = NOT_LINEAR,
    kinks: RowKinks = (),
) -> Primitive:
    def abstract_eval(x: Aval, *, axis: int, reverse: bool) -> Aval:
        check_kind(name, kinds, x)
        if not 0 <= axis < x.ndim:
            raise ShapeError(
                f"{name}: axis={axis} does not fit an operand of shape {x.shape}; it must lie in 0..{x.ndim - 1}"
            )
        return Aval(x.shape, x.dtype)

    def batch(axis_size: int, args: Any, dims: Any, *, axis: int, reverse: bool) -> tuple[Any, int]:
        ((x,), (dim,)) = args, dims
        return bind(made, x, axis=axis + (axis >= dim), reverse=reverse), dim

    def examples() -> list[Example]:
        shown = [
            (normal(5), 0, False),
            (normal(4, 3), 0, True),
            (normal(2, 6), 1, False),
            (normal(3, 7), 1, True),
        ]
        shown += [(normal(1), 0, False), (normal(0, 2), 0, False), (normal(2, 0), 0, True)]
        if "i" in kinds:
            shown.append((integers(2, 4), 1, False))
        if "c" in kinds:
            shown.append((np.array([[1 + 2j, 1 - 2j, -1], [2, 0.5j, 2 + 1j]], np.complex64), 1, False))
        away = [
            Example(args=(x,), params={"axis": axis, "reverse": reverse}, differentiable=kind_of(x.dtype) == "f")
            for x, axis, reverse in shown
        ]
        return away + kinks_of_rows(kinks, axis=0, reverse=False)

    made = Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=transpose,
        batch=batch,
        lower=lower,
        examples=examples,
    )
    return made


class _Combination:
    """An associative operation with two operands, and the tangent of its result."""

    def __init__(self, value: Callable[[Any, Any], Any], tangent: Callable[..., Any]) -> None:
        self.value = value  # (a, b) -> out
        self.tangent = tangent  # (a, b, out, tangent of a, tangent of b) -> tangent of out


def _scan_jvp(combination: _Combination) -> Callable[..., Any]:
    """The derivative of a running combination, in a logarithmic number of steps."""

    def jvp(primals: Any, out: Any, tangents: Any, *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        if isinstance(t, Zero):
            return t
        if not reverse:
            return _scan_tangents(combination, x, out, t, axis)
        x, out, t = (rev(a, (axis,)) for a in (x, out, t))
        return rev(_scan_tangents(combination, x, out, t, axis), (axis,))

    return jvp


def _scan_tangents(combination: _Combination, x: Any, out: Any, t: Any, axis: int) -> Any:
    """Tangents of `out`, the running combinations of x: a scan of pairs gives every other one of them."""
    n = x.shape[axis]
    if n < 2:
        return t

    def part(a: Any, start: int, limit: int = n) -> Any:
        return slice_along(a, axis, start, limit, 2)

    first, second = part(x, 0, n - 1), part(x, 1)
    paired = combination.value(first, second)
    t_paired = combination.tangent(first, second, paired, part(t, 0, n - 1), part(t, 1))
    t_odd = _scan_tangents(combination, paired, part(out, 1), t_paired, axis)
    t_even = slice_along(t, axis, 0, 1)
    if n > 2:
        before = slice_along(t_odd, axis, 0, (n - 1) // 2)
        later = combination.tangent(part(out, 1, n - 1), part(x, 2), part(out, 2), before, part(t, 2))
        t_even = concatenate([t_even, later], axis)
    return _interleave(t_even, t_odd, n, axis)


def _interleave(even: Any, odd: Any, n: int, axis: int) -> Any:
    def spread(a: Any, low: int, high: int) -> Any:
        config = [(low, high, 1) if i == axis else (0, 0, 0) for i in range(len(a.shape))]
        return pad(a, scalar_like(a, 0), config)

    return add_cotangents(spread(even, 0, 1 - n % 2), spread(odd, 1, n % 2))


# --- sum and product --------------------------------------------------------------------------------


cumsum_p = _cumulative(
    "cumsum",
    kernels.cumsum,
    lower=Running("sum"),
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, axis, reverse: [cumsum(ct, axis=axis, reverse=not reverse)],
    kinds=NUMBERS,
    doc="Running sum.",
)
cumprod_p = _cumulative(
    "cumprod",
    kernels.cumprod,
    lower=Running("prod"),
    # d(ab) = b da + a db
    jvp=_scan_jvp(_Combination(mul, lambda a, b, out, ta, tb: add_cotangents(mul(ta, b), mul(a, tb)))),
    kinds=NUMBERS,
    doc="Running product.",
    kinks=[((0, 2, 3), (1, 0, 0), (23, 0, 0)), ((0, 0, 3), (1, 1, 0), (1, 22, 0)), ((0, 0, 0), (1, 1, 1), (1, 4, 18))],
)

# --- extrema ----------------------------------------------------------------------------------------


def _extremum_tangent(a: Any, b: Any, out: Any, ta: Any, tb: Any) -> Any:
    return add_cotangents(share_of_extremum(ta, out, a, b), share_of_extremum(tb, out, b, a))


cummax_p = _cumulative(
    "cummax",
    kernels.cummax,
    lower=Running("max"),
    jvp=_scan_jvp(_Combination(max, _extremum_tangent)),
    kinds=NUMBERS,
    doc="Running maximum.",
    kinks=[((1, 1, 0), (1, 0, 0), (3.5, 0, 0)), ((1, 1, 1), (1, 0, 0), (2.75, 0, 0))],
)
cummin_p = _cumulative(
    "cummin",
    kernels.cummin,
    lower=Running("min"),
    jvp=_scan_jvp(_Combination(min, _extremum_tangent)),
    kinds=NUMBERS,
    doc="Running minimum.",
    kinks=[((0, 0, 2), (1, 0, 0), (3.5, 0, 0)), ((1, 1, 1), (1, 0, 0), (2.75, 0, 0))],
)

# --- log-sum-exp ------------------------------------------------------------------------------------


def _logaddexp(a: Any, b: Any) -> Any:
    larger = stop_gradient(max(a, b))
    shift = select_n(is_finite(larger), full_like(larger, 0), larger)  # infinity minus itself is NaN
    return add(log(add(exp(sub(a, shift)), exp(sub(b, shift)))), shift)


def _logaddexp_tangent(a: Any, b: Any, out: Any, ta: Any, tb: Any) -> Any:
    # d ln(e^a + e^b) = e^(a − out) da + e^(b − out) db
    return add_cotangents(mul(ta, _weight(a, out)), mul(tb, _weight(b, out)))


def _weight(x: Any, out: Any) -> Any:
    """e^(x − out), and 1 where both are infinite."""
    return exp(sub(_zero_where_infinite(x), _zero_where_infinite(out)))


def _zero_where_infinite(x: Any) -> Any:
    return select_n(eq(x, scalar_like(x, np.inf)), x, full_like(x, 0))


cumlogsumexp_p = _cumulative(
    "cumlogsumexp",
    kernels.cumlogsumexp,
    lower=Loops(running.cumulative_logsumexp_rule),
    jvp=_scan_jvp(_Combination(_logaddexp, _logaddexp_tangent)),
    kinds=FLOATS,
    doc="Running logarithm of the sum of exponentials.",
    kinks=[((1, 1, 1), (1, -2, 0.5), (-1 / 2, 29 / 3, -77 / 18)), ((-np.inf, 0, 0), (1, 0, 0), (1, 0, 0))],
)
