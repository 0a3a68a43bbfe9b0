"""Passes of the optimiser that users make: where they stand among functad's own, and what is asked of what they give.

Knows Programs; not what a pass does.
"""

from __future__ import annotations

from collections.abc import Callable

from functad.editing.contracts import check_stage
from functad.errors import CustomRuleError, ProgramError
from functad.ir import Program
from functad.records import Record


class OwnPass(Record):
    """A pass of a user's.

    name:    what it does, in a few words
    run:     from Program to Program
    after:   the name of functad's own pass behind which it runs
    because: why the results are the same: NaN, infinities and signed zeros included
    """

    name: str
    run: Callable[[Program], Program]
    after: str
    because: str


def run_own_pass(own: OwnPass, program: Program) -> Program:
    """What a pass of a user's makes of a Program, held to the contract that all passes keep.

    Raises:
        CustomRuleError: it is no Program, or one that is not well formed, or takes or gives other types.
    """
    made = own.run(program)
    what = f"the pass {own.name!r} of the optimiser"
    if not isinstance(made, Program):
        raise CustomRuleError(
            f"{what} gave a {type(made).__name__} for the Program of `{program.name}`: return a Program, "
            "such as program.replace(eqns=equations), or the one that it was given"
        )
    for which in ("in_avals", "out_avals"):
        given, wanted = getattr(made, which), getattr(program, which)
        if len(given) != len(wanted) or not all(g.same_type(w) for g, w in zip(given, wanted)):
            verb = "takes" if which == "in_avals" else "gives"
            types = [", ".join(aval.str_short() for aval in avals) for avals in (given, wanted)]
            raise CustomRuleError(
                f"{what} made a Program of `{program.name}` that {verb} ({types[0]}), not ({types[1]}): "
                "a pass keeps inputs and results, their number and their types"
            )
    if made.constvars:
        raise CustomRuleError(f"{what} made a Program of `{program.name}` with constants: write them as Literals")
    try:
        check_stage(made, "inlined")
    except ProgramError as problem:
        raise CustomRuleError(f"{what} made a Program that no later pass takes: {problem}") from problem
    return made
