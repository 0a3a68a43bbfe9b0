"""Builders that make whole records for families of operations: unary, binary and other element-wise ones.

Knows the rules that every member of a family shares; a member gives its formula only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import DtypeTable, kind_of, refuse_keys
from functad.errors import DifferentiationError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Diagonal, Example, Primitive, Zero, ZeroDerivative
from functad.lowering_rules import Scalar
from functad.primitives.common import (
    NOT_LINEAR,
    add_cotangents,
    broadcast_in_dim,
    full,
    move_axis,
    normal,
)
from functad.tracing import bind

FLOATS = "f"  # dtype kinds: f float, c complex, i signed, u unsigned, b bool
INEXACT = "fc"
NUMBERS = "fciu"
REALS = "fiu"
INTEGERS = "iu"
BITS = "iub"
ANY = "fciub"
KEYS = "k"

Agreed = tuple[float, float, float]  # derivatives of order 1, 2, 3: see `Example`
Direction = tuple[float | None, ...]
Kinks = Mapping[tuple[float, ...], Mapping[Direction, Agreed]]  # the agreed derivatives, by point and direction

Row = Sequence[float]
RowKinks = Sequence[tuple[Row, Row, Agreed]]  # arrays of rank 1, a direction, and the agreed derivatives along it

ResultDtype = np.dtype | Callable[[np.dtype], np.dtype] | None  # None: that of the operands

NO_KINKS: Mapping[Any, Any] = {}

_KIND_NAMES = {"f": "float", "c": "complex", "i": "signed integer", "u": "unsigned integer", "b": "bool", "k": "key"}
_SUGGESTED = {"f": "float32", "i": "int32", "b": "bool", "c": "complex64"}


def elementwise_aval(name: str, kinds: str, result_dtype: ResultDtype, *avals: Aval, **params: Any) -> Aval:
    """The shape rule of every element-wise operation: equal dtypes, and equal shapes or rank 0."""
    first, shape = avals[0].dtype, avals[0].shape
    if len(avals) > 1:
        for a in avals:
            dtype_fits = a.dtype is first or a.dtype == first
            shape_fits = a.shape == shape or not a.shape or not shape
            if not (dtype_fits and shape_fits):
                raise _operand_error(name, kinds, avals)
            shape = shape or a.shape
    if kind_of(first) not in kinds:
        raise _operand_error(name, kinds, avals)
    if result_dtype is None:
        return avals[0] if shape is avals[0].shape and not avals[0].weak_type else Aval(shape, first)
    return Aval(shape, result_dtype(first) if callable(result_dtype) else result_dtype)


def _operand_error(name: str, kinds: str, avals: Sequence[Aval]) -> DTypeError | ShapeError:
    for a in avals:
        check_kind(name, kinds, a)
    types = ", ".join(a.str_short() for a in avals)
    if len({a.dtype for a in avals}) > 1:
        return DTypeError(
            f"{name} takes operands of one dtype, but was given {types}; "
            "functad.numpy promotes by itself, functad.lax wants x.astype(...)"
        )
    return ShapeError(
        f"{name} takes operands of equal shape (or scalars), but was given {types}; "
        "functad.numpy broadcasts by itself, functad.lax wants broadcast_in_dim"
    )


def check_kind(name: str, kinds: str, x: Aval) -> None:
    """Raise unless the dtype of x is of one of the kinds."""
    if kind_of(x.dtype) not in kinds:
        refuse_keys(name, x.dtype)
        accepted = ", ".join(_KIND_NAMES[k] for k in kinds)
        dtype = next(suggested for kind, suggested in _SUGGESTED.items() if kind in kinds)
        raise DTypeError(
            f"{name} takes {accepted}, but was given {x.str_short()}; "
            f"convert it first, for instance with x.astype('{dtype}')"
        )


def by_kind(text: str, **others: str) -> Callable[..., str]:
    """A scalar expression for kernels, and others for operands of some kinds of dtype: `b="..."`, `c="..."`."""
    return lambda dtype, **params: others.get(kind_of(dtype), text)


def by_dtype(text: str, **others: str) -> Callable[..., str]:
    """A scalar expression for kernels, and others for operands of some dtypes: `float16="..."`."""
    texts = DtypeTable(lambda dtype: others.get(dtype.name, text))
    return lambda dtype, **params: texts[dtype]


def elementwise_batch(
    primitive: Callable[[], Primitive],
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    **params: Any,
) -> tuple[Any, int]:
    """The batch rule of every element-wise operation, whatever its number of operands and results."""
    avals = [aval_of(a) for a in args]
    mapped = {(a.shape, d) for a, d in zip(avals, dims) if d is not None}
    unmapped_are_scalars = all(a.shape == () for a, d in zip(avals, dims) if d is None)
    if len(mapped) == 1 and unmapped_are_scalars:  # nothing needs to move
        ((_, dim),) = mapped
        assert dim is not None
        return bind(primitive(), *args, **params), dim
    rank = max(a.ndim - (d is not None) for a, d in zip(avals, dims))
    full_shape: tuple[int, ...] = ()
    for a, d in zip(avals, dims):
        if a.ndim - (d is not None) == rank:
            unbatched = a.shape if d is None else a.shape[:d] + a.shape[d + 1 :]
            full_shape = (axis_size, *unbatched)
    aligned = []
    for arg, a, d in zip(args, avals, dims):
        if d is None and a.shape == ():
            aligned.append(arg)
        elif d is None:
            aligned.append(broadcast_in_dim(arg, shape=full_shape, broadcast_dimensions=range(1, rank + 1)))
        else:
            front = move_axis(arg, d, 0)
            aligned.append(broadcast_in_dim(front, shape=full_shape, broadcast_dimensions=range(a.ndim)))
    return bind(primitive(), *aligned, **params), 0


def kinks_of(points: Kinks, **params: Any) -> list[Example]:
    """Examples of an element-wise operation: its agreed derivatives, for each point along some directions."""
    return [
        Example(
            args=tuple(np.float32(x) for x in point),
            params=params,
            along=tuple(v if v is None else np.float32(v) for v in direction),
            agreed=agreed,
        )
        for point, directions in points.items()
        for direction, agreed in directions.items()
    ]


def kinks_of_rows(rows: RowKinks, **params: Any) -> list[Example]:
    """Examples of an operation on one array of rank 1: its agreed derivatives."""
    return [
        Example(args=(np.array(x, np.float32),), params=params, along=(np.array(v, np.float32),), agreed=agreed)
        for x, v, agreed in rows
    ]


def _rule_of_one(share: Callable[..., Any]) -> Callable[..., Any]:
    """The jvp rule of an operation with one operand, whose tangent is never `Zero` (the rule would not run)."""
    return lambda primals, out, tangents, **params: share(tangents[0], out, primals[0], **params)


def nary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvps: Sequence[Callable[..., Any] | Absent | None] | ZeroDerivative | Absent,
    doc: str,
    kinds: str = FLOATS,
    result_dtype: ResultDtype = None,
    abstract_eval: Callable[..., Aval] | None = None,
    transpose: Any = NOT_LINEAR,
    lower: Scalar,
    examples: Callable[[], list[Example]],
    pullbacks: Sequence[Callable[..., Any] | None] | None = None,
) -> Primitive:
    """An element-wise operation of any number of operands of one dtype.

    jvps: for each operand `(tangent, out, *primals, **params) -> its share of the tangent` (or `Zero`);
    None for an operand whose derivative is zero, `Absent` for one that has none.
    abstract_eval: a shape rule where `elementwise_aval` of the accepted kinds does not do.
    pullbacks: the same shares, with their factors in the order in which a transposed share takes them, where results
        are to be the same to the bit.
    """

    def jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
        assert not isinstance(jvps, (ZeroDerivative, Absent))
        total: Any = None
        for i, (rule, t) in enumerate(zip(jvps, tangents)):
            if rule is None or isinstance(t, Zero):
                continue
            if isinstance(rule, Absent):
                raise DifferentiationError(f"`{name}` has no derivative in its argument {i}: {rule.why}")
            term = rule(t, out, *primals, **params)
            if isinstance(term, Zero):
                continue
            if term.shape != out.shape:  # a scalar operand's tangent
                term = full(out.shape, term)
            total = term if total is None else add_cotangents(total, term)
        return Zero(Aval(out.shape, out.dtype)) if total is None else total

    rule: Any = jvp
    if isinstance(jvps, (ZeroDerivative, Absent)):
        rule = jvps
    else:
        alone = None if len(jvps) > 1 or isinstance(jvps[0], Absent) else jvps[0]
        rule = Diagonal(_rule_of_one(alone) if alone else jvp, pullbacks or jvps)

    made = Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=abstract_eval or partial(elementwise_aval, name, kinds, result_dtype),
        impl=impl,
        jvp=rule,
        transpose=transpose,
        batch=lambda size, args, dims, **params: elementwise_batch(lambda: made, size, args, dims, **params),
        lower=lower,
        examples=examples,
    )
    return made


def unary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: Callable[..., Any] | ZeroDerivative | Absent,
    doc: str,
    kinds: str = FLOATS,
    result_dtype: ResultDtype = None,
    abstract_eval: Callable[..., Aval] | None = None,
    transpose: Any = NOT_LINEAR,
    lower: Scalar,
    data: Callable[[], np.ndarray] = lambda: normal(2, 3),
    complex_data: Callable[[], np.ndarray] | None = None,
    params: Sequence[dict[str, Any]] = ({},),
    tolerance: float = 1e-5,
    kinks: Mapping[float, Agreed] | Callable[..., Mapping[float, Agreed]] = NO_KINKS,
) -> Primitive:
    """An element-wise operation of one operand; `jvp(tangent, out, x, **params)`.

    data: the points of its examples, away from kinks and poles; they are shown in rank 0 and empty, too.
    params: the parameters to show, each with the data.
    kinks: 0, kinks and ends of the domain, and the derivatives of order 1, 2, 3 that are agreed on there; or a function
        of the parameters that gives them.
    """

    def examples() -> list[Example]:
        x = data()
        arrays = [x] if complex_data is None else [x, complex_data()]
        shown = [(a, p) for a in arrays for p in params]
        shown += [(a, params[0]) for a in (x.ravel()[0], x[:0])]
        differentiable = kind_of(x.dtype) in "fc"
        away = [Example(args=(a,), params=p, differentiable=differentiable, tolerance=tolerance) for a, p in shown]
        return away + [example for p in params for example in at_kinks(p)]

    def at_kinks(p: dict[str, Any]) -> list[Example]:
        points = kinks(**p) if callable(kinks) else kinks
        return kinks_of({(x,): {(1,): agreed} for x, agreed in points.items()}, **p)

    return nary(
        name,
        impl,
        jvps=jvp if isinstance(jvp, (ZeroDerivative, Absent)) else [jvp],
        doc=doc,
        kinds=kinds,
        result_dtype=result_dtype,
        abstract_eval=abstract_eval,
        transpose=transpose,
        lower=lower,
        examples=examples,
    )


def binary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvps: Sequence[Callable[..., Any] | Absent | None] | ZeroDerivative | Absent,
    doc: str,
    kinds: str = NUMBERS,
    result_dtype: ResultDtype = None,
    abstract_eval: Callable[..., Aval] | None = None,
    transpose: Any = NOT_LINEAR,
    lower: Scalar,
    data: Callable[[], tuple[np.ndarray, np.ndarray]] = lambda: (normal(2, 3), normal(2, 3, seed=1)),
    tolerance: float = 1e-5,
    kinks: Kinks = NO_KINKS,
    pullbacks: Sequence[Callable[..., Any] | None] | None = None,
) -> Primitive:
    """An element-wise operation of two operands; each of `jvps` is `(tangent, out, x, y)`.

    data: the points of its examples, away from kinks and poles; shown on equal shapes, with a scalar on
    either side, in rank 0, and empty.
    kinks: ties, kinks and ends of the domain; the derivatives that are agreed on there along some directions.
    """

    def examples() -> list[Example]:
        x, y = data()
        x0, y0 = x.ravel()[0], y.ravel()[0]
        pairs = [(x, y), (x0, y), (x, y0), (x0, y0), (x[:0], y[:0])]
        differentiable = kind_of(x.dtype) in "fc"
        away = [Example(args=p, params={}, differentiable=differentiable, tolerance=tolerance) for p in pairs]
        return away + kinks_of(kinks)

    return nary(
        name,
        impl,
        jvps=jvps,
        doc=doc,
        kinds=kinds,
        result_dtype=result_dtype,
        abstract_eval=abstract_eval,
        transpose=transpose,
        lower=lower,
        examples=examples,
        pullbacks=pullbacks,
    )
