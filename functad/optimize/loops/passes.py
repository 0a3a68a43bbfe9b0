"""The passes over loops and branches of a Program: their bodies are simplified, and work moves in and out of them.

Knows `scan`, `while` and `cond` equations; what is done to a scan is the table of `moves.py`. Results stay the same, up
to the order of sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from functad.control import cond_p, scan_p, while_p
from functad.editing.partial_evaluation import split_invariant
from functad.editing.splicing import splice
from functad.ir import Atom, Eqn, Literal, Program, Var, memoised
from functad.lowering_rules import ControlFlow
from functad.optimize.loops.invariants import run
from functad.optimize.loops.moves import moved, standing_for
from functad.optimize.loops.parts import take_apart
from functad.optimize.loops.scan_fusion import fuse_scans
from functad.optimize.loops.sinking import sink_into_scans
from functad.optimize.loops.unrolling import is_short, unrolled, unrolled_in_part


def optimize_loops(program: Program, simplify: Callable[[Program], Program]) -> Program:
    """All passes over the loops and branches of a Program; `simplify` is for what runs inside of them."""
    if not any(isinstance(e.primitive.lower, ControlFlow) for e in program.eqns):
        return program
    program = fuse_scans(program)
    eqns: list[Eqn] = []
    renamed: dict[Var, Atom] = {}
    definitions = {v: e for e in program.eqns for v in e.outvars}
    waiting = deque(program.eqns)
    while waiting:
        eqn = waiting.popleft()
        eqn = eqn.replace(invars=[standing_for(renamed, a) for a in eqn.invars])
        if eqn.primitive is scan_p and 1 < eqn.params["unroll"] < eqn.params["length"]:
            made, results = splice(partial(unrolled_in_part, eqn), eqn.invars, eqn)
            waiting.extendleft(reversed(made))
            renamed.update(zip(eqn.outvars, results))
        elif eqn.primitive is scan_p:
            made, results = _optimized_scan(eqn, simplify, definitions)
            eqns += made
            renamed.update((v, a) for v, a in zip(eqn.outvars, results) if v is not a)
        elif eqn.primitive is while_p:
            eqns += _optimized_while(eqn, simplify)
        elif eqn.primitive is cond_p:
            branches = tuple(_simplified(b, simplify) for b in eqn.params["branches"])
            eqns.append(eqn.replace(params={**eqn.params, "branches": branches}))
        else:
            eqns.append(eqn)
            definitions.update((v, eqn) for v in eqn.outvars)
    return sink_into_scans(program.replace(eqns=eqns, outvars=[standing_for(renamed, a) for a in program.outvars]))


def _simplified(program: Program, simplify: Callable[[Program], Program]) -> Program:
    made = memoised(program, ("simplified body",), lambda: simplify(program))
    assert not made.consts, "a body is closed, and no pass makes a constant"
    return made


def _with_literals(program: Program, operands: Sequence[Atom]) -> Program:
    """The Program with the first of its inputs known, where operands are literals; all stay inputs."""
    known: dict[Var, Atom] = {v: a for v, a in zip(program.invars, operands) if isinstance(a, Literal)}
    if not known:
        return program
    eqns = [e.replace(invars=[standing_for(known, a) for a in e.invars]) for e in program.eqns]
    return program.replace(eqns=eqns, outvars=[standing_for(known, a) for a in program.outvars])


def _optimized_while(eqn: Eqn, simplify: Callable[[Program], Program]) -> list[Eqn]:
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    given = {
        "cond_jaxpr": _with_literals(eqn.params["cond_jaxpr"], eqn.invars[:n_cond]),
        "body_jaxpr": _with_literals(eqn.params["body_jaxpr"], eqn.invars[n_cond : n_cond + n_body]),
    }
    eqn = eqn.replace(params={**eqn.params, **given})
    params = {
        **eqn.params,
        "cond_jaxpr": _simplified(eqn.params["cond_jaxpr"], simplify),
        "body_jaxpr": _simplified(eqn.params["body_jaxpr"], simplify),
    }
    before, body = split_invariant(params["body_jaxpr"], [i < n_body for i in range(len(params["body_jaxpr"].invars))])
    if not before.eqns:
        return [eqn.replace(params=params)]
    consts = eqn.invars[n_cond : n_cond + n_body]
    made, hoisted = splice(partial(run, before), consts, eqn)
    params |= {"body_jaxpr": body, "body_nconsts": n_body + len(hoisted)}
    return [*made, eqn.replace(invars=[*eqn.invars[:n_cond], *hoisted, *eqn.invars[n_cond:]], params=params)]


def _optimized_scan(
    eqn: Eqn, simplify: Callable[[Program], Program], definitions: dict[Var, Eqn]
) -> tuple[list[Eqn], list[Atom]]:
    """Equations that compute what a scan does, and its results."""
    eqn = eqn.replace(params={**eqn.params, "jaxpr": _simplified(eqn.params["jaxpr"], simplify)})
    if is_short(eqn):  # its few products are as fast one by one, where the arrays lie
        return splice(partial(unrolled, eqn), eqn.invars, eqn)
    loop = moved(take_apart(eqn), simplify, definitions)
    made = [loop.scan.eqn()]
    if is_short(made[0]):
        outvars = made[0].outvars
        made, found = splice(partial(unrolled, made[0]), made[0].invars, eqn)
        loop.results.update(zip(outvars, found))
    after = [e.replace(invars=[standing_for(loop.results, a) for a in e.invars]) for e in loop.after]
    return [*loop.before, *made, *after], [standing_for(loop.results, v) for v in eqn.outvars]
