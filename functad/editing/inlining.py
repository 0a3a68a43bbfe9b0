"""Calls replaced by what they call, also within loops and branches.

Knows the records' rules `Call`, `Defined` and `ControlFlow` only. After `inline_calls` no pass meets a call at any
depth, and the Programs of loops and branches have no constants: those are operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from functad.editing.placement import on_one_device
from functad.editing.substitution import Substitution
from functad.ir import Eqn, Primitive, Program, Var, memoised, subprograms
from functad.lowering_rules import Call, ControlFlow, Defined
from functad.primitives.barrier import optimization_barrier_p


def _none(primitive: Primitive) -> bool:
    return False


def inline_calls(program: Program, kept: Callable[[Primitive], bool] = _none) -> Program:
    """Replace every call by the equations of the Program that is called; derivative rules have done their work.

    What is to be computed a second time gets its operands through a barrier.
    kept: whether a primitive's calls stay.
    """
    return memoised(program, ("inlined", kept), lambda: _inlined(program, kept))


def _inlined(program: Program, kept: Callable[[Primitive], bool]) -> Program:
    if not any(any(subprograms(e.params)) or isinstance(e.primitive.lower, Defined) for e in program.eqns):
        return program
    known = Substitution()
    eqns: list[Eqn] = []
    constvars, consts = list(program.constvars), list(program.consts)

    def as_operands(inner: Program) -> list[Var]:
        """The constants of an inner Program as constants of this one."""
        fresh = [Var(v.aval) for v in inner.constvars]
        constvars.extend(fresh)
        consts.extend(inner.consts)
        return fresh

    for eqn in program.eqns:
        eqn = known.within_one(eqn)
        rule = eqn.primitive.lower
        if isinstance(rule, ControlFlow):
            eqns.append(rule.closed(eqn, lambda p: inline_calls(p, kept), as_operands))
            continue
        if not isinstance(rule, (Call, Defined)) or kept(eqn.primitive):
            eqns.append(eqn)
            continue
        inner = inline_calls(_called(eqn, rule), kept)
        if isinstance(rule, Call) and rule.again(**eqn.params):
            barrier, eqn = _behind_barrier(eqn)
            eqns.append(barrier)
        names = Substitution(zip((*inner.invars, *inner.constvars), (*eqn.invars, *as_operands(inner))))
        eqns += names.copied(inner.eqns)
        known.update(zip(eqn.outvars, names.read_all(inner.outvars)))
    outvars = known.read_all(program.outvars)
    return program.replace(eqns=eqns, outvars=outvars, constvars=constvars, consts=consts)


def _called(eqn: Eqn, rule: Call | Defined) -> Program:
    if isinstance(rule, Call):
        program = cast(Program, eqn.params[rule.parameter])
        return on_one_device(program) if rule.compiled else program
    return cast(Program, rule.program(*[a.aval for a in eqn.invars], **eqn.params))


def _behind_barrier(eqn: Eqn) -> tuple[Eqn, Eqn]:
    """A barrier for the operands of an equation, and the equation with the barrier's results as operands.

    The cotangents are among them, so nothing is computed again before they are there; and nothing that was computed
    from the operands before is found to be the same.
    """
    passed = Substitution((a, Var(a.aval)) for a in eqn.invars if isinstance(a, Var))
    barrier = eqn.replace(primitive=optimization_barrier_p, invars=list(passed), params={}, outvars=passed.values())
    return barrier, passed.within_one(eqn)
