"""What is the same at every step of a scan: it leaves the loop, and is passed in once."""

from __future__ import annotations

from functad.editing.partial_evaluation import split_invariant
from functad.optimize.loops.parts import Scan
from functad.tracing import eval_program


def hoist_invariants(scan: Scan) -> None:
    """Compute before the loop what depends on its constants alone."""
    body = scan.body()
    first, rest = split_invariant(body, [i < len(scan.consts) for i in range(len(body.invars))])
    if first.eqns:
        hoisted = scan.before(lambda *args: eval_program(first, args), [a for a, _ in scan.consts])
        scan.consts = [*zip(hoisted, rest.invars), *scan.consts]
        scan.eqns = list(rest.eqns)
