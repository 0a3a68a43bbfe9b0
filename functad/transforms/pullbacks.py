"""Pullbacks of operations as plain functions of NumPy: each rule is recorded once, and printed.

The rule of an element-wise operation is recorded once for all shapes; the transpose of any other for each type of its
operands, from the second time on, so that what is met once costs no recording. Knows no trace that is in progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.device_arrays import gpus
from functad.evaluation import implementation
from functad.ir import Atom, Aval, Literal, Primitive, Program, UndefinedPrimal
from functad.lowering_rules import Scalar
from functad.observing import observed
from functad.tracing import Op, is_tracer, trace_to_program
from functad.transforms.at_once import RealOp

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
    program = _recorded(lambda *values: [share(*values)], [Aval((1,), dtype)] * (2 + operands))
    if program is not None and all(isinstance(e.primitive.lower, Scalar) for e in program.eqns):
        return _printed(program, share)
    return share


def transpose_of(op: Op, places: tuple[int, ...], bare: bool) -> Transpose:
    """How a cotangent comes from the only result of an operation to the operands at `places`, in which it is linear.

    bare: whether it is to run in `run_bare`.
    """
    if bare and not gpus:
        out = op.outs[0].aval
        operands = tuple([(v.shape, v.dtype) for v in op.values])
        return _transposes(op.primitive, places, (out.shape, out.dtype), operands, *op.params.items()).function()
    return _transpose_by_rule(op.primitive, places, [op.args[i].aval for i in places], op.params)


def _transpose_by_rule(
    primitive: Primitive, places: Sequence[int], avals: Sequence[Aval], params: dict[str, Any]
) -> Transpose:
    def transpose(arriving: Any, *operands: Any) -> Sequence[Any]:
        args = [*operands]
        for i, aval in zip(places, avals):
            args[i] = UndefinedPrimal(aval)
        found = primitive.transpose(arriving, *args, **params)
        return [found[i] for i in places]

    return transpose


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
            program = _recorded(self._rule, self._avals)
            self._printed = self._rule if program is None else _printed(program, self._rule, several=True)
        return self._printed


@lru_cache(4096)
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


def _recorded(rule: Callable[..., Sequence[Any]], avals: Sequence[Aval]) -> Program | None:
    """The Program of a rule that is made of operations with one result each, if all it gives are their results."""
    found: list[Any] = []

    def fun(*values: Any) -> list[Any]:
        found.extend(rule(*values))
        return found if all(map(is_tracer, found)) else []

    with observed(None):
        program = trace_to_program(fun, avals, name="pullback")
    plain = all(not (e.primitive.multiple_results or e.primitive.runs_functions) for e in program.eqns)
    return program if program.outvars and plain and not program.constvars else None


def _printed(program: Program, rule: Callable[..., Any], *, several: bool = False) -> Callable[..., Any]:
    """A Program as an expression of Python, for Arrays and for what `run_bare` gives: its only result, or a list.

    rule: what it is the Program of, as a function of the same operands.

    What is read once stands where it is read, and has no name, which would keep its memory until the end.
    """
    texts: dict[Atom, str] = {v: f"x{i}" for i, v in enumerate(program.invars)}
    namespace: dict[str, Any] = {"Array": ArrayImpl, "rule": rule}
    uses = Counter([*program.outvars, *(a for e in program.eqns for a in e.invars)])

    def text_of(atom: Atom) -> str:
        if isinstance(atom, Literal):
            name = f"number{len(namespace)}"
            namespace[name] = atom.value
            return name
        return texts[atom]

    named = []
    for i, eqn in enumerate(program.eqns):
        run, (result,) = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars]), eqn.outvars
        name = f"{eqn.primitive.name.replace('-', '_')}_{i}"
        namespace[name] = partial(run, **eqn.params) if eqn.params else run
        texts[result] = f"{name}({', '.join(map(text_of, eqn.invars))})"
        if uses[result] > 1:
            named.append(f"y{i} = {texts[result]}")
            texts[result] = f"y{i}"
    value = "_value" if several else "_value[()]"  # a scalar in place of an array of rank 0, which NumPy takes sooner
    values = [f"if type({texts[v]}) is Array: {texts[v]} = {texts[v]}.{value}" for v in program.invars if uses[v]]
    results = ", ".join(map(text_of, program.outvars))
    result_text = f"[{results}]" if several else results
    operands = ", ".join(texts[v] for v in program.invars)
    lines = [
        f"def pullback({operands}):",
        "    try:",
        *[f"        {line}" for line in (*values, *named, f"return {result_text}")],
        "    except MemoryError:",
        f"        return rule({operands})  # which says what there is no memory for",
    ]
    exec(compile("\n".join(lines), "<a printed pullback>", "exec"), namespace)
    function: Callable[..., Any] = namespace["pullback"]
    return function
