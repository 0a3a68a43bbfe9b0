"""Merges loops of unknown length that take the same steps: a loop, and the one that its derivative runs again.

Knows `while` and `scan` equations by their parts. Two `while` loops take the same steps if their conditions are one
function of values that start and go on alike; equal equations are found by numbering values, so names do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from functad.control import scan_p, while_p
from functad.editing.common_subexpressions import atom_key, equation_key
from functad.ir import UNKNOWN, Atom, Eqn, Program, Var, has_effects


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
        outvars = [renamed.get(a, a) if isinstance(a, Var) else a for a in outvars]
    return program if eqns == list(program.eqns) else program.replace(eqns=eqns, outvars=outvars)


def _merge_one(eqns: list[Eqn]) -> tuple[list[Eqn], dict[Var, Var]] | None:
    """The equations with one pair of loops merged, and for results that are no more those that equal them; or None."""
    loops = [k for k, e in enumerate(eqns) if e.primitive is while_p]
    for j in (j for j, e in enumerate(eqns) if j in loops or _reads_stacks(e)):
        for i in (i for i in loops if i < j and not any(has_effects(e) for e in eqns[i : j + 1])):
            before: list[Eqn] = []
            after: list[Eqn] = []
            dependent = set(eqns[i].outvars)
            for eqn in eqns[i + 1 : j]:
                waits = any(isinstance(a, Var) and a in dependent for a in eqn.invars)
                dependent.update(eqn.outvars if waits else ())
                (after if waits else before).append(eqn)
            stacks = set(eqns[i].outvars) if _reads_stacks(eqns[j]) else set()
            if any(isinstance(a, Var) and a in dependent and a not in stacks for a in eqns[j].invars):
                continue
            found = _joined(_Loop(eqns[i]), eqns[j]) if stacks else _merged(_Loop(eqns[i]), _Loop(eqns[j]))
            if found is None:
                continue
            loop, renamed = found
            late = [
                e.replace(invars=[renamed.get(a, a) if isinstance(a, Var) else a for a in e.invars])
                for e in (*after, *eqns[j + 1 :])
            ]
            return [*eqns[:i], *before, loop, *late], renamed
    return None


class _Loop:
    """A `while` equation taken apart."""

    def __init__(self, eqn: Eqn) -> None:
        self.eqn = eqn
        self.cond: Program = eqn.params["cond_jaxpr"]
        self.body: Program = eqn.params["body_jaxpr"]
        n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        self.cond_consts, self.body_consts, self.inits = eqn.invars[:n], eqn.invars[n : n + m], eqn.invars[n + m :]
        self.cond_reads, self.body_reads = self.cond.invars[n:], self.body.invars[m:]
        self.count = len(self.inits)


@dataclass
class _Numbering:
    """Equations by what they compute: equal ones get one result. names: what stands for each variable."""

    names: dict[Var, Atom] = field(default_factory=dict)
    known: dict[Any, Eqn] = field(default_factory=dict)
    eqns: list[Eqn] = field(default_factory=list)

    def read(self, atom: Atom) -> Atom:
        return self.names[atom] if isinstance(atom, Var) else atom

    def add(self, program: Program, inputs: Sequence[Atom]) -> list[Atom]:
        """The outputs of a Program for these inputs."""
        self.names = dict(zip(program.invars, inputs))
        for eqn in program.eqns:
            invars = [self.read(a) for a in eqn.invars]
            eqn = eqn.replace(invars=invars)
            key = equation_key(eqn) or object()
            found = self.known.get(key)
            if found is None:
                found = eqn.replace(outvars=[Var(v.aval) for v in eqn.outvars])
                self.known[key] = found
                self.eqns.append(found)
            self.names.update(zip(eqn.outvars, found.outvars))
        return [self.read(a) for a in program.outvars]


def _merged(one: _Loop, two: _Loop) -> tuple[Eqn, dict[Var, Var]] | None:
    """One loop for both, and for results of the second those of the first that they equal."""
    inits, count = [*one.inits, *two.inits], one.count
    reads = [*one.body_reads, *two.body_reads]
    groups: list[Any] = [(atom_key(a), v.aval) for a, v in zip(inits, reads)]  # carries that may always be equal
    if set(groups[:count]).isdisjoint(groups[count:]):
        return None
    consts = {atom_key(a): Var(v.aval) for a, v in _pairs(one) + _pairs(two)}
    while True:
        carries = {g: Var(v.aval) for g, v in zip(groups, reads)}
        body = _Numbering()
        first, second = (
            body.add(loop.body, [*(consts[atom_key(a)] for a in loop.body_consts), *(carries[g] for g in own)])
            for loop, own in ((one, groups[:count]), (two, groups[count:]))
        )
        nexts = [*first[:count], *second[: two.count]]
        refined = [(g, atom_key(a)) for g, a in zip(groups, nexts)]
        if len(set(refined)) == len(carries):
            break
        groups = refined
    conds = _Numbering()
    (goes_on,), (also,) = (
        conds.add(loop.cond, [*(consts[atom_key(a)] for a in loop.cond_consts), *(carries[g] for g in own)])
        for loop, own in ((one, groups[:count]), (two, groups[count:]))
    )
    if goes_on is not also:
        return None
    kept = [groups.index(g) for g in carries]  # of equal carries the first
    outs = [*one.eqn.outvars[:count], *two.eqn.outvars[: two.count]]
    read = list(carries.values())
    operands = {atom_key(a): a for a, _ in _pairs(one) + _pairs(two)}
    cond_keys = list(dict.fromkeys(map(atom_key, one.cond_consts)))
    body_keys = list(dict.fromkeys(map(atom_key, (*one.body_consts, *two.body_consts))))
    ys = [*first[count:], *second[two.count :]]
    params = {
        "cond_jaxpr": one.cond.replace(
            invars=[*(consts[k] for k in cond_keys), *read], eqns=conds.eqns, outvars=[goes_on]
        ),
        "cond_nconsts": len(cond_keys),
        "body_jaxpr": two.body.replace(
            invars=[*(consts[k] for k in body_keys), *read], eqns=body.eqns, outvars=[*(nexts[k] for k in kept), *ys]
        ),
        "body_nconsts": len(body_keys),
    }
    loop = one.eqn.replace(
        invars=[*(operands[k] for k in (*cond_keys, *body_keys)), *(inits[k] for k in kept)],
        outvars=[*(outs[k] for k in kept), *one.eqn.outvars[count:], *two.eqn.outvars[two.count :]],
        params=params,
    )
    return loop, {v: outs[groups.index(g)] for g, v in zip(groups, outs) if outs[groups.index(g)] is not v}


def _reads_stacks(eqn: Eqn) -> bool:
    """Whether an equation goes forward through what other loops have stacked."""
    return eqn.primitive is scan_p and eqn.params["length"] == UNKNOWN and not eqn.params["reverse"]


def _joined(loop: _Loop, scan: Eqn) -> tuple[Eqn, dict[Var, Var]] | None:
    """A loop with the steps of a scan that reads only what the loop stacks."""
    n, m = scan.params["num_consts"], scan.params["num_carry"]
    place = {v: k for k, v in enumerate(loop.eqn.outvars)}
    if any((a in place) != (k >= n + m) for k, a in enumerate(scan.invars)):
        return None
    more = [Var(v.aval) for v in scan.params["jaxpr"].invars[: n + m]]
    read = [Var(v.aval) for v in loop.body.invars]
    body = _Numbering()
    first = body.add(loop.body, read)
    slices = [first[place[a]] for a in scan.invars[n + m :] if isinstance(a, Var)]
    second = body.add(scan.params["jaxpr"], [*more, *slices])
    at = len(loop.body_consts)
    count = loop.count
    params = {
        **loop.eqn.params,
        "cond_jaxpr": loop.cond.replace(invars=[*loop.cond.invars, *(Var(v.aval) for v in more[n:])]),
        "body_jaxpr": loop.body.replace(
            invars=[*more[:n], *read, *more[n:]],
            eqns=body.eqns,
            outvars=[*first[:count], *second[:m], *first[count:], *second[m:]],
        ),
        "body_nconsts": n + at,
    }
    operands = [*loop.cond_consts, *scan.invars[:n], *loop.body_consts, *loop.inits, *scan.invars[n : n + m]]
    outs = loop.eqn.outvars
    results = [*outs[:count], *scan.outvars[:m], *outs[count:], *scan.outvars[m:]]
    return loop.eqn.replace(invars=operands, outvars=results, params=params), {}


def _pairs(loop: _Loop) -> list[tuple[Atom, Var]]:
    """The constants of a loop's Programs, and what the Programs call them."""
    return [*zip(loop.cond_consts, loop.cond.invars), *zip(loop.body_consts, loop.body.invars)]
