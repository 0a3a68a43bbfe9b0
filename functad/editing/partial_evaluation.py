"""A Program cut in two: what is known before, and the rest; and residuals that are computed again instead of stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from functad import machine_model
from functad.editing.substitution import Substitution
from functad.ir import Eqn, Program, Var, all_eqns, definitions, has_effects
from functad.lowering_rules import ControlFlow, Indexed
from functad.primitives.cost import operations_of


def split_invariant(program: Program, invariant: Sequence[bool]) -> tuple[Program, Program]:
    """Cut a closed Program in two by what depends on its invariant inputs alone.

    Returns `before`, from the invariant inputs to the values that the rest needs, and `after`, from those values and
    all inputs to the results. A loop of unknown length stays: it may never end where the one around it takes no step.
    """
    known: set[Any] = set(compress(program.invars, invariant))
    outside: list[Eqn] = []
    inside: list[Eqn] = []
    for eqn in program.eqns:
        variables = [a for a in eqn.invars if isinstance(a, Var)]
        if all(v in known for v in variables) and not _is_trivial(eqn) and may_move(eqn):
            outside.append(eqn)
            known.update(eqn.outvars)
        else:
            inside.append(eqn)
    made = {v for e in outside for v in e.outvars}
    needed = [a for e in inside for a in e.invars if isinstance(a, Var) and a in made]
    needed += [a for a in program.outvars if isinstance(a, Var) and a in made]
    passed = list(dict.fromkeys(needed))
    before = Program(list(compress(program.invars, invariant)), (), (), outside, passed, f"invariant_{program.name}")
    return before, program.replace(invars=[*passed, *program.invars], eqns=inside)


def may_move(eqn: Eqn) -> bool:
    """Whether an equation may be computed elsewhere, and as often as that takes: it has no effects, and surely ends."""
    return not (eqn.primitive.runs_functions and (has_effects(eqn) or _may_never_end(eqn)))


def _may_never_end(eqn: Eqn) -> bool:
    rules = [e.primitive.lower for e in all_eqns([eqn])]
    return any(isinstance(rule, ControlFlow) and rule.kind == "while" for rule in rules)


def _is_trivial(eqn: Eqn) -> bool:
    """Whether an equation costs less than the memory of its result: what repeats, or numbers, elements."""
    rule = eqn.primitive.lower
    return all(not isinstance(a, Var) for a in eqn.invars) or isinstance(rule, Indexed) and rule.repeats


def _keeps_memory(eqn: Eqn) -> bool:
    rule = eqn.primitive.lower
    return isinstance(rule, Indexed) and rule.same_memory


def recompute_cheap(
    linear: Program, residuals: Sequence[Any], forward: Program, there: set[Var]
) -> tuple[Program, list[Var]]:
    """Let a linear Program compute residuals itself that take next to nothing, from others that it reads anyway.

    residuals: the variables of `forward` that the first inputs of `linear` stand for. there: further variables of
    `forward` that may become residuals at no cost. Returns the Program and its residuals.
    """
    wanted = list(dict.fromkeys(residuals))
    computed: dict[Var, None] = {}  # what the linear Program computes itself

    def sources(var: Var, goal: Var, depth: int = 0) -> dict[Var, None] | None:
        """Cheap results, itself first, that give a variable from what is read anyway; None if there are none."""
        if var in computed or (var is not goal and (var in wanted or var in there)):
            return {}
        eqn = definitions(forward).get(var)
        if eqn is None or depth == machine_model.DEEPEST_RECOMPUTATION:
            return None
        if operations_of(eqn) > machine_model.CHEAP_OPERATIONS and not _keeps_memory(eqn):
            return None
        found: dict[Var, None] = {var: None}
        for operand in eqn.invars:
            more = sources(operand, goal, depth + 1) if isinstance(operand, Var) else {}
            if more is None:
                return None
            found.update(more)
        return found

    for var in reversed(list(wanted)):
        found = None if var in there else sources(var, var)
        if found:
            wanted.remove(var)
            computed.update(found)
    if not computed:
        return linear, list(residuals)
    order = [e for e in forward.eqns if any(v in computed for v in e.outvars)]
    reads = [a for e in order for a in e.invars if isinstance(a, Var) and a not in computed]
    wanted += [a for a in dict.fromkeys(reads) if a not in wanted]
    fresh = Substitution((v, Var(v.aval)) for v in wanted)
    again = fresh.copied(order)
    renamed = Substitution(zip(linear.invars, fresh.read_all(residuals)))
    made = linear.replace(
        invars=[*fresh.read_all(wanted), *linear.invars[len(residuals) :]],
        eqns=[*again, *renamed.within(linear.eqns)],
        outvars=renamed.read_all(linear.outvars),
    )
    return made, wanted
