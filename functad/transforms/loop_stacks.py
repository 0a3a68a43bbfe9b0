"""Lets a scan over stacks of unknown length compute itself, slice by slice, what others computed from whole stacks.

Knows `scan` and `while` equations by their parts. Nothing but loops can take arrays of unknown length when a Program
is compiled; what transforms do with them, such as adding up two cotangents, goes into the loops that read the result.
"""

from __future__ import annotations

from functad.ir import UNKNOWN, Atom, Eqn, Literal, Program, Var
from functad.lowering_rules import Scalar
from functad.transforms.loop_parts import Scan


def compute_inside(scan: Scan, definitions: dict[Var, Eqn]) -> None:
    """Replace stacks that are computed, and those that hold the same number in all slices, by equations in the body.

    definitions: the equations that the scan's operands come from.
    """
    kept: list[tuple[Atom, Var]] = []
    constants: dict[Var, Literal] = {}
    pending = list(scan.xs)
    while pending:
        operand, var = pending.pop()
        eqn = definitions.get(operand) if isinstance(operand, Var) else None
        number = None if eqn is None else _repeated(eqn, operand)
        slice_ = None if eqn is None else _slice_of(eqn, var)
        if number is not None:
            constants[var] = number
        elif slice_ is not None:
            inner, read = slice_
            scan.eqns.insert(0, inner)
            pending += [pair for pair in read if _is_stack(pair[0])]
            scan.consts += [pair for pair in read if not _is_stack(pair[0])]
        else:
            kept.append((operand, var))
    if not kept:  # one must tell the number of steps
        operand, var = next((a, v) for a, v in scan.xs if v in constants)
        kept.append((operand, Var(var.aval)))
    scan.xs = kept[::-1]

    def read_constant(atom: Atom) -> Atom:
        return constants.get(atom, atom) if isinstance(atom, Var) else atom

    scan.eqns = [e.replace(invars=[read_constant(a) for a in e.invars]) for e in scan.eqns]
    scan.ys = [(read_constant(a), v) for a, v in scan.ys]
    for carry in scan.carries:
        carry.given = read_constant(carry.given)


def _is_stack(atom: Atom) -> bool:
    return atom.aval.shape[:1] == (UNKNOWN,)


def _repeated(eqn: Eqn, operand: Atom) -> Literal | None:
    """The number that a loop stacks in each step."""
    body: Program | None = {"scan": eqn.params.get("jaxpr"), "while": eqn.params.get("body_jaxpr")}.get(
        eqn.primitive.name
    )
    if body is None:
        return None
    given = body.outvars[next(i for i, v in enumerate(eqn.outvars) if v is operand)]
    return given if isinstance(given, Literal) else None


def _slice_of(eqn: Eqn, var: Var) -> tuple[Eqn, list[tuple[Atom, Var]]] | None:
    """An equation for one slice of what another computes from stacks, and the slices and constants that it reads."""
    name, params = eqn.primitive.name, dict(eqn.params)
    if name == "broadcast_in_dim":
        dims = params["broadcast_dimensions"]
        rest = dims[1:] if _is_stack(eqn.invars[0]) else dims
        if 0 in rest:
            return None
        params = {**params, "shape": var.aval.shape, "broadcast_dimensions": tuple(d - 1 for d in rest)}
    elif name == "transpose":
        first, *others = params["permutation"]
        if first != 0:
            return None
        params["permutation"] = tuple(d - 1 for d in others)
    elif name == "reduce_sum":
        if 0 in params["axes"]:
            return None
        params["axes"] = tuple(d - 1 for d in params["axes"])
    elif not isinstance(eqn.primitive.lower, Scalar) or len(eqn.outvars) != 1:
        return None
    read: list[tuple[Atom, Var]] = []
    invars: list[Atom] = []
    for atom in eqn.invars:
        if isinstance(atom, Literal):
            invars.append(atom)
            continue
        aval = atom.aval
        shape = aval.shape[1:] if _is_stack(atom) else aval.shape
        inner = Var(type(aval)(shape, aval.dtype, aval.weak_type))
        invars.append(inner)
        read.append((atom, inner))
    return eqn.replace(invars=invars, outvars=[var], params=params), read
