"""Passes over loops: what stays the same leaves them, small products become a large one, short loops are unrolled.

Knows `scan` and `while` equations by their parts; each pass is a function from Program to Program with the same
results, up to the order of sums.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.ir import UNKNOWN, Atom, Eqn, Literal, Program, Var, subprograms
from functad.primitives.common import full, move_axis, reduce_sum, reshape
from functad.primitives.joining import concatenate, stack
from functad.primitives.structure import slice_
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.loop_fusion import fuse_scans
from functad.transforms.loop_parts import Scan, split_invariant, take_apart
from functad.transforms.loop_stacks import compute_inside
from functad.transforms.programs import batch_program, memoised

SMALL_PRODUCT = 3e7  # operations; a larger product gains nothing from being joined with others
LARGEST_STACK = 1 << 26  # bytes that a pass may add to what a loop stacks
UNROLLED_STEPS = 8
UNROLLED_EQUATIONS = 200  # of all steps together


def splice(fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a function of operands, with the source of an equation, and its results as atoms."""
    program = trace_to_program(fun, [a.aval for a in operands])
    assert not program.consts
    names: dict[Var, Atom] = dict(zip(program.invars, operands))
    found = []
    for e in program.eqns:
        outs = [Var(v.aval) for v in e.outvars]
        found.append(e.replace(invars=[_read(names, a) for a in e.invars], outvars=outs, source=e.source or eqn.source))
        names.update(zip(e.outvars, outs))
    return found, [_read(names, a) for a in program.outvars]


def _read(names: dict[Var, Atom], atom: Atom) -> Atom:
    return names[atom] if isinstance(atom, Var) else atom


def optimize_loops(program: Program, simplify: Callable[[Program], Program]) -> Program:
    """All passes over the loops and branches of a Program; `simplify` is for what runs inside of them."""
    if not any(e.primitive.name in ("scan", "while", "cond") for e in program.eqns):
        return program
    program = fuse_scans(program)
    eqns: list[Eqn] = []
    renamed: dict[Var, Atom] = {}
    definitions = {v: e for e in program.eqns for v in e.outvars}
    waiting = deque(program.eqns)
    while waiting:
        eqn = waiting.popleft()
        eqn = eqn.replace(invars=[_rename(renamed, a) for a in eqn.invars])
        name = eqn.primitive.name
        if name == "scan" and 1 < eqn.params["unroll"] < eqn.params["length"]:
            made, results = splice(partial(_unrolled_in_part, eqn), eqn.invars, eqn)
            waiting.extendleft(reversed(made))
            renamed.update(zip(eqn.outvars, results))
        elif name == "scan":
            made, results = _optimized_scan(eqn, simplify, definitions)
            eqns += made
            renamed.update((v, a) for v, a in zip(eqn.outvars, results) if v is not a)
        elif name == "while":
            eqns += _optimized_while(eqn, simplify)
        elif name == "cond":
            branches = tuple(_simplified(b, simplify) for b in eqn.params["branches"])
            eqns.append(eqn.replace(params={**eqn.params, "branches": branches}))
        else:
            eqns.append(eqn)
            definitions.update((v, eqn) for v in eqn.outvars)
    return program.replace(eqns=eqns, outvars=[_rename(renamed, a) for a in program.outvars])


def _rename(renamed: dict[Var, Atom], atom: Atom) -> Atom:
    while isinstance(atom, Var) and atom in renamed:
        atom = renamed[atom]
    return atom


def _simplified(program: Program, simplify: Callable[[Program], Program]) -> Program:
    made = memoised(program, ("simplified body",), lambda: simplify(program))
    return program if made.consts else made  # a body must be closed


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
        _hoist_products(scan, before)
        _sink_sums(scan, after, results)
    _share(scan, results)
    loop = [scan.eqn()]
    if _is_short(loop[0]):
        loop, found = splice(partial(_unrolled, loop[0]), loop[0].invars, eqn)
        unrolled: dict[Var, Atom] = dict(zip(scan.eqn().outvars, found))
        after = [e.replace(invars=[_rename(unrolled, a) for a in e.invars]) for e in after]
        results.update(unrolled)
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
    return length <= UNROLLED_STEPS and length * _size(eqn.params["jaxpr"]) <= UNROLLED_EQUATIONS


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
            if eqn is None or eqn.primitive.name != "broadcast_in_dim" or not isinstance(eqn.invars[0], Literal):
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


