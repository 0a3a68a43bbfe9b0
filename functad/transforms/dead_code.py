"""Dead code elimination: drop the equations whose results nobody uses.

Knows that primitives have no side effects.
"""

from __future__ import annotations

from functad.ir import Program, Var


def eliminate_dead_code(program: Program) -> Program:
    """The Program without equations and constants that its outputs do not need; the inputs stay."""
    needed = {v for v in program.outvars if isinstance(v, Var)}
    kept = []
    for eqn in reversed(program.eqns):
        if any(v in needed for v in eqn.outvars):
            kept.append(eqn)
            needed.update(v for v in eqn.invars if isinstance(v, Var))
    pairs = [(v, c) for v, c in zip(program.constvars, program.consts) if v in needed]
    if len(kept) == len(program.eqns) and len(pairs) == len(program.consts):
        return program
    return program.replace(eqns=kept[::-1], constvars=[v for v, _ in pairs], consts=[c for _, c in pairs])
