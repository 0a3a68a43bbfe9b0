"""Passes over loops: what stays the same leaves them, small products become a large one, short loops are unrolled.

Knows `scan` and `while` equations by their parts; each pass is a function from Program to Program with the same
results, up to the order of sums.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.control import cond_p, scan_p, while_p
from functad.editing.partial_evaluation import split_invariant
from functad.editing.splicing import splice
from functad.ir import UNKNOWN, Atom, Eqn, Literal, Program, Var, memoised, subprograms
from functad.lowering_rules import ControlFlow
from functad.optimize.loops.linear_recurrences import shorten_chains
from functad.optimize.loops.parts import Scan, take_apart
from functad.optimize.loops.products import hoist_products, sink_sums
from functad.optimize.loops.scan_fusion import fuse_scans
from functad.optimize.loops.sinking import sink_into_scans
from functad.optimize.loops.stacks import compute_inside
from functad.optimize.loops.starts import start_from_first_slices
from functad.optimize.loops.weights import transpose_weights
from functad.primitives.common import broadcast_in_dim_p, full, reshape
from functad.primitives.joining import concatenate, stack
from functad.primitives.structure import slice_
from functad.tracing import bind, eval_program, trace_to_program


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
        eqn = eqn.replace(invars=[_rename(renamed, a) for a in eqn.invars])
        if eqn.primitive is scan_p and 1 < eqn.params["unroll"] < eqn.params["length"]:
            made, results = splice(partial(_unrolled_in_part, eqn), eqn.invars, eqn)
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
    return sink_into_scans(program.replace(eqns=eqns, outvars=[_rename(renamed, a) for a in program.outvars]))


def _rename(renamed: dict[Var, Atom], atom: Atom) -> Atom:
    while isinstance(atom, Var) and atom in renamed:
        atom = renamed[atom]
    return atom


def _simplified(program: Program, simplify: Callable[[Program], Program]) -> Program:
    made = memoised(program, ("simplified body",), lambda: simplify(program))
    assert not made.consts, "a body is closed, and no pass makes a constant"
    return made


def _with_literals(program: Program, operands: Sequence[Atom]) -> Program:
    """The Program with the first of its inputs known, where operands are literals; all stay inputs."""
    known: dict[Var, Atom] = {v: a for v, a in zip(program.invars, operands) if isinstance(a, Literal)}
    if not known:
        return program
    eqns = [e.replace(invars=[_rename(known, a) for a in e.invars]) for e in program.eqns]
    return program.replace(eqns=eqns, outvars=[_rename(known, a) for a in program.outvars])


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
    made, hoisted = splice(partial(_run, before), consts, eqn)
    params |= {"body_jaxpr": body, "body_nconsts": n_body + len(hoisted)}
    return [*made, eqn.replace(invars=[*eqn.invars[:n_cond], *hoisted, *eqn.invars[n_cond:]], params=params)]


def _run(program: Program, *args: Any) -> list[Any]:
    return eval_program(program, args)


def _optimized_scan(
    eqn: Eqn, simplify: Callable[[Program], Program], definitions: dict[Var, Eqn]
) -> tuple[list[Eqn], list[Atom]]:
    """Equations that compute what a scan does, and its results."""
    body = _simplified(eqn.params["jaxpr"], simplify)
    eqn = eqn.replace(params={**eqn.params, "jaxpr": body})
    if _is_short(eqn):  # its few products are as fast one by one, where the arrays lie
        return splice(partial(_unrolled, eqn), eqn.invars, eqn)
    scan = take_apart(eqn)
    if scan.length == UNKNOWN:
        compute_inside(scan, definitions)
        scan = take_apart(scan.eqn(_simplified(scan.body(), simplify)))
    results: dict[Var, Atom] = {v: v for v in eqn.outvars}
    before: list[Eqn] = []
    after: list[Eqn] = []
    _fix_invariant_carries(scan, results)
    _share(scan, results)
    _fill_inside(scan, definitions)
    _hoist_invariants(scan, before)
    if scan.length != UNKNOWN:
        start_from_first_slices(scan, before, definitions)
        hoist_products(scan, before)
        sink_sums(scan, after, results)
        transpose_weights(scan, before)
    shorten_chains(scan, before, after, results, simplify)
    _share(scan, results)
    loop = [scan.eqn()]
    if _is_short(loop[0]):
        loop, found = splice(partial(_unrolled, loop[0]), loop[0].invars, eqn)
        unrolled: dict[Var, Atom] = dict(zip(scan.eqn().outvars, found))
        after = [e.replace(invars=[_rename(unrolled, a) for a in e.invars]) for e in after]
        results.update(unrolled)
    after = [e.replace(invars=[_rename_result(results, a) for a in e.invars]) for e in after]
    return [*before, *loop, *after], [_rename_result(results, v) for v in eqn.outvars]


def _rename_result(results: dict[Var, Atom], var: Atom) -> Atom:
    while isinstance(var, Var) and results.get(var, var) is not var:
        var = results[var]
    return var


# --- unrolling --------------------------------------------------------------------------------------------


def _is_short(eqn: Eqn) -> bool:
    length: int = eqn.params["length"]
    if length == UNKNOWN:
        return False
    if length <= 1 or eqn.params["unroll"] >= length:
        return True
    equations = length * _size(eqn.params["jaxpr"])
    return length <= machine_model.UNROLLED_STEPS and equations <= machine_model.UNROLLED_EQUATIONS


def _size(program: Program) -> int:
    """The number of equations, with those of loops and branches inside."""
    return len(program.eqns) + sum(_size(p) for e in program.eqns for p in subprograms(e.params))


def _unrolled(eqn: Eqn, *args: Any) -> list[Any]:
    """The steps of a scan one after another, as a function of its operands."""
    body: Program = eqn.params["jaxpr"]
    length, n, m = eqn.params["length"], eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, xs = args[:n], list(args[n : n + m]), args[n + m :]
    found: list[list[Any]] = [[] for _ in body.outvars[m:]]
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        outs = eval_program(body, [*consts, *carry, *(_step_of(x, i) for x in xs)])
        carry = outs[:m]
        for ys, y in zip(found, outs[m:]):
            ys.append(y)
    if eqn.params["reverse"]:
        for ys in found:
            ys.reverse()
    stacked = [stack(ys, 0) if ys else _nothing(v.aval) for ys, v in zip(found, eqn.outvars[m:])]
    return [*carry, *stacked]


def _unrolled_in_part(eqn: Eqn, *args: Any) -> list[Any]:
    """A scan of `unroll` steps at a time, and the steps that are left over by themselves."""
    body: Program = eqn.params["jaxpr"]
    length, reverse, at_once = eqn.params["length"], eqn.params["reverse"], eqn.params["unroll"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, xs = list(args[:n]), list(args[n : n + m]), args[n + m :]
    rounds, rest = divmod(length, at_once)
    first = rest if reverse else 0  # where the rounds begin; what is left over comes last
    piece = eqn.replace(params={**eqn.params, "length": at_once})
    avals = [a.aval for a in body.invars]
    wide = [type(a)((at_once, *a.shape), a.dtype, a.weak_type) for a in avals[n + m :]]
    several = trace_to_program(partial(_unrolled, piece), [*avals[: n + m], *wide], name=body.name)
    heads = [
        reshape(_steps_of(x, first, first + rounds * at_once), (rounds, at_once, *x.shape[1:])) for x in xs
    ]  # fmt: skip
    params = {**eqn.params, "jaxpr": several, "length": rounds, "unroll": 1}
    outs = bind(eqn.primitive, *consts, *carry, *heads, **params)
    ys = [reshape(y, (rounds * at_once, *y.shape[2:])) for y in outs[m:]]
    if not rest:
        return [*outs[:m], *ys]
    left = 0 if reverse else rounds * at_once
    tails = [_steps_of(x, left, left + rest) for x in xs]
    piece = eqn.replace(params={**eqn.params, "length": rest}, outvars=eqn.outvars)
    last = _unrolled(piece, *consts, *outs[:m], *tails)
    joined = [concatenate([t, y] if reverse else [y, t], 0) for y, t in zip(ys, last[m:])]
    return [*last[:m], *joined]


def _step_of(x: Any, i: int) -> Any:
    return reshape(_steps_of(x, i, i + 1), x.shape[1:])


def _steps_of(x: Any, start: int, stop: int) -> Any:
    return slice_(x, (start, *[0] * (x.ndim - 1)), (stop, *x.shape[1:]))


def _nothing(aval: Any) -> Any:
    return full(aval.shape, aval.dtype.type(0))


# --- what stays the same ----------------------------------------------------------------------------------


def _fix_invariant_carries(scan: Scan, results: dict[Var, Atom]) -> None:
    """A carry that the body hands on as it is, is a constant."""
    for carry in list(scan.carries):
        if carry.given is carry.read:
            scan.carries.remove(carry)
            scan.consts.append((carry.init, carry.read))
            results[carry.result] = carry.init


def _share(scan: Scan, results: dict[Var, Atom]) -> None:
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


def _fill_inside(scan: Scan, definitions: dict[Var, Eqn]) -> None:
    """Let the body repeat a number itself, instead of reading it from an array that holds nothing else."""
    for group in ("consts", "xs") if scan.length != UNKNOWN else ("consts",):
        kept = []
        for operand, var in getattr(scan, group):
            eqn = definitions.get(operand) if isinstance(operand, Var) else None
            if eqn is None or eqn.primitive is not broadcast_in_dim_p or not isinstance(eqn.invars[0], Literal):
                kept.append((operand, var))
                continue
            number = eqn.invars[0]
            params = {**eqn.params, "shape": var.aval.shape, "broadcast_dimensions": ()}
            scan.eqns.insert(0, eqn.replace(invars=[number], outvars=[var], params=params))
        setattr(scan, group, kept)


def _hoist_invariants(scan: Scan, before: list[Eqn]) -> None:
    """Compute before the loop what depends on its constants alone."""
    body = scan.body()
    first, rest = split_invariant(body, [i < len(scan.consts) for i in range(len(body.invars))])
    if not first.eqns:
        return
    made, hoisted = splice(partial(_run, first), [a for a, _ in scan.consts], scan.origin)
    before += made
    scan.consts = [*zip(hoisted, rest.invars[: len(hoisted)]), *scan.consts]
    scan.eqns = list(rest.eqns)
