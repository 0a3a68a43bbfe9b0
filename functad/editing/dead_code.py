"""Dead code elimination: drop the equations whose results nobody uses.

Equations with effects, calls of Python functions, stay.
"""

from __future__ import annotations

from functad.ir import Eqn, Program, Var, has_effects
from functad.lowering_rules import ControlFlow
from functad.primitives.barrier import optimization_barrier_p


def eliminate_dead_code(program: Program) -> Program:
    """The Program without equations and constants that its outputs do not need; the inputs stay."""
    needed = {v for v in program.outvars if isinstance(v, Var)}
    kept = []
    for eqn in reversed(program.eqns):
        if any(v in needed for v in eqn.outvars) or has_effects(eqn):
            if eqn.primitive is optimization_barrier_p:
                eqn = _only_needed(eqn, needed)
            elif isinstance(eqn.primitive.lower, ControlFlow):
                eqn = eqn.primitive.lower.pruned(eqn, needed, eliminate_dead_code)
            kept.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    pairs = [(v, c) for v, c in zip(program.constvars, program.consts) if v in needed]
    if kept[::-1] == list(program.eqns) and len(pairs) == len(program.consts):
        return program
    return program.replace(eqns=kept[::-1], constvars=[v for v, _ in pairs], consts=[c for _, c in pairs])


def _only_needed(barrier: Eqn, needed: set[Var]) -> Eqn:
    """A barrier for those operands only whose results are used: nobody waits for what is dead."""
    pairs = [(a, v) for a, v in zip(barrier.invars, barrier.outvars) if v in needed]
    if len(pairs) == len(barrier.outvars):
        return barrier
    return barrier.replace(invars=[a for a, _ in pairs], outvars=[v for _, v in pairs])
