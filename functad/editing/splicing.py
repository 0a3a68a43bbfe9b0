"""A function of arrays in the place of one equation: recorded, and its equations put where the equation was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.ir import Atom, Eqn, Var
from functad.tracing import trace_to_program


def splice(fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a function of operands, with the source of an equation, and its results as atoms."""
    program = trace_to_program(fun, [a.aval for a in operands])
    assert not program.consts
    names: dict[Var, Atom] = dict(zip(program.invars, operands))

    def read(atom: Atom) -> Atom:
        return names[atom] if isinstance(atom, Var) else atom

    found = []
    for e in program.eqns:
        outs = [Var(v.aval) for v in e.outvars]
        found.append(e.replace(invars=[read(a) for a in e.invars], outvars=outs, source=e.source or eqn.source))
        names.update(zip(e.outvars, outs))
    return found, [read(a) for a in program.outvars]
