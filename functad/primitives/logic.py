"""Comparisons, logic, and the choice between values: records whose results decide rather than measure.

Knows no arithmetic; the integer operations on single bits are in `bits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, JointlyLinear, Primitive, Zero, ZeroDerivative
from functad.lowering_rules import Scalar
from functad.primitives.builders import ANY, BITS, FLOATS, KEYS, REALS, binary, by_kind, unary
from functad.primitives.common import (
    broadcast_in_dim,
    instantiate,
    integers,
    is_linear,
    move_axis,
    move_batch_axis_to_front,
    normal,
    zeros_of,
)
from functad.tracing import bind

# --- comparisons ------------------------------------------------------------------------------------


def eq(x: Any, y: Any) -> Any:
    return bind(eq_p, x, y)


def ne(x: Any, y: Any) -> Any:
    return bind(ne_p, x, y)


def lt(x: Any, y: Any) -> Any:
    return bind(lt_p, x, y)


def le(x: Any, y: Any) -> Any:
    return bind(le_p, x, y)


def gt(x: Any, y: Any) -> Any:
    return bind(gt_p, x, y)


def ge(x: Any, y: Any) -> Any:
    return bind(ge_p, x, y)


def is_finite(x: Any) -> Any:
    return bind(is_finite_p, x)


_BOOLEAN = ZeroDerivative("the result is a boolean")


def _comparison(name: str, impl: Any, kinds: str, text: str, doc: str) -> Primitive:
    lower = Scalar(text)
    return binary(name, impl, jvps=_BOOLEAN, kinds=kinds, result_dtype=dtypes.bool_, lower=lower, doc=doc)


eq_p = _comparison("eq", np.equal, ANY + KEYS, "{0} == {1}", "x = y.")
ne_p = _comparison("ne", np.not_equal, ANY + KEYS, "{0} != {1}", "x ≠ y.")
lt_p = _comparison("lt", np.less, REALS + "b", "{0} < {1}", "x < y.")
le_p = _comparison("le", np.less_equal, REALS + "b", "{0} <= {1}", "x ≤ y.")
gt_p = _comparison("gt", np.greater, REALS + "b", "{0} > {1}", "x > y.")
ge_p = _comparison("ge", np.greater_equal, REALS + "b", "{0} >= {1}", "x ≥ y.")
is_finite_p = unary(
    "is_finite",
    np.isfinite,
    jvp=_BOOLEAN,
    kinds=FLOATS,
    result_dtype=dtypes.bool_,
    lower=Scalar("is_finite({0})"),
    doc="Whether x is neither infinite nor NaN.",
)

# --- logic, element by element or bit by bit --------------------------------------------------------


def and_(x: Any, y: Any) -> Any:
    return bind(and_p, x, y)


def or_(x: Any, y: Any) -> Any:
    return bind(or_p, x, y)


def xor(x: Any, y: Any) -> Any:
    return bind(xor_p, x, y)


def not_(x: Any) -> Any:
    return bind(not_p, x)


_DISCRETE = ZeroDerivative("operands and result are discrete")


def _logical(name: str, impl: Any, text: str, doc: str) -> Primitive:
    return binary(
        name,
        impl,
        jvps=_DISCRETE,
        kinds=BITS,
        lower=Scalar(text),
        data=lambda: (integers(2, 3, low=-9), integers(2, 3, low=-9, seed=1)),
        doc=doc,
    )


and_p = _logical("and", np.bitwise_and, "{0} & {1}", "Both; of integers bit by bit.")
or_p = _logical("or", np.bitwise_or, "{0} | {1}", "At least one of two; of integers bit by bit.")
xor_p = _logical("xor", np.bitwise_xor, "{0} ^ {1}", "Exactly one of two; of integers bit by bit.")
not_p = unary(
    "not",
    np.invert,
    jvp=_DISCRETE,
    kinds=BITS,
    data=lambda: integers(2, 3, low=-9),
    lower=Scalar(by_kind("~{0}", b="not {0}")),
    doc="The opposite of every bit.",
)

# --- select_n ---------------------------------------------------------------------------------------


def select_n(which: Any, *cases: Any) -> Any:
    """Element by element, the case of that number: `cases[0]` where a boolean `which` is False.

    which is boolean (two cases) or integer (clamped to the number of cases), of the cases' shape or rank 0.
    """
    return bind(select_n_p, which, *cases)


def _select_n_aval(which: Aval, *cases: Aval) -> Aval:
    if not cases:
        raise ShapeError("select_n needs at least one case")
    if any(not c.same_type(cases[0]) for c in cases):
        types = ", ".join(c.str_short() for c in cases)
        raise (ShapeError if any(c.shape != cases[0].shape for c in cases) else DTypeError)(
            f"select_n takes cases of one shape and dtype, but was given {types}; "
            "broadcast and convert them first, or use functad.numpy.where"
        )
    if which.shape not in ((), cases[0].shape):
        raise ShapeError(
            f"select_n: `which` of shape {which.shape} must be a scalar or have the shape of the cases, "
            f"{cases[0].shape}; broadcast it first, or use functad.numpy.where"
        )
    if kind_of(which.dtype) not in "biu" or (kind_of(which.dtype) == "b" and len(cases) > 2):
        raise DTypeError(
            f"select_n: `which` of type {which.str_short()} cannot choose among {len(cases)} cases: "
            "it must be boolean for at most two cases, or an integer"
        )
    return Aval(cases[0].shape, cases[0].dtype)


def _select_n_impl(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) == 2 and kind_of(which.dtype) == "b":
        return np.where(which, cases[1], cases[0])
    if kind_of(which.dtype) == "u":  # before a large number becomes a negative one
        which = np.minimum(which, np.uint64(len(cases) - 1))
    which = which.astype(np.intp)
    if len(cases) <= _MOST_CHOICES:
        return np.choose(which, cases, mode="clip")
    which = np.clip(which, 0, len(cases) - 1)
    out = np.empty_like(cases[0])
    for k, case in enumerate(cases):
        np.copyto(out, case, where=which == k)
    return out


_MOST_CHOICES = 63  # that np.choose takes, besides what chooses


def _select_n_text(operands: Sequence[np.dtype]) -> str:
    which, *cases = operands
    if len(cases) == 2 and kind_of(which) == "b":
        return "where({0}, {2}, {1})"
    return _choice(0, len(cases) - 1)


def _choice(first: int, last: int) -> str:
    """The text of a choice among these cases, by halves: Python takes no more than 200 parentheses in one another."""
    if first == last:
        return f"{{{first + 1}}}"
    middle = (first + last - 1) // 2
    return f"where({{0}} <= {middle}, {_choice(first, middle)}, {_choice(middle + 1, last)})"


def _select_n_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any]) -> Any:
    if all(isinstance(t, Zero) for t in tangents[1:]):
        return Zero(Aval(out.shape, out.dtype))
    return select_n(primals[0], *[instantiate(t) for t in tangents[1:]])


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    zeros = zeros_of(aval_of(ct))
    chosen: list[Any] = [None]
    for i, case in enumerate(cases):
        arriving = [ct if i == j else zeros for j in range(len(cases))]
        chosen.append(select_n(which, *arriving) if is_linear(case) else None)
    return chosen


def _select_n_batch(axis_size: int, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    which, *cases = args
    avals = [aval_of(a) for a in args]
    layouts = {(a.shape, d) for a, d in zip(avals[1:], dims[1:])}
    if avals[0].shape != ():
        layouts.add((avals[0].shape, dims[0]))
    if len(layouts) == 1 and dims[1] is not None:  # nothing needs to move
        return select_n(which, *cases), dims[1]
    cases = [move_batch_axis_to_front(c, d, axis_size) for c, d in zip(cases, dims[1:])]
    if dims[0] is not None or avals[0].shape != ():
        shape = aval_of(cases[0]).shape
        if dims[0] is not None:
            which = move_axis(which, dims[0], 0)
            kept = range(aval_of(which).ndim)
        else:
            kept = range(1, len(shape))
        which = broadcast_in_dim(which, shape=shape, broadcast_dimensions=kept)
    return select_n(which, *cases), 0


def _select_n_examples() -> list[Example]:
    x, y, z = (normal(2, 3, seed=seed) for seed in range(3))
    flags = integers(2, 3, high=2, dtype=np.bool_)
    return [
        Example(args=(flags, x, y), params={}),
        Example(args=(np.True_, x, y), params={}),
        Example(args=(flags[0, 0], x[0, 0], y[0, 0]), params={}),
        Example(args=(integers(2, 3, low=-1, high=4), x, y, z), params={}),
        Example(args=(np.int32(1), x, y, z), params={}),
        Example(args=(flags, x), params={}),
        Example(args=(flags[:0], x[:0], y[:0]), params={}),
        Example(args=(flags, integers(2, 3), integers(2, 3, seed=1)), params={}, differentiable=False),
    ]


select_n_p = Primitive(
    name="select_n",
    doc="Element by element, one of several cases.",
    multiple_results=False,
    abstract_eval=_select_n_aval,
    impl=_select_n_impl,
    jvp=JointlyLinear(_select_n_jvp, slice(1, None)),
    transpose=_select_n_transpose,
    batch=_select_n_batch,
    lower=Scalar(_select_n_text, all_dtypes=True),
    examples=_select_n_examples,
)
