"""Pullbacks of operations as plain functions of NumPy: each rule is recorded once, and printed.

The rule of an element-wise operation is recorded once for all shapes; the transpose of any other for each type of its
operands, from the second time on, so that what is met once costs no recording. Knows no trace that is in progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from functad.device_arrays import gpus
from functad.ir import Aval, JointlyLinear, Primitive, UndefinedPrimal
from functad.lowering_rules import Scalar
from functad.tracing import Op
from functad.transforms.at_once import RealOp
from functad.transforms.printed import PrintedOnReuse, in_brackets, printed, recorded

DiagonalShare = Callable[..., Any]  # (cotangent, result, *operands) -> what arrives at an operand, not yet summed
Transpose = Callable[..., Sequence[Any]]  # (cotangent, *operands) -> what arrives at each operand asked for


def pullback_of(op: Op, share: DiagonalShare, bare: bool) -> DiagonalShare:
    """How a cotangent comes from the result of an element-wise operation to an operand, where both are real.

    share: that operand's in the `Diagonal` rule.
    bare: whether it is to run in `run_bare`.
    """
    args = op.args
    dtype: np.dtype = op.outs[0].aval.dtype
    # GPUs have arrays that are none of NumPy's, and exponents may be integers.
    if not bare or gpus or (type(op) is not RealOp and any([a.dtype is not dtype for a in args])):
        return partial(share, **op.params)
    params = op.params
    if params:
        return _printed_if_plain(share, len(args), dtype, *params.items())
    return _printed_if_plain(share, len(args), dtype)


@lru_cache(1024)
def _printed_if_plain(share: DiagonalShare, operands: int, dtype: np.dtype, *params: tuple[str, Any]) -> DiagonalShare:
    """A share of a rule, printed unless it is `Zero` or made of other operations than element-wise ones."""
    share = partial(share, **dict(params))
    program = recorded(lambda *values: [share(*values)], [Aval((1,), dtype)] * (2 + operands), "pullback")
    if program is None or not all(isinstance(e.primitive.lower, Scalar) for e in program.eqns):
        return share
    # NumPy takes a scalar sooner than an array of rank 0.
    form, value = "".join, "._value[()]"
    return printed(program.invars, program.eqns, program.outvars, form, value=value, otherwise=share)


def transpose_of(op: Op, places: tuple[int, ...], bare: bool) -> Transpose:
    """How a cotangent comes from the only result of an operation to the operands at `places`.

    places: the operands that have tangents. It is linear in all of them, or, if it is its own derivative, in each.
    bare: whether it is to run in `run_bare`.
    """
    if bare and not gpus:
        out = op.outs[0].aval
        types = [(out.shape, out.dtype), *[(v.shape, v.dtype) for v in op.values]]
        found = _transposes(op.primitive, places, *types, *op.params.items())
        transpose = found.function or found.met(_printed_transpose, op.primitive, places, types, op.params)
        if transpose is not None:
            return transpose
    return _transpose_by_rule(op.primitive, places, [op.args[i].aval for i in places], op.params)


@lru_cache(1024)
def _transposes(*signature: Any) -> PrintedOnReuse:
    return PrintedOnReuse()


def _printed_transpose(
    primitive: Primitive,
    places: tuple[int, ...],
    types: Sequence[tuple[tuple[int, ...], np.dtype]],
    params: dict[str, Any],
) -> Transpose:
    """The transpose, printed if it is made of operations with one result each. types: of the cotangent and operands."""
    out, *operands = [Aval(*of) for of in types]
    rule = _transpose_by_rule(primitive, places, [operands[i] for i in places], params)
    program = recorded(rule, [out, *operands], f"transpose_of_{primitive.name}")
    if program is None:
        return rule
    return printed(program.invars, program.eqns, program.outvars, in_brackets, value="._value", otherwise=rule)


def _transpose_by_rule(
    primitive: Primitive, places: tuple[int, ...], avals: Sequence[Aval], params: dict[str, Any]
) -> Transpose:
    unknown = [(i, UndefinedPrimal(aval)) for i, aval in zip(places, avals)]
    groups = [unknown] if type(primitive.jvp) is JointlyLinear else [[each] for each in unknown]

    def transpose(arriving: Any, *operands: Any) -> Sequence[Any]:
        cotangents = []
        for group in groups:
            args = [*operands]
            for i, primal in group:
                args[i] = primal
            found = primitive.transpose(arriving, *args, **params)
            cotangents += [found[i] for i, _ in group]
        return cotangents

    return transpose
