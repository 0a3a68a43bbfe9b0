"""The passes over loops and branches of a Program: they simplify what runs in them, and apply the table of `moves.py`.

Knows `scan`, `while` and `cond` equations. Results stay the same, up to the order of sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from functad.config import own_optimisations
from functad.control.conditional import cond_p
from functad.control.scan import scan_p
from functad.control.while_loop import while_p
from functad.editing.common_subexpressions import share_common_subexpressions
from functad.editing.rewriting import View
from functad.editing.substitution import Substitution, copied
from functad.ir import Atom, Eqn, Literal, Program, memoised
from functad.lowering_rules import ControlFlow
from functad.observing import watching
from functad.optimize.loops import moves
from functad.optimize.loops.devices import optimized_for, within
from functad.optimize.loops.legality import apart
from functad.optimize.loops.parts import LOOPS, Scan, Simplify, WhileLoop, take_apart


def optimize_loops(program: Program, simplify: Simplify) -> Program:
    """All that is done to loops and branches as they were written; `simplify` is for what runs inside of them."""
    if not any(isinstance(e.primitive.lower, ControlFlow) for e in program.eqns):
        return program
    return _look_around(_move(join_loops(program, "as written"), partial(_simplified, simplify=simplify)))


def _simplified(program: Program, simplify: Simplify) -> Program:
    key = ("simplified body", optimized_for(), *own_optimisations())
    return memoised(program, key, lambda: simplify(program))


# --- two loops --------------------------------------------------------------------------------------------


def join_loops(program: Program, round: moves.Round) -> Program:
    """Join two loops as long as some can be.

    >>> import functad
    >>> from functad import lax
    >>> def twice(xs):
    ...     doubled = lax.map(lambda x: x * 2, xs)
    ...     return lax.scan(lambda total, x: (total + x, None), 0., doubled)[0]
    >>> program = functad.make_jaxpr(twice)(functad.ShapeDtypeStruct((50,), "float32"))
    >>> [e.primitive.name for e in join_loops(program, "as written").eqns]
    ['scan']
    >>> def two(x):
    ...     one = lax.while_loop(lambda v: v < 9, lambda v: v * 2, x)
    ...     _, total = lax.while_loop(lambda v: v[0] < 9, lambda v: (v[0] * 2, v[1] + v[0]), (x, 0.))
    ...     return one, total
    >>> program = functad.make_jaxpr(two)(1.)
    >>> [e.primitive.name for e in program.eqns], [e.primitive.name for e in join_loops(program, "equal").eqns]
    (['while', 'while'], ['while'])
    """
    eqns, outvars, written = list(program.eqns), list(program.outvars), set(program.eqns)
    while (joined := _first_joined(eqns, round)) is not None:
        eqns, renamed = joined
        outvars = renamed.read_all(outvars)
    if written.issuperset(eqns):
        return program
    made = [e.primitive in LOOPS and e not in written for e in eqns]
    eqns = [_with_bodies(e, share_common_subexpressions) if new else e for e, new in zip(eqns, made)]  # in both: once
    return program.replace(eqns=eqns, outvars=outvars)


def _first_joined(eqns: Sequence[Eqn], round: moves.Round) -> tuple[list[Eqn], Substitution] | None:
    """The equations with one loop in the place of two, and what stands for results that it has not."""
    for i, j in _pairs(eqns):
        for move in moves.allowed(round, eqns[i], eqns[j]):
            if (parted := apart(eqns, i, j)) is None:
                continue
            first, second = (take_apart(_with_bodies(eqns[k], copied)) for k in (i, j))
            renamed = move.apply(first, second)
            if renamed is not None:
                before, after = parted
                made = first.eqn()
                if watching.observer is not None:
                    watching.observer.rewrote(move, eqns[j], made)
                return [*eqns[:i], *before, made, *renamed.within([*after, *eqns[j + 1 :]])], renamed
    return None


def _pairs(eqns: Sequence[Eqn]) -> Iterator[tuple[int, int]]:
    """Each loop with the earlier ones that give what it reads, the nearest first, and `while` loops with all such."""
    gives: dict[Atom, int] = {}
    whiles: list[int] = []
    for j, eqn in enumerate(eqns):
        if eqn.primitive in LOOPS:
            is_while = eqn.primitive is while_p
            earlier = {gives[a] for a in eqn.invars if a in gives}.union(whiles if is_while else ())
            yield from ((i, j) for i in sorted(earlier, reverse=True))
            gives.update((v, j) for v in eqn.outvars)
            whiles += [j] if is_while else []


# --- one loop ---------------------------------------------------------------------------------------------


def _move(program: Program, simplify: Simplify, strip: int | None = None) -> Program:
    """What runs in loops and branches is simplified, and each loop has its moves.

    strip: of how many steps scans have strips, if that is known.
    """
    view = View(program)
    for eqn in program.eqns:
        eqn = written = view.read_all(eqn)
        if isinstance(eqn.primitive.lower, ControlFlow):
            written = _with_numbers(eqn)
            with within(written):
                eqn = _with_bodies(written, simplify)
        if eqn.primitive not in LOOPS:
            view.emit(eqn)
            continue
        loop = take_apart(eqn, view)
        if isinstance(loop, Scan):
            loop.origin, loop.simplify, loop.alone, loop.strip = written, simplify, partial(_alone, simplify), strip
        _apply(moves.allowed("each", written), loop)
    return view.finish()


def _alone(simplify: Simplify, program: Program, strip: int) -> Program:
    return _move(program, simplify, strip)


def _look_around(program: Program) -> Program:
    """Each loop has its moves that depend on what stands around it."""
    view = View(program)
    for eqn in program.eqns:
        eqn = view.read_all(eqn)
        rows = moves.allowed("around", eqn) if eqn.primitive in LOOPS else []
        if rows:
            _apply(rows, take_apart(eqn, view))
        else:
            view.emit(eqn)
    return view.finish()


def _apply(rows: Sequence[moves.LoopMove], loop: Scan | WhileLoop) -> None:
    """Emit a loop after its moves, and what they compute before and after it."""
    view, eqn = loop.view, loop.origin
    for move in rows:
        before = loop.state if watching.observer is not None else ()
        move.apply(loop)
        if watching.observer is not None and loop.state != before:
            watching.observer.rewrote(move, eqn, loop.eqn())
        if loop.instead is not None:
            view.replace(eqn.outvars, view.compute(loop.instead, loop.operands, eqn))
            return
    view.emit(loop.eqn())
    for fun, operands, results in reversed(loop.after):
        view.replace(results, view.compute(fun, operands, eqn))


# --- what runs in them ------------------------------------------------------------------------------------


def _with_bodies(eqn: Eqn, change: Simplify) -> Eqn:
    """An equation that runs other Programs in the place of its own."""
    if eqn.primitive is cond_p:
        return eqn.replace(params={**eqn.params, "branches": tuple(map(change, eqn.params["branches"]))})
    names = ("jaxpr",) if eqn.primitive is scan_p else ("cond_jaxpr", "body_jaxpr")
    return eqn.replace(params={**eqn.params, **{name: change(eqn.params[name]) for name in names}})


def _with_numbers(eqn: Eqn) -> Eqn:
    """A loop in which operands that are the same in all steps, and are numbers, are known."""
    params, invars = eqn.params, eqn.invars
    if eqn.primitive is scan_p:
        first = {"jaxpr": invars[: params["num_consts"]]}
    elif eqn.primitive is while_p:
        n, m = params["cond_nconsts"], params["body_nconsts"]
        first = {"cond_jaxpr": invars[:n], "body_jaxpr": invars[n : n + m]}
    else:
        return eqn
    return eqn.replace(params={**params, **{name: _knowing(params[name], same) for name, same in first.items()}})


def _knowing(program: Program, operands: Sequence[Atom]) -> Program:
    """The Program with the first of its inputs known, where operands are literals; all stay inputs."""
    known = Substitution((v, a) for v, a in zip(program.invars, operands) if isinstance(a, Literal))
    if not known:
        return program
    return program.replace(eqns=known.within(program.eqns), outvars=known.read_all(program.outvars))