# --- products ---------------------------------------------------------------------------------------------


def _hoist_products(scan: Scan, before: list[Eqn]) -> None:
    """Compute small products of what the loop reads, not of what it carries, for all steps at once."""
    slices = {v for _, v in scan.xs}
    known = slices | {v for _, v in scan.consts}
    chosen: list[Eqn] = []
    for eqn in scan.eqns:
        variables = [a for a in eqn.invars if isinstance(a, Var)]
        if eqn.primitive.multiple_results or not all(v in known for v in variables):
            continue
        (out,) = eqn.outvars
        if any(v in slices for v in variables):
            if scan.length * out.aval.size * out.aval.dtype.itemsize > LARGEST_STACK:
                continue  # nor is anything that is computed from it
            slices.add(out)
            if eqn.primitive.name == "dot_general" and _is_small(eqn):
                chosen.append(eqn)
        known.add(out)
    if not chosen:
        return
    gone = set(chosen)
    wanted = [e.outvars[0] for e in chosen]
    needed, eqns = set(wanted), []
    for eqn in reversed(scan.eqns):
        if any(v in needed for v in eqn.outvars):
            eqns.append(eqn)
            needed.update(a for a in eqn.invars if isinstance(a, Var))
    consts = [(a, v) for a, v in scan.consts if v in needed]
    xs = [(a, v) for a, v in scan.xs if v in needed]
    first = Program([v for _, v in (*consts, *xs)], (), (), eqns[::-1], wanted, f"products_{scan.name}")
    all_steps = batch_program(first, scan.length, (*[None] * len(consts), *[0] * len(xs)))
    if all_steps.program.consts or None in all_steps.out_dims:
        return

    def run(*args: Any) -> list[Any]:
        outs = eval_program(all_steps.program, args)
        return [move_axis(o, d, 0) for o, d in zip(outs, all_steps.out_dims) if d is not None]

    made, found = splice(run, [a for a, _ in (*consts, *xs)], scan.origin)
    before += made
    scan.eqns = [e for e in scan.eqns if e not in gone]
    scan.xs += list(zip(found, wanted))


def _is_small(eqn: Eqn) -> bool:
    (contract, _), _ = eqn.params["dimension_numbers"]
    flops: float = 2.0 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[d] for d in contract)
    return flops <= SMALL_PRODUCT


def _sink_sums(scan: Scan, after: list[Eqn], results: dict[Var, Atom]) -> None:
    """A sum of products that the loop only carries along is one product of what all steps stack.

    `total += transpose(dot_general(a, b))` becomes the product of the stacked a and b, summed over the steps, too:
    the gradient of a weight. Sums over axes of something that is stacked anyway (of a bias) are treated alike.
    """
    definitions = {v: e for e in scan.eqns for v in e.outvars}
    uses = scan.uses_in_body()
    sums = []
    for carry in scan.carries:
        total = definitions.get(carry.given) if isinstance(carry.given, Var) else None
        if total is None or total.primitive.name not in ("add_any", "add") or uses.get(carry.read) != 1:
            continue
        if uses[total.outvars[0]] != 1 or carry.read not in total.invars:
            continue
        term = total.invars[1] if total.invars[0] is carry.read else total.invars[0]
        chain = _linear_chain(term, definitions, uses)
        if chain is not None:
            sums.append((carry, total, *chain))
    stacked: dict[Var, Var] = {a: v for a, v in scan.ys if isinstance(a, Var)}
    for carry, total, source, chain_eqns in sums:
        if source.primitive.name != "dot_general" or not _is_small(source):
            continue
        if sum(_stack_bytes(scan, a, stacked) for a in source.invars) > LARGEST_STACK:
            continue
        factors = [_stacked(scan, a, stacked) for a in source.invars]
        _finish_sum(scan, carry, total, [source, *chain_eqns], partial(_joint_product, source), factors, after, results)
    for carry, total, source, chain_eqns in sums:
        if source.primitive.name != "reduce_sum" or _stack_bytes(scan, source.invars[0], stacked):
            continue
        axes = (0, *(d + 1 for d in source.params["axes"]))
        terms = [_stacked(scan, source.invars[0], stacked)]
        _finish_sum(
            scan,
            carry,
            total,
            [source, *chain_eqns],
            lambda x, axes=axes: reduce_sum(x, axes=axes),
            terms,
            after,
            results,
        )


