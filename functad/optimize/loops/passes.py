"""The passes over loops and branches of a Program: their bodies are simplified, and work moves in and out of them.

Knows `scan`, `while` and `cond` equations; what is done to a scan is the table of `moves.py`. Results stay the same, up
to the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from functad.config import own_optimisations
from functad.control.conditional import cond_p
from functad.control.scan import scan_p
from functad.control.while_loop import while_p
from functad.editing.rewriting import View
from functad.editing.substitution import Substitution
from functad.ir import Atom, Eqn, Literal, Program, memoised
from functad.lowering_rules import ControlFlow
from functad.optimize.loops import moves
from functad.optimize.loops.devices import counts_launches, is_in_map, takes_fewer_launches, within
from functad.optimize.loops.layout import computed_before
from functad.optimize.loops.parts import Simplify, take_scan_apart
from functad.optimize.loops.strips import in_strips, of_steps, sink_all_sums, steps_of_strip
from functad.optimize.loops.unrolling import is_short, unrolled_scan


def has_loops(program: Program) -> bool:
    """Whether a Program has loops or branches."""
    return any(isinstance(e.primitive.lower, ControlFlow) for e in program.eqns)


def optimize_loops(program: Program, simplify: Simplify) -> Program:
    """All that is done to one loop or branch at a time; `simplify` is for what runs inside of them."""
    view = View(program)
    for eqn in program.eqns:
        eqn = view.read_all(eqn)
        if eqn.primitive is scan_p:
            _optimize_scan(eqn, view, simplify)
        elif eqn.primitive is while_p:
            view.emit(_optimized_while(eqn, view, simplify))
        elif eqn.primitive is cond_p:
            branches = tuple(_simplified(b, simplify) for b in eqn.params["branches"])
            view.emit(eqn.replace(params={**eqn.params, "branches": branches}))
        else:
            view.emit(eqn)
    return view.finish()


def _simplified(program: Program, simplify: Simplify) -> Program:
    key = ("simplified body", is_in_map(), counts_launches(), *own_optimisations())
    made = memoised(program, key, lambda: simplify(program))
    assert not made.consts, "a body is closed, and no pass makes a constant"
    return made


def _with_literals(program: Program, operands: Sequence[Atom]) -> Program:
    """The Program with the first of its inputs known, where operands are literals; all stay inputs."""
    known = Substitution((v, a) for v, a in zip(program.invars, operands) if isinstance(a, Literal))
    if not known:
        return program
    return program.replace(eqns=known.within(program.eqns), outvars=known.read_all(program.outvars))


def _optimized_while(eqn: Eqn, view: View, simplify: Simplify) -> Eqn:
    """The loop with simplified bodies; what is the same at every step has been emitted."""
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    operands, consts = eqn.invars[:n_cond], eqn.invars[n_cond : n_cond + n_body]
    cond = _simplified(_with_literals(eqn.params["cond_jaxpr"], operands), simplify)
    body = _simplified(_with_literals(eqn.params["body_jaxpr"], consts), simplify)
    invariants, body = computed_before(body, consts, partial(view.compute, eqn=eqn))
    params = {**eqn.params, "cond_jaxpr": cond, "body_jaxpr": body, "body_nconsts": n_body + len(invariants)}
    return eqn.replace(invars=[*operands, *invariants, *eqn.invars[n_cond:]], params=params)


def _optimize_scan(eqn: Eqn, view: View, simplify: Simplify) -> None:
    """Emit the loop, or the loop over strips of it that takes fewer launches."""
    strip = steps_of_strip(eqn, partial(_simplified, simplify=simplify))
    if strip and takes_fewer_launches(*(partial(_alone, eqn, n, simplify) for n in (strip, 0))):
        _optimize_strips(eqn, view, simplify, strip)
    else:
        _optimize_steps(eqn, view, simplify, strip=False)


def _alone(eqn: Eqn, strip: int, simplify: Simplify) -> Program:
    """A scan in strips, or as it is for 0, as a Program of its own."""
    alone = of_steps(eqn, eqn.params["length"])
    view = View(alone)
    _optimize_strips(alone.eqns[0], view, simplify, strip)
    return view.finish()


def _optimize_strips(eqn: Eqn, view: View, simplify: Simplify, strip: int) -> None:
    """Emit a scan as one over strips of so many steps, unless that is all of them, or 0."""
    if strip in (0, eqn.params["length"]):
        _optimize_steps(eqn, view, simplify, bool(strip))
        return
    for each in in_strips(eqn, strip, partial(_alone, strip=strip, simplify=simplify)):
        each = view.read_all(each)
        if each.primitive is scan_p:
            _optimize_steps(each, view, simplify, strip=False)
        else:
            view.emit(each)


def _optimize_steps(eqn: Eqn, view: View, simplify: Simplify, strip: bool) -> None:
    """Emit a scan after all moves that fit it, and what they compute before and after it.

    strip: whether all that it adds up is computed behind it.
    """
    with within(eqn, strip):
        body = _with_literals(eqn.params["jaxpr"], eqn.invars[: eqn.params["num_consts"]])
        eqn = eqn.replace(params={**eqn.params, "jaxpr": _simplified(body, simplify)})
    if not strip and is_short(eqn):  # its few products are as fast one by one, where the arrays lie
        view.replace(eqn.outvars, view.compute(partial(unrolled_scan, eqn), eqn.invars, eqn))
        return
    scan = take_scan_apart(eqn, view)
    scan.simplify = simplify
    if strip:
        sink_all_sums(scan)
    for move in moves.MOVES:
        if move.fits(scan):
            move.apply(scan)
    view.emit(scan.eqn())
    for fun, operands, results in reversed(scan.after):
        view.replace(results, view.compute(fun, operands, eqn))
