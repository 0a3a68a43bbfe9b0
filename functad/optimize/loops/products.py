"""Many small products of a loop become a large one: before it, of what all steps read, or after it, of what they stack.

Knows `scan` equations by their parts; each pass gives the same results up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad import machine_model
from functad.editing.splicing import splice
from functad.ir import Absent, Atom, Eqn, Literal, Program, Var
from functad.optimize.loops.parts import Scan
from functad.primitives.arithmetic import add_p
from functad.primitives.common import add_any_p, move_axis, reduce_sum, reduce_sum_p
from functad.primitives.contraction import dot_general_p
from functad.tracing import bind, eval_program
from functad.transforms.programs import batch_program


def hoist_products(scan: Scan, before: list[Eqn]) -> None:
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
            if scan.length * out.aval.size * out.aval.dtype.itemsize > machine_model.MOST_EXTRA_BYTES:
                continue  # nor is anything that is computed from it
            slices.add(out)
            if eqn.primitive is dot_general_p and _is_small(eqn):
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
    return flops <= machine_model.LARGEST_HOISTED_PRODUCT


def sink_sums(scan: Scan, after: list[Eqn], results: dict[Var, Atom]) -> None:
    """A sum of products that the loop only carries along is one product of what all steps stack.

    `total += transpose(dot_general(a, b))` becomes the product of the stacked a and b, summed over the steps, too:
    the gradient of a weight. Sums over axes of something that is stacked anyway (of a bias) are treated alike.
    """
    definitions = {v: e for e in scan.eqns for v in e.outvars}
    uses = scan.uses_in_body()
    sums = []
    for carry in scan.carries:
        total = definitions.get(carry.given) if isinstance(carry.given, Var) else None
        if total is None or total.primitive not in (add_any_p, add_p) or uses.get(carry.read) != 1:
            continue
        if uses[total.outvars[0]] != 1 or carry.read not in total.invars:
            continue
        term = total.invars[1] if total.invars[0] is carry.read else total.invars[0]
        chain = _linear_chain(term, definitions, uses)
        if chain is not None:
            sums.append((carry, total, *chain))
    stacked: dict[Var, Var] = {a: v for a, v in scan.ys if isinstance(a, Var)}
    for carry, total, source, chain_eqns in sums:
        if source.primitive is not dot_general_p or not _is_small(source):
            continue
        if sum(_stack_bytes(scan, a, stacked) for a in source.invars) > machine_model.MOST_EXTRA_BYTES:
            continue
        factors = [_stacked(scan, a, stacked) for a in source.invars]
        _finish_sum(scan, carry, total, [source, *chain_eqns], partial(_joint_product, source), factors, after, results)
    for carry, total, source, chain_eqns in sums:
        if source.primitive is not reduce_sum_p or _stack_bytes(scan, source.invars[0], stacked):
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


def _linear_chain(term: Atom, definitions: dict[Var, Eqn], uses: dict[Var, int]) -> tuple[Eqn, list[Eqn]] | None:
    """The product or sum that a term comes from, and the moves after it, each used only here."""
    chain: list[Eqn] = []
    while isinstance(term, Var) and uses.get(term) == 1 and term in definitions:
        eqn = definitions[term]
        if eqn.primitive in (dot_general_p, reduce_sum_p):
            return eqn, chain[::-1]
        dtype = eqn.outvars[0].aval.dtype
        is_linear = len(eqn.invars) == 1 and not isinstance(eqn.primitive.transpose, Absent)  # so it has that rule
        if not is_linear or dtype.kind != "f" or not np.can_cast(dtype, eqn.invars[0].aval.dtype):
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
