"""What is allowed of loops: the one check that all moves of `moves.py` are held to.

Knows equations of loops; nothing of what pays. `may_move` says it of an equation that leaves a loop or goes into one.
Whether what two `while` loops carry goes on alike is found by those who join them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functad.control.scan import scan_p
from functad.ir import UNKNOWN, Atom, Eqn, has_effects
from functad.lowering_rules import ControlFlow
from functad.optimize.loops.devices import optimized_for

Need = Callable[..., bool]  # what must hold of one loop, or of two


def known_steps(*scans: Eqn) -> bool:
    return UNKNOWN not in [e.params["length"] for e in scans]


def steps_of_while(scan: Eqn) -> bool:
    """Whether a scan goes over what a `while` loop stacks."""
    return not known_steps(scan)


def for_derivatives(scan: Eqn) -> bool:
    """Whether a scan computes tangents or cotangents."""
    return bool(scan.params["linear"])


def for_device(scan: Eqn) -> bool:
    """Whether a loop is for a GPU, and not within one that may be one kernel there."""
    return optimized_for().runs == "as launches"


def same_steps(first: Eqn, second: Eqn) -> bool:
    return all(first.params[name] == second.params[name] for name in ("length", "reverse", "unroll"))


def reads_stacks(first: Eqn, second: Eqn) -> bool:
    """Whether a scan reads slices of what the first loop stacks."""
    return not stacks_of(first).isdisjoint(sliced_by(second))


def reads_stacks_alone(first: Eqn, second: Eqn) -> bool:
    """Whether a scan takes the steps of the first loop, as it reads slices of its stacks and of nothing else."""
    forward = steps_of_while(second) and not second.params["reverse"]
    return forward and stacks_of(first).issuperset(sliced_by(second))


def stacks_of(loop: Eqn) -> set[Atom]:
    rule = loop.primitive.lower
    return {*loop.outvars[len(rule.carried(loop)) :]} if isinstance(rule, ControlFlow) else set()


def sliced_by(loop: Eqn) -> Sequence[Atom]:
    """What a loop reads slice by slice: its last operands."""
    params = loop.params
    return loop.invars[params["num_consts"] + params["num_carry"] :] if loop.primitive is scan_p else ()


def apart(eqns: Sequence[Eqn], i: int, j: int) -> tuple[list[Eqn], list[Eqn]] | None:
    """What of the equations between two loops can stand before one loop for both, and the rest; None if none can be.

    The second loop may read slices of what the first stacks; nothing else that it reads may depend on the first.
    """
    if any(has_effects(e) for e in eqns[i : j + 1]):
        return None  # they keep their order
    before: list[Eqn] = []
    after: list[Eqn] = []
    waiting: set[Atom] = {*eqns[i].outvars}
    for eqn in eqns[i + 1 : j]:
        waits = not waiting.isdisjoint(eqn.invars)
        waiting.update(eqn.outvars if waits else ())
        (after if waits else before).append(eqn)
    slices, stacks = sliced_by(eqns[j]), stacks_of(eqns[i])
    needed = [*eqns[j].invars[: len(eqns[j].invars) - len(slices)], *(a for a in slices if a not in stacks)]
    return (before, after) if waiting.isdisjoint(needed) else None
