"""A stack that is zero but for the slice that a scan reads first becomes a part of what the scan starts from.

Knows `scan` equations by their parts. Such is the cotangent of `ys[-1]`: the backward loop would read zeros in all
steps but one, and add them to its carry.
"""

from __future__ import annotations

from functad.ir import Atom, Eqn, Literal, Var
from functad.optimize.loops.parts import Scan
from functad.primitives.common import add_any_p, reshape_p
from functad.primitives.structure import pad_p


def start_from_first_slices(scan: Scan, before: list[Eqn], definitions: dict[Var, Eqn]) -> None:
    """Add the first slice to a carry's start, where the body only adds the slice to that carry."""
    uses = scan.uses_in_body()
    for operand, var in list(scan.xs):
        first = _first_slice(scan, operand, definitions)
        if first is None or uses.get(var) != 1 or len(scan.xs) == 1:
            continue
        for carry in scan.carries:
            adding = next((e for e in scan.eqns if var in e.invars and carry.read in e.invars), None)
            if adding is None or adding.primitive is not add_any_p or uses[carry.read] != 1:
                continue
            slice_, start = Var(var.aval), Var(carry.read.aval)
            before += [
                adding.replace(
                    primitive=reshape_p, invars=[first], outvars=[slice_], params={"new_sizes": var.aval.shape}
                ),
                adding.replace(invars=[carry.init, slice_], outvars=[start]),
            ]
            carry.init = start
            scan.xs.remove((operand, var))
            _replace(scan, adding.outvars[0], carry.read)
            scan.eqns.remove(adding)
            break


def _first_slice(scan: Scan, operand: Atom, definitions: dict[Var, Eqn]) -> Atom | None:
    """The one slice that is not zero, if that is the one read first."""
    eqn = definitions.get(operand) if isinstance(operand, Var) else None
    if eqn is None or eqn.primitive is not pad_p:
        return None
    part, value = eqn.invars
    steps, *others = eqn.params["padding_config"]
    reverse = scan.origin.params["reverse"]
    wanted = (scan.length - 1, 0, 0) if reverse else (0, scan.length - 1, 0)
    if part.aval.shape[0] != 1 or tuple(steps) != wanted or any(tuple(c) != (0, 0, 0) for c in others):
        return None
    return part if isinstance(value, Literal) and not value.value else None


def _replace(scan: Scan, old: Var, new: Var) -> None:
    def read(atom: Atom) -> Atom:
        return new if atom is old else atom

    scan.eqns = [e.replace(invars=[read(a) for a in e.invars]) if old in e.invars else e for e in scan.eqns]
    scan.ys = [(read(a), v) for a, v in scan.ys]
    for carry in scan.carries:
        carry.given = read(carry.given)
