"""Pullbacks of element-wise operations as plain functions of NumPy: each rule is recorded once, and printed.

Knows Programs of element-wise operations, which are the same for all shapes; no trace that is in progress.
"""

from __future__ import annotations

from collections import Counter
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
from functad.transforms.at_once import RealOp

DiagonalShare = Callable[..., Any]  # (cotangent, result, *operands) -> what arrives at an operand, not yet summed


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
    """A Program with one result as an expression of Python, for Arrays and for what `run_bare` gives.

    What is read once stands where it is read, and has no name, which would keep its memory until the end.
    """
    texts: dict[Atom, str] = {v: f"x{i}" for i, v in enumerate(program.invars)}
    namespace: dict[str, Any] = {"Array": ArrayImpl, "share": share}
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
        name = f"{eqn.primitive.name}_{i}"
        namespace[name] = partial(run, **eqn.params) if eqn.params else run
        texts[result] = f"{name}({', '.join(map(text_of, eqn.invars))})"
        if uses[result] > 1:
            named.append(f"y{i} = {texts[result]}")
            texts[result] = f"y{i}"
    values = [f"if type({texts[v]}) is Array: {texts[v]} = {texts[v]}._value[()]" for v in program.invars if uses[v]]
    operands = ", ".join(texts[v] for v in program.invars)
    lines = [
        f"def pullback({operands}):",
        "    try:",
        *[f"        {line}" for line in (*values, *named, f"return {text_of(program.outvars[0])}")],
        "    except MemoryError:",
        f"        return share({operands})  # which says what there is no memory for",
    ]
    exec(compile("\n".join(lines), "<a printed pullback>", "exec"), namespace)
    function: DiagonalShare = namespace["pullback"]
    return function
