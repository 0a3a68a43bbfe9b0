"""Loops that only add up products, on a GPU: strips of steps, of each a loop without carries, and then the products.

Knows `scan` equations by their parts; nothing of kernels. The cotangents of what all steps read are such sums. A loop
without carries may be one kernel of rows (`devices.py`), and sums over rows are products of what it has stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.control.scan import scan_p
from functad.editing.rewriting import spliced
from functad.ir import Atom, Eqn, Program, Var, definitions
from functad.optimize.loops.devices import optimizing_for, takes_fewer_launches
from functad.optimize.loops.parts import Scan, take_scan_apart
from functad.optimize.loops.products import (
    addends,
    extra_bytes,
    finish_sum,
    is_sum,
    linear_chain,
    sums_over_steps,
)
from functad.optimize.loops.unrolling import has_large_product
from functad.primitives.common import reshape
from functad.primitives.contraction import dot_general_p
from functad.tracing import bind, eval_program, trace_to_program


def cut_into_strips(scan: Scan) -> None:
    """Let a scan go over strips of its steps, or be one, where that takes fewer launches."""
    if scan.strip is None:
        strip = _steps_of_strip(scan)
        tried = partial(scan.alone, _of_steps(scan, scan.length))
        scan.strip = strip if strip and takes_fewer_launches(partial(tried, strip), partial(tried, 0)) else 0
    if scan.strip == scan.length:
        scan.replace_body(_simplified_as_map(scan))
    elif scan.strip:
        body = scan.alone(_of_steps(scan, scan.strip), scan.strip)
        made = trace_to_program(partial(_over_strips, scan, scan.strip, body), [a.aval for a in scan.operands])
        moved = scan.alone(made, 0)
        scan.instead = lambda *operands: eval_program(moved, operands)


def _steps_of_strip(scan: Scan) -> int:
    """How many steps of a scan had better be one loop without carries, as its products are computed behind it; or 0.

    As many as a number that divides those of the scan, and as what they stack leaves memory for.
    """
    length = scan.length
    if length < 2 or not _addends(take_scan_apart(scan.origin)):
        return 0
    body = _simplified_as_map(scan)
    if not has_large_product(body):
        return 0
    tried = take_scan_apart(scan.origin.replace(params={**scan.origin.params, "jaxpr": body}), scan.view)
    _move_products_behind_loops(tried)
    sums, all_addends = sums_over_steps(tried, is_sum), _addends(tried)
    if not all_addends or len(sums) < len(all_addends):
        return 0
    operands = {a for s in sums for a in s.source.invars}  # each is stacked once
    each = extra_bytes(tried, operands) / length
    fitting = [n for n in range(2, length + 1) if length % n == 0 and n * each <= machine_model.CUDA_STRIP_BYTES]
    return max(fitting, default=0)


def _addends(scan: Scan) -> list[Atom]:
    """What the steps of a scan add up; nothing if more becomes of a carry than a sum."""
    defined, uses = definitions(scan.body()), scan.uses()
    found = [addends(carry, defined, uses) for carry in scan.carries]
    return [a for each in found for a in each] if all(found) else []


def _simplified_as_map(scan: Scan) -> Program:
    """The body of a scan, as that of a loop without carries."""
    with optimizing_for(runs="as a kernel"):
        return scan.simplify(scan.origin.params["jaxpr"])


def sums_behind_strip(scan: Scan) -> None:
    """Compute all that a strip adds up behind it, of what its steps stack."""
    if scan.strip:
        _move_products_behind_loops(scan)
        for one in sums_over_steps(scan, is_sum):
            finish_sum(scan, one)


def _of_steps(scan: Scan, steps: int) -> Program:
    """A Program of a scan, of so many steps."""
    params = {**scan.origin.params, "length": steps}
    avals = [a.aval for a in scan.origin.invars]
    same = len(scan.consts) + len(scan.carries)
    avals[same:] = [a.update(shape=(steps, *a.shape[1:])) for a in avals[same:]]
    return trace_to_program(lambda *operands: bind(scan_p, *operands, **params), avals, name=f"steps_{scan.name}")


def _over_strips(scan: Scan, strip: int, body: Program, *operands: Any) -> list[Any]:
    """A scan over strips of so many steps; body: what becomes of the scan of one."""
    length, count, same = scan.length, len(scan.carries), len(scan.consts) + len(scan.carries)
    stacks = [reshape(x, (length // strip, strip, *x.shape[1:])) for x in operands[same:]]
    params = {**scan.origin.params, "length": length // strip, "jaxpr": body}
    found = bind(scan_p, *operands[:same], *stacks, **params)
    return [*found[:count], *(reshape(y, (length, *y.shape[2:])) for y in found[count:])]


def _move_products_behind_loops(scan: Scan) -> None:
    """Products that a loop in a step stacks, of which the scan adds up all, are computed behind that loop at once."""
    wanted: dict[Eqn, list[Var]] = {}  # loops in a step, and which stacks of theirs
    for one in sums_over_steps(scan, lambda eqn: eqn.primitive is scan_p):
        inner, *moves = one.eqns
        read = moves[0].invars if moves else [one.addend]
        wanted.setdefault(inner, []).extend(v for v in inner.outvars if v in read)
    for inner, stacks in wanted.items():
        place = scan.eqns.index(inner)
        scan.eqns[place : place + 1] = _with_products_behind(inner, stacks)


def _with_products_behind(eqn: Eqn, wanted: Sequence[Var]) -> list[Eqn]:
    """A loop, and behind it the products of which some of its stacks are."""
    scan = take_scan_apart(eqn)
    behind: list[Eqn] = []
    for atom, result in [(a, v) for a, v in scan.ys if v in wanted]:
        chain = linear_chain(atom, definitions(scan.body()), scan.uses(), is_sum)
        if chain and chain[0].primitive is dot_general_p:
            scan.ys.remove((atom, result))
            scan.eqns = [e for e in scan.eqns if e not in chain]
            behind += _in_all_steps(scan, chain, result)
    return [scan.eqn(), *behind]


def _in_all_steps(scan: Scan, chain: Sequence[Eqn], result: Var) -> list[Eqn]:
    """The equations of what a chain gives in all steps of a loop, which stacks what it reads."""
    inputs = [a for a in chain[0].invars if isinstance(a, Var)]
    found = scan.for_all_steps(Program(inputs, (), (), chain, chain[-1].outvars), inputs)
    assert found is not None, "products and moves need no constants"
    return spliced(found.run, found.operands, chain[-1].replace(outvars=(result,)))
