"""A stack that is zero but for the slice that a scan reads first becomes a part of what the scan starts from.

Knows `scan` equations by their parts. Such is the cotangent of `ys[-1]`: the backward loop would read zeros in all
steps but one, and add them to its carry.
"""

from __future__ import annotations

from functad.editing.substitution import Substitution
from functad.ir import Atom, Literal
from functad.optimize.loops.parts import Scan
from functad.primitives.common import add_any_p, add_cotangents, reshape
from functad.primitives.structure import pad_p


def start_from_first_slices(scan: Scan) -> None:
    """Add the first slice to a carry's start, where the body only adds the slice to that carry."""
    uses = scan.uses()
    for operand, var in list(scan.xs):
        first = _first_slice(scan, operand)
        if first is None or uses[var] != 1 or len(scan.xs) == 1:
            continue
        for carry in scan.carries:
            adding = next((e for e in scan.eqns if var in e.invars and carry.read in e.invars), None)
            if adding is None or adding.primitive is not add_any_p or uses[carry.read] != 1:
                continue
            shape = var.aval.shape
            operands = [carry.init, first]
            (carry.init,) = scan.before(lambda c, x, s=shape: [add_cotangents(c, reshape(x, s))], operands)
            scan.xs.remove((operand, var))
            scan.eqns.remove(adding)
            scan.substitute(Substitution({adding.outvars[0]: carry.read}))
            break


def _first_slice(scan: Scan, operand: Atom) -> Atom | None:
    """The one slice that is not zero, if that is the one read first."""
    eqn = scan.view.definition(operand, pad_p)
    if eqn is None:
        return None
    part, value = eqn.invars
    steps, *others = eqn.params["padding_config"]
    wanted = (scan.length - 1, 0, 0) if scan.origin.params["reverse"] else (0, scan.length - 1, 0)
    if part.aval.shape[0] != 1 or tuple(steps) != wanted or any(tuple(c) != (0, 0, 0) for c in others):
        return None
    return part if isinstance(value, Literal) and not value.value else None
