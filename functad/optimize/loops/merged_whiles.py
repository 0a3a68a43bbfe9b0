"""Merges loops of unknown length that take the same steps: a loop, and the one that its derivative runs again.

Knows `while` and `scan` equations by their parts. Two `while` loops take the same steps if their conditions are one
function of values that start and go on alike; equal equations are found by numbering values, so names do not matter.
"""

from __future__ import annotations

from functad.control import scan_p, while_p
from functad.editing.common_subexpressions import atom_key, share_common_subexpressions
from functad.editing.substitution import Substitution
from functad.ir import UNKNOWN, Atom, Eqn, Program
from functad.optimize.loops.parts import brought_together, first_of_equal, take_apart, take_while_apart


def merge_whiles(program: Program) -> Program:
    """Make one loop of any two that take the same steps, also of one that stacks values and a `scan` that reads them.

    So the loop of a function and that of its derivative run once, and forward mode stacks nothing.

    >>> import functad
    >>> from functad import lax
    >>> def two(x):
    ...     one = lax.while_loop(lambda v: v < 9, lambda v: v * 2, x)
    ...     _, total = lax.while_loop(lambda v: v[0] < 9, lambda v: (v[0] * 2, v[1] + v[0]), (x, 0.))
    ...     return one, total
    >>> program = functad.make_jaxpr(two)(1.)
    >>> [e.primitive.name for e in program.eqns], [e.primitive.name for e in merge_whiles(program).eqns]
    (['while', 'while'], ['while'])
    """
    eqns, outvars = list(program.eqns), list(program.outvars)
    while (merged := _merge_one(eqns)) is not None:
        eqns, renamed = merged
        outvars = renamed.read_all(outvars)
    return program if eqns == list(program.eqns) else program.replace(eqns=eqns, outvars=outvars)


def _merge_one(eqns: list[Eqn]) -> tuple[list[Eqn], Substitution] | None:
    """The equations with one pair of loops merged, and for results that are no more those that equal them; or None."""
    loops = [k for k, e in enumerate(eqns) if e.primitive is while_p]
    for j in (j for j, e in enumerate(eqns) if j in loops or _reads_stacks(e)):
        for i in (i for i in loops if i < j):
            stacks = eqns[i].outvars if _reads_stacks(eqns[j]) else ()
            around = brought_together(eqns, i, j, [a for a in eqns[j].invars if a not in stacks])
            found = around and (_joined if stacks else _merged)(eqns[i], eqns[j])
            if around and found:
                loop, renamed = found
                return [*around[0], loop, *renamed.within(around[1])], renamed
    return None


def _merged(first: Eqn, second: Eqn) -> tuple[Eqn, Substitution] | None:
    """One loop for both, and for results of the second those of the first that they equal."""
    one, two = take_while_apart(first), take_while_apart(second)
    carries = [*one.carries, *two.carries]
    groups = [(atom_key(c.init), c.read.aval) for c in carries]  # carries that may always be equal
    if set(groups[: len(one.carries)]).isdisjoint(groups[len(one.carries) :]):
        return None
    known = first_of_equal([*one.consts, *two.consts]) | first_of_equal([*one.cond_consts, *two.cond_consts])
    while True:
        leads = dict(zip(reversed(groups), reversed(carries)))  # the first of each group
        names = Substitution({**known, **{c.read: leads[g].read for g, c in zip(groups, carries)}})
        nexts = _shared([*one.eqns, *two.eqns], [c.given for c in carries], names)
        refined = [(g, atom_key(a)) for g, a in zip(groups, nexts)]
        if len(set(refined)) == len(leads):
            break
        groups = refined
    goes_on, also = _shared([*one.cond_eqns, *two.cond_eqns], [one.goes_on, two.goes_on], names)
    if goes_on is not also:
        return None
    one.join(two)
    one.consts = [(a, v) for a, v in one.consts if names.read(v) is v]
    one.carries = [c for g, c in zip(groups, carries) if leads[g] is c]
    one.substitute(names)
    one.cond_consts = [(a, v) for a, v in one.cond_consts if names.read(v) is v]
    one.cond_eqns, one.goes_on = names.within(one.cond_eqns), names.read(one.goes_on)
    return one.eqn(), Substitution((c.result, leads[g].result) for g, c in zip(groups, carries) if leads[g] is not c)


def _shared(eqns: list[Eqn], outvars: list[Atom], names: Substitution) -> tuple[Atom, ...]:
    """What stands for results of equations once equal ones are one."""
    program = Program([], (), (), names.within(eqns), names.read_all(outvars))
    return share_common_subexpressions(program).outvars


def _reads_stacks(eqn: Eqn) -> bool:
    """Whether an equation goes forward through what other loops have stacked."""
    return eqn.primitive is scan_p and eqn.params["length"] == UNKNOWN and not eqn.params["reverse"]


def _joined(first: Eqn, second: Eqn) -> tuple[Eqn, Substitution] | None:
    """A loop with the steps of a scan that reads only what the loop stacks."""
    loop, scan = take_while_apart(first), take_apart(second, copy=True)
    given: dict[Atom, Atom] = {result: atom for atom, result in loop.ys}
    if any((a in first.outvars) != (k >= len(scan.operands) - len(scan.xs)) for k, a in enumerate(scan.operands)):
        return None
    scan.substitute(Substitution((v, given[a]) for a, v in scan.xs))
    loop.join(scan)
    return loop.eqn(), Substitution()
