"""What is the same at every step of a scan: it leaves the loop, and is passed in once."""

from __future__ import annotations

from functools import partial
from typing import Any

from functad.editing.partial_evaluation import split_invariant
from functad.editing.splicing import splice
from functad.ir import Atom, Eqn, Literal, Program, Var
from functad.optimize.loops.parts import Scan
from functad.tracing import eval_program


def fix_invariant_carries(scan: Scan, results: dict[Var, Atom]) -> None:
    """A carry that the body hands on as it is, is a constant."""
    for carry in list(scan.carries):
        if carry.given is carry.read:
            scan.carries.remove(carry)
            scan.consts.append((carry.init, carry.read))
            results[carry.result] = carry.init


def share_operands(scan: Scan, results: dict[Var, Atom]) -> None:
    """Pass equal operands in once, and stack equal results once."""
    renamed: dict[Var, Atom] = {}
    for group in ("consts", "xs"):
        kept: list[tuple[Atom, Var]] = []
        first: dict[Any, Var] = {}
        for operand, var in getattr(scan, group):
            if isinstance(operand, Literal) and group == "consts":
                renamed[var] = operand
            elif isinstance(operand, Var) and operand in first:
                renamed[var] = first[operand]
            else:
                if isinstance(operand, Var):
                    first[operand] = var
                kept.append((operand, var))
        setattr(scan, group, kept)
    if renamed:
        scan.eqns = [
            e.replace(invars=[renamed.get(a, a) if isinstance(a, Var) else a for a in e.invars]) for e in scan.eqns
        ]
        for carry in scan.carries:
            carry.given = renamed.get(carry.given, carry.given) if isinstance(carry.given, Var) else carry.given
        scan.ys = [(renamed.get(a, a) if isinstance(a, Var) else a, v) for a, v in scan.ys]
    of_slice = {v: a for a, v in scan.xs}
    stacked: dict[Var, Var] = {}
    ys: list[tuple[Atom, Var]] = []
    for given, result in scan.ys:
        if isinstance(given, Var) and given in of_slice:
            results[result] = of_slice[given]  # it is there already
        elif isinstance(given, Var) and given in stacked:
            results[result] = stacked[given]
        else:
            if isinstance(given, Var):
                stacked[given] = result
            ys.append((given, result))
    scan.ys = ys


def hoist_invariants(scan: Scan, before: list[Eqn]) -> None:
    """Compute before the loop what depends on its constants alone."""
    body = scan.body()
    first, rest = split_invariant(body, [i < len(scan.consts) for i in range(len(body.invars))])
    if not first.eqns:
        return
    made, hoisted = splice(partial(run, first), [a for a, _ in scan.consts], scan.origin)
    before += made
    scan.consts = [*zip(hoisted, rest.invars[: len(hoisted)]), *scan.consts]
    scan.eqns = list(rest.eqns)


def run(program: Program, *args: Any) -> list[Any]:
    return eval_program(program, args)
