"""Builders that make whole records for families of operations: unary, binary and other element-wise ones.

Knows the rules that every member of a family shares; a member gives its formula only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.errors import DTypeError, ShapeError
from functad.ir import Aval, Example, Primitive, Zero, ZeroDerivative
from functad.primitives.common import (
    NOT_LINEAR,
    add_cotangents,
    aval_of,
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

_KIND_NAMES = {"f": "float", "c": "complex", "i": "signed integer", "u": "unsigned integer", "b": "bool"}


def elementwise_aval(name: str, kinds: str, dtype: np.dtype | None, *avals: Aval) -> Aval:
    """The shape rule of every element-wise operation: equal dtypes, and equal shapes or rank 0."""
    first = avals[0]
    for a in avals:
        if a.dtype.kind not in kinds:
            accepted = ", ".join(_KIND_NAMES[k] for k in kinds)
            raise DTypeError(
                f"{name} takes {accepted}, but was given {a.str_short()}; "
                "convert it first, for instance with x.astype('float32')"
            )
        if a.dtype != first.dtype:
            types = ", ".join(a.str_short() for a in avals)
            raise DTypeError(
                f"{name} takes operands of one dtype, but was given {types}; functad.numpy promotes by itself, "
                "functad.lax wants x.astype(...)"
            )
    shapes = {a.shape for a in avals if a.shape}
    if len(shapes) > 1:
        types = ", ".join(a.str_short() for a in avals)
        raise ShapeError(
            f"{name} takes operands of equal shape (or scalars), but was given {types}; "
            "functad.numpy broadcasts by itself, functad.lax wants broadcast_in_dim"
        )
    return Aval(shapes.pop() if shapes else (), dtype or first.dtype)


def elementwise_batch(
    primitive: Callable[[], Primitive], axis_size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any
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


def nary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvps: Sequence[Callable[..., Any] | None] | ZeroDerivative,
    doc: str,
    kinds: str = FLOATS,
    result_dtype: np.dtype | None = None,
    transpose: Any = NOT_LINEAR,
    examples: Callable[[], list[Example]],
) -> Primitive:
    """An element-wise operation of any number of operands of one dtype.

    jvps: for each operand `(tangent, out, *primals) -> its contribution to the tangent`, or None for zero.
    """
    record: list[Primitive] = []

    def jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
        assert not isinstance(jvps, ZeroDerivative)
        total: Any = None
        for rule, t in zip(jvps, tangents):
            if rule is None or isinstance(t, Zero):
                continue
            term = rule(t, out, *primals, **params)
            if aval_of(term).shape != out.shape:  # a scalar operand's tangent
                term = full(out.shape, term)
            total = term if total is None else add_cotangents(total, term)
        return Zero(Aval(out.shape, out.dtype)) if total is None else total

    record.append(
        Primitive(
            name=name,
            doc=doc,
            multiple_results=False,
            abstract_eval=lambda *avals, **params: elementwise_aval(name, kinds, result_dtype, *avals),
            impl=impl,
            jvp=jvps if isinstance(jvps, ZeroDerivative) else jvp,
            transpose=transpose,
            batch=lambda size, args, dims, **params: elementwise_batch(
                lambda: record[0], size, args, dims, **params
            ),
            examples=examples,
        )
    )
    return record[0]


def unary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: Callable[..., Any] | ZeroDerivative,
    doc: str,
    kinds: str = FLOATS,
    result_dtype: np.dtype | None = None,
    transpose: Any = NOT_LINEAR,
    data: Callable[[], np.ndarray] = lambda: normal(2, 3),
    tolerance: float = 1e-5,
) -> Primitive:
    """An element-wise operation of one operand; `jvp(tangent, out, x)`; `data` gives its example."""
    flat = isinstance(jvp, ZeroDerivative)
    return nary(
        name,
        impl,
        jvps=jvp if isinstance(jvp, ZeroDerivative) else [jvp],
        doc=doc,
        kinds=kinds,
        result_dtype=result_dtype,
        transpose=transpose,
        examples=lambda: [Example(args=(data(),), params={}, differentiable=not flat, tolerance=tolerance)],
    )


def binary(
    name: str,
    impl: Callable[..., Any],
    *,
    jvps: Sequence[Callable[..., Any] | None] | ZeroDerivative,
    doc: str,
    kinds: str = NUMBERS,
    result_dtype: np.dtype | None = None,
    transpose: Any = NOT_LINEAR,
    data: Callable[[], tuple[np.ndarray, np.ndarray]] = lambda: (normal(2, 3), normal(2, 3, seed=1)),
    tolerance: float = 1e-5,
) -> Primitive:
    """An element-wise operation of two operands, shown on equal shapes and with a scalar on either side."""
    flat = isinstance(jvps, ZeroDerivative)

    def examples() -> list[Example]:
        x, y = data()
        pairs = [(x, y), (x.ravel()[0], y), (x, y.ravel()[0])]
        return [Example(args=p, params={}, differentiable=not flat, tolerance=tolerance) for p in pairs]

    return nary(
        name,
        impl,
        jvps=jvps,
        doc=doc,
        kinds=kinds,
        result_dtype=result_dtype,
        transpose=transpose,
        examples=examples,
    )
