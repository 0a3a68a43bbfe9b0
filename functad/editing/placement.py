"""Programs of which all runs on one device, whatever they put on others. Knows the records' rule `Placement` only."""

from __future__ import annotations

from functad.editing.substitution import Substitution
from functad.ir import Program, all_eqns, memoised, with_subprograms
from functad.lowering_rules import Placement


def on_one_device(program: Program) -> Program:
    """The Program, and those within, with operands in the place of what puts them on devices; itself if none does."""
    return memoised(program, ("on one device",), lambda: _without_placements(program))


def _without_placements(program: Program) -> Program:
    if not any(isinstance(e.primitive.lower, Placement) for e in all_eqns(program.eqns)):
        return program
    known = Substitution()
    eqns = []
    for eqn in program.eqns:
        eqn = known.within_one(eqn)
        if isinstance(eqn.primitive.lower, Placement):
            known.update(zip(eqn.outvars, eqn.invars))
        else:
            eqns.append(eqn.replace(params=with_subprograms(eqn.params, on_one_device)))
    return program.replace(eqns=eqns, outvars=known.read_all(program.outvars))
