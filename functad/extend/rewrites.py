"""What rules and passes of a user's make, held to what the optimiser relies on: types stay, Programs are well formed.

Knows Programs and rules; not what a rule or a pass does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.editing.contracts import check_stage
from functad.editing.rewriting import Rule, View
from functad.errors import CustomRuleError, ProgramError
from functad.ir import Atom, Aval, Eqn, Literal, Program, Var


def checked_rule(rule: Rule) -> Rule:
    """A rule which raises where it makes what cannot stand for an equation.

    Raises:
        CustomRuleError: at its use: it has made something else than an atom or equations, or of other types.
    """

    def make(eqn: Eqn, view: View) -> Atom | Eqn | Sequence[Eqn] | None:
        made = rule.make(eqn, view)
        if made is None or made is eqn:
            return None
        given, wanted = _types_made(made, eqn), [v.aval for v in eqn.outvars]
        if given is None or not _same_types(given, wanted):
            raise CustomRuleError(
                f"the rule {rule.name!r} of the optimiser made "
                f"({'nothing that it can be' if given is None else _text(given)}) of `{eqn.primitive.name}` at "
                f"{eqn.source}, which gives ({_text(wanted)}): return an atom of that type, equations that define all "
                "of eqn.outvars, or None"
            )
        return made

    return Rule(rule.name, rule.of, make, rule.because)


def _types_made(made: Any, eqn: Eqn) -> list[Aval] | None:
    """The types of what is to stand for the results of an equation; None if it is neither an atom nor equations."""
    if isinstance(made, (Var, Literal)):
        return [made.aval]
    eqns = made if isinstance(made, Sequence) else [made]
    if not all(isinstance(e, Eqn) for e in eqns):
        return None
    defined = {v for e in eqns for v in e.outvars}
    return [v.aval for v in eqn.outvars if v in defined]


def checked_pass(name: str, run: Callable[[Program], Program]) -> Callable[[Program], Program]:
    """A pass, from Program to Program, which raises where it does not keep the contract that all passes keep.

    Raises:
        CustomRuleError: at its use: it made no Program, or one that is not well formed, or takes or gives other types.
    """
    what = f"the pass {name!r} of the optimiser"

    def checked(program: Program) -> Program:
        made = run(program)
        if not isinstance(made, Program):
            raise CustomRuleError(
                f"{what} gave a {type(made).__name__} for the Program of `{program.name}`: return a Program, "
                "such as program.replace(eqns=equations), or the one that it was given"
            )
        for verb, given, wanted in (
            ("takes", made.in_avals, program.in_avals), ("gives", made.out_avals, program.out_avals),
        ):  # fmt: skip
            if not _same_types(given, wanted):
                raise CustomRuleError(
                    f"{what} made a Program of `{program.name}` that {verb} ({_text(given)}), not ({_text(wanted)}): "
                    "a pass keeps inputs and results, their number and their types"
                )
        if made.constvars:
            raise CustomRuleError(f"{what} made a Program of `{program.name}` with constants: write them as Literals")
        try:
            check_stage(made, "inlined")
        except ProgramError as problem:
            raise CustomRuleError(f"{what} made a Program that no later pass takes: {problem}") from problem
        return made

    return checked


def _same_types(given: Sequence[Aval], wanted: Sequence[Aval]) -> bool:
    return len(given) == len(wanted) and all(map(Aval.same_type, given, wanted))


def _text(avals: Sequence[Aval]) -> str:
    return ", ".join(a.str_short() for a in avals)
