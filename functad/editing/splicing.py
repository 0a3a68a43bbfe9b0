"""A function of arrays in the place of one equation: recorded, and its equations put where the equation was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.editing.substitution import Substitution
from functad.ir import Atom, Eqn
from functad.tracing import trace_to_program
from functad.user_source import set_source, transforming


def splice(fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a function of operands, with the source of an equation, and its results as atoms."""
    with transforming():
        set_source(eqn.source)
        program = trace_to_program(fun, [a.aval for a in operands])
    assert not program.consts
    names = Substitution(zip(program.invars, operands))
    eqns = [e.replace(source=e.source or eqn.source) for e in names.copied(program.eqns)]
    return eqns, names.read_all(program.outvars)
