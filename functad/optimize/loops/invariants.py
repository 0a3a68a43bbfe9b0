"""What is the same at every step of a scan: it leaves the loop, and is passed in once."""

from __future__ import annotations

from typing import Any

from functad.editing.partial_evaluation import split_invariant
from functad.editing.substitution import Substitution
from functad.ir import Atom, Literal, Var
from functad.optimize.loops.parts import Scan
from functad.tracing import eval_program


def fix_invariant_carries(scan: Scan) -> None:
    """A carry that the body hands on as it is, is a constant."""
    for carry in list(scan.carries):
        if carry.given is carry.read:
            scan.carries.remove(carry)
            scan.consts.append((carry.init, carry.read))
            scan.standing[carry.result] = carry.init


def share_operands(scan: Scan) -> None:
    """Pass equal operands in once, and stack equal results once."""
    renamed = Substitution((v, a) for a, v in scan.consts if isinstance(a, Literal))
    scan.consts = [(a, v) for a, v in scan.consts if v not in renamed]
    for pairs in (scan.consts, scan.xs):
        first: dict[Atom, Var] = {}
        renamed.update((v, first[a]) for a, v in pairs if first.setdefault(a, v) is not v)
        pairs[:] = [(a, v) for a, v in pairs if v not in renamed]
    scan.substitute(renamed)
    known: dict[Atom, Any] = {v: a for a, v in scan.xs}  # what is there already, or is stacked before
    ys = [(a, v) for a, v in scan.ys if isinstance(a, Literal) or known.setdefault(a, v) is v]
    scan.standing.update((v, known[a]) for a, v in scan.ys if (a, v) not in ys)
    scan.ys = ys


def hoist_invariants(scan: Scan) -> None:
    """Compute before the loop what depends on its constants alone."""
    body = scan.body()
    first, rest = split_invariant(body, [i < len(scan.consts) for i in range(len(body.invars))])
    if first.eqns:
        hoisted = scan.before(lambda *args: eval_program(first, args), [a for a, _ in scan.consts])
        scan.consts = [*zip(hoisted, rest.invars), *scan.consts]
        scan.eqns = list(rest.eqns)
