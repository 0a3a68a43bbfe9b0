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
from functad.ir import Aval, JointlyLinear, Primitive, Program, UndefinedPrimal
from functad.lowering_rules import Scalar
from functad.tracing import Op
from functad.transforms.at_once import RealOp
from functad.transforms.printed import printed, recorded

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
    program = recorded(lambda *values: [share(*values)], [Aval((1,), dtype)] * (2 + operands))
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
        operands = tuple([(v.shape, v.dtype) for v in op.values])
        return _transposes(op.primitive, places, (out.shape, out.dtype), operands, *op.params.items()).function()
    return _transpose_by_rule(op.primitive, places, [op.args[i].aval for i in places], op.params)


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


def _transpose_of_program(program: Program, rule: Transpose) -> Transpose:
    def form(texts: list[str]) -> str:
        return f"[{', '.join(texts)}]"

    return printed(program.invars, program.eqns, program.outvars, form, value="._value", otherwise=rule)


class _TransposeOfTypes:
    """The transpose of an operation on operands of known types."""

    def __init__(self, rule: Transpose, avals: Sequence[Aval]) -> None:
        self._rule = rule
        self._avals = avals  # of the cotangent and the operands
        self._printed: Transpose | None = None
        self._is_known = False

    def function(self) -> Transpose:
        """The rule; from the second time on, what is printed of it."""
        if self._printed is None:
            if not self._is_known:
                self._is_known = True
                return self._rule
            program = recorded(self._rule, self._avals)
            self._printed = self._rule if program is None else _transpose_of_program(program, self._rule)
        return self._printed


@lru_cache(1024)
def _transposes(
    primitive: Primitive,
    places: tuple[int, ...],
    out: tuple[tuple[int, ...], np.dtype],
    operands: tuple[tuple[tuple[int, ...], np.dtype], ...],
    *params: tuple[str, Any],
) -> _TransposeOfTypes:
    avals = [Aval(*of) for of in (out, *operands)]
    rule = _transpose_by_rule(primitive, places, [avals[1 + i] for i in places], dict(params))
    return _TransposeOfTypes(rule, avals)