_LINEAR = ("transpose", "reshape", "neg", "convert_element_type", "squeeze")


def _linear_chain(term: Atom, definitions: dict[Var, Eqn], uses: dict[Var, int]) -> tuple[Eqn, list[Eqn]] | None:
    """The product or sum that a term comes from, and the moves after it, each used only here."""
    chain: list[Eqn] = []
    while isinstance(term, Var) and uses.get(term) == 1 and term in definitions:
        eqn = definitions[term]
        if eqn.primitive.name in ("dot_general", "reduce_sum"):
            return eqn, chain[::-1]
        dtype = eqn.outvars[0].aval.dtype
        if eqn.primitive.name not in _LINEAR or dtype.kind != "f" or not np.can_cast(dtype, eqn.invars[0].aval.dtype):
            return None  # a sum over all steps has more digits than the dtype before a conversion may hold
        chain.append(eqn)
        term = eqn.invars[0]
    return None


def _stack_bytes(scan: Scan, atom: Atom, stacked: dict[Var, Var]) -> float:
    """The bytes that stacking a value for all steps adds; none for what is stacked, or read, already."""
    if isinstance(atom, Literal) or any(v is atom for _, v in scan.consts):
        return math.inf  # it is the same in all steps
    if atom in stacked or any(v is atom for _, v in scan.xs):
        return 0
    return scan.length * atom.aval.size * atom.aval.dtype.itemsize


def _stacked(scan: Scan, atom: Atom, stacked: dict[Var, Var]) -> Atom:
    """The values of an atom of the body in all steps."""
    for operand, var in scan.xs:
        if var is atom:
            return operand
    assert isinstance(atom, Var)
    if atom not in stacked:
        aval = atom.aval
        stacked[atom] = Var(type(aval)((scan.length, *aval.shape), aval.dtype))
        scan.ys.append((atom, stacked[atom]))
    return stacked[atom]


def _finish_sum(
    scan: Scan, carry: Any, total: Eqn, gone: Sequence[Eqn], compute: Callable[..., Any], operands: Sequence[Atom],
    after: list[Eqn], results: dict[Var, Atom],
) -> None:  # fmt: skip
    """Take a sum out of the loop: compute it afterwards from stacked values, and add what the carry started from."""

    def run(start: Any, *args: Any) -> list[Any]:
        value = compute(*args)
        for eqn in gone[1:]:
            value = bind(eqn.primitive, value, **eqn.params)
        return [bind(total.primitive, start, value)]

    made, (found,) = splice(run, [carry.init, *operands], total)
    after += made
    results[carry.result] = found
    scan.carries.remove(carry)
    dropped = {*gone, total}
    scan.eqns = [e for e in scan.eqns if e not in dropped]


def _joint_product(eqn: Eqn, a: Any, b: Any) -> Any:
    """The sum over all steps of a product, of its stacked operands."""
    contract, batch = eqn.params["dimension_numbers"]
    numbers = (
        tuple((0, *(d + 1 for d in dims)) for dims in contract),
        tuple(tuple(d + 1 for d in dims) for dims in batch),
    )
    others = {k: v for k, v in eqn.params.items() if k != "dimension_numbers"}
    return bind(eqn.primitive, a, b, dimension_numbers=numbers, **others)
