"""Loop fusion: joins a scan with a later one that reads what it stacks, which need not be stacked then.

Knows `scan` equations by their parts; nothing of what bodies compute. So forward mode stores nothing.
"""

from __future__ import annotations

from functad.control import scan_p
from functad.editing.substitution import Substitution
from functad.ir import UNKNOWN, Atom, Eqn, Program
from functad.optimize.loops.parts import brought_together, first_of_equal, take_apart


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
    stacked: dict[Atom, int] = {}  # by which scan
    for j, eqn in enumerate(eqns):
        if eqn.primitive is not scan_p:
            continue
        for i in sorted({stacked[a] for a in eqn.invars if a in stacked}, reverse=True):
            joined = _join(eqns, i, j)
            if joined is not None:
                return joined
        stacked.update((v, j) for v in eqn.outvars[eqn.params["num_carry"] :])
    return None


def _join(eqns: list[Eqn], i: int, j: int) -> list[Eqn] | None:
    first, second = eqns[i], eqns[j]
    if first.params["length"] == UNKNOWN:
        return None
    if any(first.params[name] != second.params[name] for name in ("length", "reverse", "unroll")):
        return None
    stacks = set(first.outvars[first.params["num_carry"] :])
    at = second.params["num_consts"] + second.params["num_carry"]
    own = [*second.invars[:at], *(a for a in second.invars[at:] if a not in stacks)]
    around = brought_together(eqns, i, j, own)
    return None if around is None else [*around[0], _joined(first, second), *around[1]]


def _joined(first: Eqn, second: Eqn) -> Eqn:
    """One scan whose body runs both; slices that the second reads of the first's results are those results."""
    scan, other = take_apart(first), take_apart(second, copy=True)
    given: dict[Atom, Atom] = {result: atom for atom, result in scan.ys}
    other.substitute(Substitution((v, given[a]) for a, v in other.xs if a in given))
    scan.xs += [(a, v) for a, v in other.xs if a not in given]
    scan.join(other)
    for pairs in (scan.consts, scan.xs):  # both may read the same
        names = first_of_equal(pairs)
        pairs[:] = [(a, v) for a, v in pairs if names[v] is v]
        scan.substitute(names)
    is_linear = first.params["linear"] and second.params["linear"]
    scan.origin = first.replace(params={**first.params, "linear": is_linear})
    return scan.eqn()
