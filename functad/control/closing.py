"""Loops and branches whose Programs call nothing and have no constants: those are operands.

Each is the rule `closed` of a record: `inline` replaces the calls in a Program, `as_operands` makes operands of its
constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functad.calls.common import closed
from functad.ir import Eqn, Program, Var

Inline = Callable[[Program], Program]
AsOperands = Callable[[Program], Sequence[Var]]


def closed_scan(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    body = inline(eqn.params["jaxpr"])
    params = {**eqn.params, "jaxpr": closed(body), "num_consts": eqn.params["num_consts"] + len(body.consts)}
    return eqn.replace(invars=[*as_operands(body), *eqn.invars], params=params)


def closed_while(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    cond, body = inline(eqn.params["cond_jaxpr"]), inline(eqn.params["body_jaxpr"])
    n = eqn.params["cond_nconsts"]
    params = {
        "cond_jaxpr": closed(cond),
        "cond_nconsts": n + len(cond.consts),
        "body_jaxpr": closed(body),
        "body_nconsts": eqn.params["body_nconsts"] + len(body.consts),
    }
    operands = [*as_operands(cond), *eqn.invars[:n], *as_operands(body), *eqn.invars[n:]]
    return eqn.replace(invars=operands, params={**eqn.params, **params})


def closed_cond(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    """Every branch takes the constants of all."""
    branches = [inline(b) for b in eqn.params["branches"]]
    index, *operands = eqn.invars
    more = [v for b in branches for v in as_operands(b)]
    closed = []
    for k, branch in enumerate(branches):
        before = [Var(v.aval) for b in branches[:k] for v in b.constvars]
        after = [Var(v.aval) for b in branches[k + 1 :] for v in b.constvars]
        invars = [*before, *branch.constvars, *after, *branch.invars]
        closed.append(branch.replace(invars=invars, constvars=(), consts=()) if more else branch)
    return eqn.replace(invars=[index, *more, *operands], params={**eqn.params, "branches": tuple(closed)})
