"""Loops and branches without what nobody uses.

Each is the rule `pruned` of a record: `clean` is dead code elimination, for the Programs within.
"""

from __future__ import annotations

from collections.abc import Callable

from functad.calls.common import group
from functad.ir import UNKNOWN, Eqn, Program, Var, variables_read


def pruned_scan(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    body: Program = eqn.params["jaxpr"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    wanted = [v in used for v in eqn.outvars]
    slim, read = _needed_with_carry(body, wanted, m, n, clean)
    kept_in = [*read[:n], *wanted[:m], *read[n + m :]]
    if eqn.params["length"] == UNKNOWN and not any(kept_in[n + m :]):
        kept_in[n + m] = True  # it tells the number of steps
    if all(wanted) and all(kept_in) and slim is body:
        return eqn
    slim = slim.replace(invars=group(kept_in, body.invars))
    params = {
        **eqn.params, "jaxpr": slim, "num_consts": sum(kept_in[:n]), "num_carry": sum(wanted[:m])
    }  # fmt: skip
    return eqn.replace(invars=group(kept_in, eqn.invars), outvars=group(wanted, eqn.outvars), params=params)


def _needed_with_carry(
    body: Program, wanted: list[bool], carries: int, first: int, clean: Callable[[Program], Program]
) -> tuple[Program, list[bool]]:
    """The body without outputs that are not `wanted` (a list that grows by the carries it needs), and what it reads."""
    while True:
        slim = body if all(wanted) else body.replace(outvars=group(wanted, body.outvars))
        slim = clean(slim)
        read = variables_read(slim)
        more = [i for i in range(carries) if body.invars[first + i] in read and not wanted[i]]
        if not more:
            return slim, [v in read for v in body.invars]
        for i in more:
            wanted[i] = True


def pruned_while(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    count = len(eqn.invars) - n_cond - n_body
    cond_slim = clean(cond)
    asked = variables_read(cond_slim)
    wanted = [v in used or i < count and cond.invars[n_cond + i] in asked for i, v in enumerate(eqn.outvars)]
    slim, read = _needed_with_carry(body, wanted, count, n_body, clean)
    carried = wanted[:count]
    kept_cond = [*(v in asked for v in cond.invars[:n_cond]), *carried]
    kept_body = [*read[:n_body], *carried]
    if all(kept_cond) and all(kept_body) and all(wanted) and slim is body and cond_slim is cond:
        return eqn
    params = {
        **eqn.params,
        "cond_jaxpr": cond_slim.replace(invars=group(kept_cond, cond.invars)),
        "body_jaxpr": slim.replace(invars=group(kept_body, body.invars)),
        "cond_nconsts": sum(kept_cond[:n_cond]),
        "body_nconsts": sum(kept_body[:n_body]),
    }
    kept = [*kept_cond[:n_cond], *kept_body[:n_body], *carried]
    return eqn.replace(invars=group(kept, eqn.invars), outvars=group(wanted, eqn.outvars), params=params)


def pruned_cond(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    branches: tuple[Program, ...] = eqn.params["branches"]
    wanted = [v in used for v in eqn.outvars]
    slim = [clean(b if all(wanted) else b.replace(outvars=group(wanted, b.outvars))) for b in branches]
    reads = [variables_read(b) for b in slim]
    kept = [any(b.invars[i] in read for b, read in zip(branches, reads)) for i in range(len(branches[0].invars))]
    if all(wanted) and all(kept) and all(a is b for a, b in zip(slim, branches)):
        return eqn
    made = tuple(s.replace(invars=group(kept, b.invars)) for s, b in zip(slim, branches))
    return eqn.replace(
        invars=[eqn.invars[0], *group(kept, eqn.invars[1:])],
        outvars=group(wanted, eqn.outvars),
        params={**eqn.params, "branches": made},
    )
