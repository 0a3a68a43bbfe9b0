"""Two loops become one: a scan joins a loop whose stacks it reads, and a `while` loop one that takes the same steps.

Knows loops by their parts; nothing of what bodies compute. So the loop of a function and that of its derivative run
once, and forward mode stores nothing. Two `while` loops take the same steps if their conditions are one function of
values that start and go on alike; equal equations are found by numbering values, whatever the names.
"""

from __future__ import annotations

from functad.editing.common_subexpressions import atom_key, share_common_subexpressions
from functad.editing.substitution import Substitution
from functad.ir import Atom, Eqn, Program
from functad.optimize.loops.parts import Scan, WhileLoop, first_of_equal


def fuse(first: Scan | WhileLoop, second: Scan) -> Substitution:
    """Let a loop run the body of a scan, too; slices of the loop's results that this reads are those results."""
    given: dict[Atom, Atom] = {result: atom for atom, result in first.ys}
    second.substitute(Substitution((v, given[a]) for a, v in second.xs if a in given))
    second.xs = [(a, v) for a, v in second.xs if a not in given]
    first.join(second)
    for pairs in (first.consts, first.xs):  # both may read the same
        names = first_of_equal(pairs)
        pairs[:] = [(a, v) for a, v in pairs if names[v] is v]
        first.substitute(names)
    if isinstance(first, Scan):
        first.is_linear = first.is_linear and second.is_linear
    return Substitution()


def merge(one: WhileLoop, two: WhileLoop) -> Substitution | None:
    """Let one loop take the steps of both; gives for results of the second those of the first that they equal."""
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
    return Substitution((c.result, leads[g].result) for g, c in zip(groups, carries) if leads[g] is not c)


def _shared(eqns: list[Eqn], outvars: list[Atom], names: Substitution) -> tuple[Atom, ...]:
    """What stands for results of equations once equal ones are one."""
    program = Program([], (), (), names.within(eqns), names.read_all(outvars))
    return share_common_subexpressions(program).outvars
