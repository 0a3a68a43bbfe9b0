"""The passes over loops and branches of a Program: their bodies are simplified, and work moves in and out of them.

Knows `scan`, `while` and `cond` equations; what is done to a scan is the table of `moves.py`. Results stay the same, up
to the order of sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from functad.control import cond_p, scan_p, while_p
from functad.editing.partial_evaluation import split_invariant
from functad.editing.rewriting import View
from functad.editing.splicing import splice
from functad.editing.substitution import Substitution
from functad.ir import Atom, Eqn, Literal, Program, memoised
from functad.lowering_rules import ControlFlow
from functad.optimize.loops import moves
from functad.optimize.loops.parts import Simplify, take_apart
from functad.optimize.loops.scan_fusion import fuse_scans
from functad.optimize.loops.slices import sink_into_scans
from functad.optimize.loops.unrolling import is_short, steps_at_once, unrolled, unrolled_in_part
from functad.tracing import eval_program


def optimize_loops(program: Program, simplify: Simplify) -> Program:
    """All passes over the loops and branches of a Program; `simplify` is for what runs inside of them."""
    if not any(isinstance(e.primitive.lower, ControlFlow) for e in program.eqns):
        return program
    view = View(fuse_scans(program))
    waiting = deque(view.program.eqns)
    while waiting:
        eqn = view.read_all(waiting.popleft())
        if eqn.primitive is scan_p and not is_short(eqn) and steps_at_once(eqn) > 1:
            made, results = splice(partial(unrolled_in_part, eqn), eqn.invars, eqn)
            waiting.extendleft(reversed(made))
        else:
            made, results = _optimized(eqn, view, simplify)
            for e in made:
                view.emit(e)
        for var, atom in zip(eqn.outvars, results):
            if var is not atom:
                view.replace(var, atom)
    return sink_into_scans(view.finish())


def _optimized(eqn: Eqn, view: View, simplify: Simplify) -> tuple[list[Eqn], list[Atom]]:
    """Equations that compute what a loop or a choice does, and its results; any other equation as it is."""
    if eqn.primitive is scan_p:
        return _optimized_scan(eqn, view, simplify)
    if eqn.primitive is while_p:
        return _optimized_while(eqn, simplify), [*eqn.outvars]
    if eqn.primitive is cond_p:
        branches = tuple(_simplified(b, simplify) for b in eqn.params["branches"])
        eqn = eqn.replace(params={**eqn.params, "branches": branches})
    return [eqn], [*eqn.outvars]


def _simplified(program: Program, simplify: Simplify) -> Program:
    made = memoised(program, ("simplified body",), lambda: simplify(program))
    assert not made.consts, "a body is closed, and no pass makes a constant"
    return made


def _with_literals(program: Program, operands: Sequence[Atom]) -> Program:
    """The Program with the first of its inputs known, where operands are literals; all stay inputs."""
    known = Substitution((v, a) for v, a in zip(program.invars, operands) if isinstance(a, Literal))
    return program.replace(eqns=known.within(program.eqns), outvars=known.read_all(program.outvars))


def _optimized_while(eqn: Eqn, simplify: Simplify) -> list[Eqn]:
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    given = {
        "cond_jaxpr": _with_literals(eqn.params["cond_jaxpr"], eqn.invars[:n_cond]),
        "body_jaxpr": _with_literals(eqn.params["body_jaxpr"], eqn.invars[n_cond : n_cond + n_body]),
    }
    params = {**eqn.params, **{name: _simplified(program, simplify) for name, program in given.items()}}
    before, body = split_invariant(params["body_jaxpr"], [i < n_body for i in range(len(params["body_jaxpr"].invars))])
    if not before.eqns:
        return [eqn.replace(params=params)]
    consts = eqn.invars[n_cond : n_cond + n_body]
    made, hoisted = splice(lambda *args: eval_program(before, args), consts, eqn)
    params |= {"body_jaxpr": body, "body_nconsts": n_body + len(hoisted)}
    return [*made, eqn.replace(invars=[*eqn.invars[:n_cond], *hoisted, *eqn.invars[n_cond:]], params=params)]


def _optimized_scan(eqn: Eqn, view: View, simplify: Simplify) -> tuple[list[Eqn], list[Atom]]:
    """The loop after all moves that fit it; what they compute before it has been emitted."""
    eqn = eqn.replace(params={**eqn.params, "jaxpr": _simplified(eqn.params["jaxpr"], simplify)})
    if is_short(eqn):  # its few products are as fast one by one, where the arrays lie
        return splice(partial(unrolled, eqn), eqn.invars, eqn)
    scan = take_apart(eqn, view)
    scan.simplify = simplify
    for move in moves.MOVES:
        if move.fits(scan):
            move.apply(scan)
    made = [scan.eqn()]
    if is_short(made[0]):
        made, found = splice(partial(unrolled, made[0]), made[0].invars, eqn)
        scan.standing.update(zip(scan.results, found))
    standing = Substitution((v, scan.standing.last(v)) for v in (*scan.standing, *eqn.outvars))
    return [*made, *standing.within(scan.after)], standing.read_all(eqn.outvars)
