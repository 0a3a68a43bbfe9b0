"""Loops that only add up products, on a GPU: strips of steps, of each a loop without carries, and then the products.

Knows `scan` equations by their parts; nothing of kernels. The cotangents of what all steps read are such sums. A loop
without carries may be one kernel of rows (`devices.py`), and sums over rows are products of what it has stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.control.scan import scan_p
from functad.editing.rewriting import spliced
from functad.ir import UNKNOWN, Aval, Eqn, Program, Var, definitions
from functad.optimize.loops.devices import is_in_map, optimizing_for
from functad.optimize.loops.parts import Scan, Simplify, take_scan_apart
from functad.optimize.loops.products import (
    addition,
    extra_bytes,
    finish_sum,
    is_sum,
    linear_chain,
    sums_over_steps,
)
from functad.optimize.loops.unrolling import has_large_product
from functad.primitives.common import reshape
from functad.primitives.contraction import dot_general_p
from functad.tracing import bind


def steps_of_strip(eqn: Eqn, simplify: Simplify) -> int:
    """How many steps of a scan had better be one loop without carries, as its products are computed behind it; or 0.

    As many as a number that divides those of the scan, and as what they stack leaves memory for.
    """
    length, count = eqn.params["length"], eqn.params["num_carry"]
    if is_in_map() is not False or length == UNKNOWN or length < 2 or count == 0 or not _adds_up(eqn):
        return 0
    body = _simplified_as_map(eqn, simplify)
    if not has_large_product(body):
        return 0
    scan = take_scan_apart(eqn.replace(params={**eqn.params, "jaxpr": body}))
    _move_products_behind_loops(scan)
    sums = sums_over_steps(scan, is_sum)
    if len(sums) < count:
        return 0
    operands = {a for s in sums for a in s.source.invars}  # each is stacked once
    each = extra_bytes(scan, operands) / length
    fitting = [n for n in range(2, length + 1) if length % n == 0 and n * each <= machine_model.CUDA_STRIP_BYTES]
    return max(fitting, default=0)


def _adds_up(eqn: Eqn) -> bool:
    scan = take_scan_apart(eqn)
    defined, uses = definitions(scan.body()), scan.uses()
    return all(addition(carry, defined, uses) is not None for carry in scan.carries)


def _simplified_as_map(eqn: Eqn, simplify: Simplify) -> Program:
    """The body of a scan, as that of a loop without carries."""
    with optimizing_for(True):
        return simplify(eqn.params["jaxpr"])


def sink_all_sums(scan: Scan) -> None:
    """Compute all that a scan adds up behind it, of what its steps stack."""
    _move_products_behind_loops(scan)
    for one in sums_over_steps(scan, is_sum):
        finish_sum(scan, one)


def of_steps(eqn: Eqn, steps: int) -> Program:
    """A Program of a scan, of so many steps."""
    count = eqn.params["num_carry"]
    same = eqn.params["num_consts"] + count

    def typed(aval: Aval, is_stack: bool) -> Var:
        return Var(Aval((steps, *aval.shape[1:]), aval.dtype) if is_stack else aval)

    given = [typed(a.aval, k >= same) for k, a in enumerate(eqn.invars)]
    results = [typed(v.aval, k >= count) for k, v in enumerate(eqn.outvars)]
    scan = eqn.replace(invars=given, outvars=results, params={**eqn.params, "length": steps})
    return Program(given, (), (), [scan], results, f"steps_{eqn.params['jaxpr'].name}")


def in_strips(eqn: Eqn, strip: int, optimized: Callable[[Eqn], Program]) -> list[Eqn]:
    """The equations of a scan over strips of a scan's steps; optimized: what becomes of the scan of a strip."""
    body = optimized(of_steps(eqn, strip).eqns[0])
    return spliced(partial(_over_strips, eqn, strip, body), eqn.invars, eqn)


def _over_strips(eqn: Eqn, strip: int, body: Program, *operands: Any) -> list[Any]:
    length, count = eqn.params["length"], eqn.params["num_carry"]
    same = eqn.params["num_consts"] + count
    stacks = [reshape(x, (length // strip, strip, *x.shape[1:])) for x in operands[same:]]
    params = {**eqn.params, "length": length // strip, "jaxpr": body}
    found = bind(scan_p, *operands[:same], *stacks, **params)
    return [*found[:count], *(reshape(y, (length, *y.shape[2:])) for y in found[count:])]


def _move_products_behind_loops(scan: Scan) -> None:
    """Products that a loop in a step stacks, of which the scan adds up all, are computed behind that loop at once."""
    wanted: dict[Eqn, list[Var]] = {}  # loops in a step, and which stacks of theirs
    for one in sums_over_steps(scan, lambda eqn: eqn.primitive is scan_p):
        inner, reader, *_ = one.eqns
        wanted.setdefault(inner, []).extend(v for v in inner.outvars if v in reader.invars)
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
