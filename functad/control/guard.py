"""`guarded`: a Program with one more input, a bool; where it is false, no loop of unknown length takes a step.

Under `vmap` a body also runs for examples that need it no longer: their loop has ended, or they take another branch.
What it computes then is thrown away, but a loop in it may never end on such values. The flag says for which it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.ir import Aval, Eqn, Program, Var, memoised, subprograms
from functad.lowering_rules import Call, ControlFlow
from functad.primitives.logic import and_p
from functad.tracing import bind, eval_program, trace_to_program

_FLAG = Aval((), np.dtype(bool))


def guarded(program: Program) -> Program | None:
    """The Program (flag, *inputs) → outputs, or None if there is no loop to guard."""
    return memoised(program, ("guarded",), lambda: _guarded(program) if _has_while(program) else None)


def _has_while(program: Program) -> bool:
    return any(
        _kind(e) == "while"
        or isinstance(e.primitive.lower, Call | ControlFlow)
        and any(map(_has_while, subprograms(e.params)))
        for e in program.eqns
    )


def _guarded(program: Program) -> Program:
    flag = Var(_FLAG)
    return program.replace(invars=[flag, *program.invars], eqns=[_guarded_eqn(e, flag) for e in program.eqns])


def _guarded_eqn(eqn: Eqn, flag: Var) -> Eqn:
    rule, params = eqn.primitive.lower, eqn.params
    if _kind(eqn) == "while":
        more = {"cond_jaxpr": _condition(params["cond_jaxpr"]), "cond_nconsts": params["cond_nconsts"] + 1}
        return eqn.replace(invars=[flag, *eqn.invars], params={**params, **more})
    if _kind(eqn) == "cond" and any(map(_has_while, params["branches"])):
        branches = tuple(guarded(b) or b.replace(invars=[Var(_FLAG), *b.invars]) for b in params["branches"])
        return eqn.replace(invars=[eqn.invars[0], flag, *eqn.invars[1:]], params={**params, "branches": branches})
    held = rule.parameter if isinstance(rule, Call) else "jaxpr"  # of a custom rule only the function is guarded
    body = guarded(params[held]) if isinstance(rule, Call) or _kind(eqn) == "scan" else None
    if body is None:
        return eqn
    number = {"num_consts": params["num_consts"] + 1} if "num_consts" in params else {}
    return eqn.replace(invars=[flag, *eqn.invars], params={**params, held: body, **number})


def _kind(eqn: Eqn) -> str:
    return eqn.primitive.lower.kind if isinstance(eqn.primitive.lower, ControlFlow) else ""


def _condition(cond: Program) -> Program:
    def holds(flag: Any, *args: Any) -> list[Any]:
        (goes_on,) = eval_program(cond, args)
        return [bind(and_p, flag, goes_on)]

    return memoised(
        cond, ("guarded condition",), lambda: trace_to_program(holds, [_FLAG, *cond.in_avals], name=cond.name)
    )
