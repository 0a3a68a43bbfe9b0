"""Pullbacks of element-wise operations as plain functions of NumPy: each rule is recorded once, and printed.

Knows Programs of element-wise operations, which are the same for all shapes; no trace that is in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.device_arrays import gpus
from functad.evaluation import implementation
from functad.ir import Atom, Aval, Literal, Program
from functad.lowering_rules import Scalar
from functad.observing import observed
from functad.tracing import Op, is_tracer, trace_to_program

DiagonalShare = Callable[..., Any]  # (cotangent, result, *operands) -> what arrives at an operand, not yet summed


def pullback_of(op: Op, share: DiagonalShare, bare: bool) -> DiagonalShare:
    """How a cotangent comes from the result of an element-wise operation to an operand, where both are real.

    share: that operand's in the `Diagonal` rule.
    bare: whether it is to run in `run_bare`.
    """
    args = op.args
    dtype: np.dtype = op.outs[0].aval.dtype
    # GPUs have arrays that are none of NumPy's, and exponents may be integers.
    if not bare or gpus or (len(args) > 1 and any([a.dtype is not dtype for a in args])):
        return partial(share, **op.params)
    return _printed_if_plain(share, len(args), dtype, *op.params.items())


@lru_cache(1024)
def _printed_if_plain(share: DiagonalShare, operands: int, dtype: np.dtype, *params: tuple[str, Any]) -> DiagonalShare:
    """A share of a rule, printed unless it is `Zero` or made of other operations than element-wise ones."""
    share = partial(share, **dict(params))
    found: list[Any] = []

    def rule(*values: Any) -> list[Any]:
        found.append(share(*values))
        return found if is_tracer(found[0]) else []

    with observed(None):
        program = trace_to_program(rule, [Aval((1,), dtype)] * (2 + operands), name="pullback")
    if program.outvars and all(isinstance(e.primitive.lower, Scalar) for e in program.eqns):
        return _printed(program, share)
    return share


def _printed(program: Program, share: DiagonalShare) -> DiagonalShare:
    """A Program with one result as straight-line Python, for Arrays and for what `run_bare` gives."""
    names = {v: f"x{i}" for i, v in enumerate(program.invars)}
    namespace: dict[str, Any] = {"Array": ArrayImpl, "share": share}

    def name_of(atom: Atom) -> str:
        if isinstance(atom, Literal):
            name = f"number{len(namespace)}"
            namespace[name] = atom.value
            return name
        return names[atom]

    body = []
    for i, eqn in enumerate(program.eqns):
        run = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars])
        namespace[f"run{i}"] = partial(run, **eqn.params) if eqn.params else run
        names[eqn.outvars[0]] = f"y{i}"
        body.append(f"y{i} = run{i}({', '.join(map(name_of, eqn.invars))})  # {eqn.primitive.name}")
    read = {a for e in program.eqns for a in e.invars} | {*program.outvars}
    values = [f"if type({names[v]}) is Array: {names[v]} = {names[v]}._value[()]" for v in program.invars if v in read]
    operands = ", ".join(names[v] for v in program.invars)
    lines = [
        f"def pullback({operands}):",
        "    try:",
        *[f"        {line}" for line in (*values, *body, f"return {name_of(program.outvars[0])}")],
        "    except MemoryError:",
        f"        return share({operands})  # which says what there is no memory for",
    ]
    exec(compile("\n".join(lines), "<a printed pullback>", "exec"), namespace)
    function: DiagonalShare = namespace["pullback"]
    return function
