"""Joins a scan with a later one that reads what it stacks, so that it need not be stacked: forward mode stores nothing.

Knows `scan` equations by their parts; nothing of what bodies compute.
"""

from __future__ import annotations

from functad.control import scan_p
from functad.ir import UNKNOWN, Atom, Eqn, Program, Var, has_effects
from functad.optimize.loops.parts import Carry, Scan, take_apart


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
    eqns = list(program.eqns)
    while (fused := _fuse_one(eqns)) is not None:
        eqns = fused
    return program if eqns == list(program.eqns) else program.replace(eqns=eqns)


def _fuse_one(eqns: list[Eqn]) -> list[Eqn] | None:
    """The equations with one pair of scans joined, or None where there is no such pair."""
    stacked: dict[Var, int] = {}  # by which scan
    for j, eqn in enumerate(eqns):
        if eqn.primitive is not scan_p:
            continue
        operands = eqn.invars[eqn.params["num_consts"] + eqn.params["num_carry"] :]
        for i in sorted({stacked[a] for a in operands if isinstance(a, Var) and a in stacked}, reverse=True):
            joined = _join(eqns, i, j)
            if joined is not None:
                return joined
        stacked.update((v, j) for v in eqn.outvars[eqn.params["num_carry"] :])
    return None


def _join(eqns: list[Eqn], i: int, j: int) -> list[Eqn] | None:
    first, second = eqns[i], eqns[j]
    if any(first.params[name] != second.params[name] for name in ("length", "reverse", "unroll")):
        return None
    if first.params["length"] == UNKNOWN or any(has_effects(e) for e in eqns[i : j + 1]):
        return None
    stacks = set(first.outvars[first.params["num_carry"] :])
    dependent = set(first.outvars)
    before: list[Eqn] = []
    after: list[Eqn] = []
    for eqn in eqns[i + 1 : j]:
        if any(a in dependent for a in eqn.invars if isinstance(a, Var)):
            dependent.update(eqn.outvars)
            after.append(eqn)
        else:
            before.append(eqn)
    at = second.params["num_consts"] + second.params["num_carry"]
    own = [*second.invars[:at], *(a for a in second.invars[at:] if a not in stacks)]
    if any(a in dependent for a in own if isinstance(a, Var)):
        return None
    return [*eqns[:i], *before, _joined(take_apart(first), take_apart(second)).eqn(), *after, *eqns[j + 1 :]]


def _joined(first: Scan, second: Scan) -> Scan:
    """One scan whose body runs both; slices that the second reads of the first's results are those results."""
    given = {result: atom for atom, result in first.ys}
    names: dict[Var, Atom] = {}

    def fresh(var: Var) -> Var:
        names[var] = made = Var(var.aval)
        return made

    def read(atom: Atom) -> Atom:
        return names[atom] if isinstance(atom, Var) else atom

    consts = [(a, fresh(v)) for a, v in second.consts]
    starts = [(c, fresh(c.read)) for c in second.carries]
    xs: list[tuple[Atom, Var]] = []
    for operand, var in second.xs:
        if isinstance(operand, Var) and operand in given:
            names[var] = given[operand]
        else:
            xs.append((operand, fresh(var)))
    eqns = []
    for e in second.eqns:
        invars = [read(a) for a in e.invars]
        eqns.append(e.replace(invars=invars, outvars=[fresh(v) for v in e.outvars]))
    first.consts += consts
    first.carries += [Carry(c.init, var, read(c.given), c.result) for c, var in starts]
    first.xs += xs
    first.ys += [(read(a), v) for a, v in second.ys]
    first.eqns += eqns
    is_linear = first.origin.params["linear"] and second.origin.params["linear"]
    first.origin = first.origin.replace(params={**first.origin.params, "linear": is_linear})
    return first
