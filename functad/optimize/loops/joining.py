"""Two loops become one: a scan joins a loop whose stacks it reads, and a `while` loop one that takes the same steps.

Knows `while` and `scan` equations by their parts; nothing of what bodies compute. So the loop of a function and that of
its derivative run once, and forward mode stores nothing. Two `while` loops take the same steps if their conditions are
one function of values that start and go on alike; equal equations are found by numbering values, whatever the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from functad.control.scan import scan_p
from functad.control.while_loop import while_p
from functad.editing.common_subexpressions import atom_key, share_common_subexpressions
from functad.editing.substitution import Substitution
from functad.ir import UNKNOWN, Atom, Eqn, Program, has_effects
from functad.optimize.loops.parts import Scan, WhileLoop, first_of_equal, take_scan_apart, take_while_apart


def fuse_scans(program: Program) -> Program:
    """Join scans of equal length and direction where the second reads slices of what the first stacks.

    >>> import functad
    >>> from functad import lax
    >>> def twice(xs):
    ...     doubled = lax.map(lambda x: x * 2, xs)
    ...     return lax.scan(lambda total, x: (total + x, None), 0., doubled)[0]
    >>> program = functad.make_jaxpr(twice)(functad.ShapeDtypeStruct((50,), "float32"))
    >>> [e.primitive.name for e in fuse_scans(program).eqns]
    ['scan']
    """
    return _join_pairs(program, _readers_of_stacks)


def merge_whiles(program: Program) -> Program:
    """Make one loop of any two that take the same steps, also of one that stacks values and a `scan` that reads them.

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
    return _join_pairs(program, _behind_whiles)


def _join_pairs(program: Program, pairs: Callable[[list[Eqn]], Iterator[tuple[int, int]]]) -> Program:
    """Join two loops as long as some can be. pairs: the places of those that are tried."""
    eqns, outvars = list(program.eqns), list(program.outvars)
    while (joined := next(filter(None, (_join(eqns, *pair) for pair in pairs(eqns))), None)) is not None:
        eqns, renamed = joined
        outvars = renamed.read_all(outvars)
    return program if eqns == list(program.eqns) else program.replace(eqns=eqns, outvars=outvars)


def _readers_of_stacks(eqns: list[Eqn]) -> Iterator[tuple[int, int]]:
    """Scans, and later ones of the same steps that read what they stack."""
    stacked: dict[Atom, int] = {}  # by which scan
    for j, eqn in enumerate(eqns):
        if eqn.primitive is scan_p and eqn.params["length"] != UNKNOWN:
            for i in sorted({stacked[a] for a in eqn.invars if a in stacked}, reverse=True):
                if all(eqn.params[name] == eqns[i].params[name] for name in ("length", "reverse", "unroll")):
                    yield i, j
            stacked.update((v, j) for v in eqn.outvars[eqn.params["num_carry"] :])


def _behind_whiles(eqns: list[Eqn]) -> Iterator[tuple[int, int]]:
    """Loops of unknown length, and later ones, and scans that go forward through stacks of such."""
    loops: list[int] = []
    for j, eqn in enumerate(eqns):
        over_stacks = eqn.primitive is scan_p and eqn.params["length"] == UNKNOWN and not eqn.params["reverse"]
        if over_stacks or eqn.primitive is while_p:
            yield from ((i, j) for i in loops)
        loops += [j] if eqn.primitive is while_p else []


def _join(eqns: list[Eqn], i: int, j: int) -> tuple[list[Eqn], Substitution] | None:
    """The equations with one loop for two, and what stands for results that it has not; None if they stay two."""
    if any(has_effects(e) for e in eqns[i : j + 1]):
        return None
    before, waiting = eqns[:i], set(eqns[i].outvars)
    after: list[Eqn] = []
    for eqn in eqns[i + 1 : j]:
        waits = not waiting.isdisjoint(eqn.invars)
        waiting.update(eqn.outvars if waits else ())
        (after if waits else before).append(eqn)
    first, second = (_parts(e) for e in (eqns[i], eqns[j]))
    stacks = {v for _, v in first.ys}
    if not waiting.isdisjoint([*second.same_operands, *(a for a, _ in second.xs if a not in stacks)]):
        return None
    if isinstance(second, Scan):
        renamed = _fuse(first, second)
    else:
        renamed = _merge(first, second) if isinstance(first, WhileLoop) else None
    return None if renamed is None else ([*before, first.eqn(), *renamed.within([*after, *eqns[j + 1 :]])], renamed)


def _parts(eqn: Eqn) -> Scan | WhileLoop:
    return take_while_apart(eqn) if eqn.primitive is while_p else take_scan_apart(eqn, copy=True)


def _fuse(first: Scan | WhileLoop, second: Scan) -> Substitution | None:
    """Let a loop run the body of a scan, too; slices of the loop's results that this reads are those results."""
    given: dict[Atom, Atom] = {result: atom for atom, result in first.ys}
    second.substitute(Substitution((v, given[a]) for a, v in second.xs if a in given))
    second.xs = [(a, v) for a, v in second.xs if a not in given]
    if isinstance(first, WhileLoop) and second.xs:
        return None  # it may take other steps
    first.join(second)
    for pairs in (first.consts, first.xs):  # both may read the same
        names = first_of_equal(pairs)
        pairs[:] = [(a, v) for a, v in pairs if names[v] is v]
        first.substitute(names)
    if isinstance(first, Scan):
        first.is_linear = first.is_linear and second.is_linear
    return Substitution()


def _merge(one: WhileLoop, two: WhileLoop) -> Substitution | None:
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
