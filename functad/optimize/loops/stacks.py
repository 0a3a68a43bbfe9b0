"""Lets a scan over stacks of unknown length compute itself, slice by slice, what others computed from whole stacks.

Knows `scan` and `while` equations by their parts. Nothing but loops can take arrays of unknown length when a Program
is compiled; what transforms do with them, such as adding up two cotangents, goes into the loops that read the result.
"""

from __future__ import annotations

from collections.abc import Callable

from functad.editing.substitution import Substitution
from functad.ir import UNKNOWN, Atom, Aval, Eqn, Literal, Program, Var
from functad.lowering_rules import Scalar
from functad.optimize.loops.parts import Scan
from functad.primitives.common import broadcast_in_dim_p


def compute_inside(scan: Scan, simplify: Callable[[Program], Program]) -> None:
    """Replace stacks that are computed, and those that hold the same number in all slices, by equations in the body."""
    kept: list[tuple[Atom, Var]] = []
    constants = Substitution()
    pending = list(scan.xs)

    def read(operand: Var, is_stack: bool) -> Var:
        var = Var(slice_aval(operand.aval) if is_stack else operand.aval)
        (pending if is_stack else scan.consts).append((operand, var))
        return var

    while pending:
        operand, var = pending.pop()
        eqn = scan.view.definition(operand)
        number = None if eqn is None else _stacked_number(eqn, operand)
        made = None if eqn is None else slice_of(eqn, var, read)
        if number is not None:
            constants[var] = number
        elif made is not None:
            scan.eqns.insert(0, made)
        else:
            kept.append((operand, var))
    if not kept:  # one must tell the number of steps
        operand, var = next((a, v) for a, v in scan.xs if v in constants)
        kept.append((operand, Var(var.aval)))
    scan.xs = kept[::-1]
    scan.substitute(constants)
    scan.replace_body(simplify(scan.body()))


def fill_inside(scan: Scan) -> None:
    """Let the body repeat a number itself, instead of reading it from an array that holds nothing else."""
    for pairs in (scan.consts, scan.xs) if scan.length != UNKNOWN else (scan.consts,):
        for operand, var in list(pairs):
            eqn = scan.view.definition(operand, broadcast_in_dim_p)
            if eqn is not None and isinstance(eqn.invars[0], Literal):
                params = {"shape": var.aval.shape, "broadcast_dimensions": ()}
                scan.eqns.insert(0, eqn.replace(outvars=[var], params=params))
                pairs.remove((operand, var))


def _stacked_number(eqn: Eqn, operand: Atom) -> Literal | None:
    """The number that a loop stacks in each step."""
    body = eqn.params.get("jaxpr", eqn.params.get("body_jaxpr"))
    if body is None:
        return None
    given = body.outvars[next(i for i, v in enumerate(eqn.outvars) if v is operand)]
    return given if isinstance(given, Literal) else None


def slice_of(eqn: Eqn, var: Var, read: Callable[[Var, bool], Var]) -> Eqn | None:
    """An equation for one slice, `var`, of what another computes from stacks; None if slices mix.

    read: gives the variable of the body for an operand that is a stack (True), or that is the same for all slices.
    """
    name, params, (whole, *_) = eqn.primitive.name, dict(eqn.params), eqn.outvars
    if name == "broadcast_in_dim":
        dims, shape = params["broadcast_dimensions"], eqn.invars[0].aval.shape
        has_slices = dims[:1] == (0,) and shape[0] == whole.aval.shape[0]
        rest = dims[1:] if has_slices else dims
        if 0 in rest:
            return None
        params |= {"shape": var.aval.shape, "broadcast_dimensions": tuple(d - 1 for d in rest)}
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
    is_stack = [bool(a.aval.shape) and (name != "broadcast_in_dim" or has_slices) for a in eqn.invars]
    invars = [read(a, s) if isinstance(a, Var) else a for a, s in zip(eqn.invars, is_stack)]
    return eqn.replace(invars=invars, outvars=[var], params=params)


def slice_aval(aval: Aval) -> Aval:
    """The type of a slice of a stack."""
    return Aval(aval.shape[1:], aval.dtype, aval.weak_type)
