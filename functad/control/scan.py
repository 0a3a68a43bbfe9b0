"""`scan_p`: a loop of known length that carries values along, reads slices of arrays and stacks results.

Operands are (constants, carry, arrays to read slices of). The body is a closed Program
`(constants, carry, slices) → (carry, slices of results)`. `linear` says that the loop was made by differentiation, and
is linear in its carry: tangents, or cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.calls.common import body_function, check_operands, group, split_at, with_constants
from functad.control.closing import closed_scan
from functad.control.known_carry import KnownCarry, split_known_carry
from functad.control.pruning import pruned_scan
from functad.dtypes import stored_as
from functad.editing.partial_evaluation import recompute_cheap, split_invariant
from functad.evaluation import aval_of
from functad.ir import UNKNOWN, Absent, Atom, Aval, Eqn, Linearize, Primitive, Program, Var, Zero, memoised
from functad.lowering_rules import ControlFlow
from functad.primitives.common import (
    add_cotangents,
    convert_element_type,
    instantiate,
    is_linear,
    move_axis,
    zeros_of,
)
from functad.primitives.logic import lt
from functad.records import NamedTuple
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.batching import place_batch_axis
from functad.transforms.named_axes import batched_axis
from functad.transforms.programs import batch_program, linearize_program, transpose_program


def scan(
    body: Program, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], *, length: int, reverse: bool,
    unroll: int = 1, linear: bool = False,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """Bind a scan; returns the last carry and the stacked results. The constants of the body become operands."""
    body, consts = with_constants(body, consts)
    outs = bind(
        scan_p, *consts, *carry, *xs, jaxpr=body, length=length, reverse=reverse, unroll=unroll,
        num_consts=len(consts), num_carry=len(carry), linear=linear,
    )  # fmt: skip
    return outs[: len(carry)], outs[len(carry) :]


def _abstract_eval(
    *avals: Aval, jaxpr: Program, length: int, num_consts: int, num_carry: int, **params: Any
) -> list[Aval]:
    first = num_consts + num_carry
    check_operands("scan", [*avals[:first], *(Aval(a.shape[1:], a.dtype) for a in avals[first:])], jaxpr)
    outs = jaxpr.out_avals
    return outs[:num_carry] + [_stacked(a, length) for a in outs[num_carry:]]


def _stacked(aval: Aval, length: int) -> Aval:
    return Aval((length, *aval.shape), aval.dtype, aval.weak_type)


def _impl(
    *args: np.ndarray, jaxpr: Program, length: int, reverse: bool, num_consts: int, num_carry: int, **params: Any
) -> list[np.ndarray]:
    run = body_function(jaxpr)
    consts, carry, xs = split_at(args, num_consts, num_carry)
    length = xs[0].shape[0] if length == UNKNOWN else length
    ys = [np.empty((length, *a.shape), stored_as(a.dtype)) for a in jaxpr.out_avals[num_carry:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        outs = run([*consts, *carry, *[x[i] for x in xs]])
        carry = outs[:num_carry]
        for y, out in zip(ys, outs[num_carry:]):
            y[i] = out
    return [np.asarray(c) for c in carry] + ys


# --- derivatives ------------------------------------------------------------------------------------------


class _LinearizedBody(NamedTuple):
    """A body taken apart. Residuals: those that stay the same for all steps, then those that each step has its own of.

    own: constants of the forward Program, which go before the loop's.
    invariant: constants → values that do not change from step to step.
    forward: (those values, constants, carry, slices) → (carry, slices of results, residuals of the step).
    linear: (residuals, tangents of constants and carry, residuals of the step, tangents of slices) → tangents out.
    """

    carry_active: tuple[bool, ...]
    ys_active: tuple[bool, ...]
    own: tuple[Any, ...]
    invariant: Program
    forward: Program
    linear: Program
    fixed: tuple[tuple[str, int], ...]  # where each residual that stays is from: "own", "const", "invariant"
    stepwise: tuple[tuple[str, int], ...]  # of each other one: "xs", "ys" or "stacked", and number


def linearized_body(body: Program, num_consts: int, num_carry: int, active: tuple[bool, ...]) -> _LinearizedBody:
    key = ("scan linearized", num_consts, num_carry, active)
    return memoised(body, key, lambda: _linearize_body(body, num_consts, num_carry, active))


def _linearize_body(body: Program, num_consts: int, num_carry: int, active: tuple[bool, ...]) -> _LinearizedBody:
    consts_active, carry_active, xs_active = split_at(active, num_consts, num_carry)
    while True:
        parts = linearize_program(body, (*consts_active, *carry_active, *xs_active))
        grown = [a or b for a, b in zip(carry_active, parts.out_active)]
        if grown == carry_active:
            break
        carry_active = grown
    ys_active = parts.out_active[num_carry:]
    whole, own = with_constants(parts.forward)
    first = len(own)
    before, forward = split_invariant(whole, [i < first + num_consts for i in range(len(whole.invars))])
    count = len(body.outvars)
    stored = iter(forward.outvars[count:])
    residuals = [next(stored) if i is None else whole.invars[first + i] for i in parts.residual_inputs]
    stays = {v: ("own", i) for i, v in enumerate(whole.invars[:first])}
    stays |= {v: ("const", i) for i, v in enumerate(whole.invars[first : first + num_consts])}
    stays |= {v: ("invariant", i) for i, v in enumerate(before.outvars) if isinstance(v, Var)}
    there = {v: ("ys", i) for i, v in enumerate(forward.outvars[num_carry:count]) if isinstance(v, Var)}
    there |= {v: ("xs", i) for i, v in enumerate(whole.invars[first + num_consts + num_carry :])}
    linear, sources = recompute_cheap(parts.linear, residuals, forward, {*stays, *there})
    kept: list[Any] = []  # residuals that the forward loop stacks
    fixed: list[tuple[str, int]] = []
    stepwise: list[tuple[str, int]] = []
    roles: list[tuple[bool, int]] = []  # of each residual: whether it stays, and its place among its like
    for var in sources:
        if var in stays:
            roles.append((True, _placed(fixed, stays[var])))
        elif var in there:
            roles.append((False, _placed(stepwise, there[var])))
        else:
            roles.append((False, _placed(stepwise, ("stacked", _placed(kept, var)))))
    forward = forward.replace(outvars=[*forward.outvars[:count], *kept])
    linear = _linear_body(
        linear, parts.out_active, roles, len(fixed), len(stepwise), (consts_active, carry_active, xs_active)
    )
    return _LinearizedBody(
        tuple(carry_active), tuple(ys_active), tuple(own), before, forward, linear, tuple(fixed), tuple(stepwise)
    )


def _placed(found: list[Any], item: Any) -> int:
    if item not in found:
        found.append(item)
    return found.index(item)


def _linear_body(
    linear: Program,
    out_active: Sequence[bool],
    roles: Sequence[tuple[bool, int]],
    fixed: int,
    stepwise: int,
    active: tuple[list[bool], list[bool], list[bool]],
) -> Program:
    """The linear Program of one step as a body: operands in the order of a scan, a tangent for every active carry."""
    consts_active, carry_active, xs_active = active
    n_consts, n_carry, n_xs = map(sum, active)
    tangents = list(linear.invars[len(roles) :])
    avals_of = [v.aval for v in linear.invars]
    fixed_avals: list[Any] = [None] * fixed
    step_avals: list[Any] = [None] * stepwise
    for (stays, place), aval in zip(roles, avals_of):
        (fixed_avals if stays else step_avals)[place] = aval
    t_consts, t_carry, t_xs = split_at([v.aval for v in tangents], n_consts, n_carry)

    def fun(*args: Any) -> list[Any]:
        own, consts, carry, per_step, xs = split_at(args, fixed, n_consts, n_carry, stepwise)
        residuals = [(own if stays else per_step)[place] for stays, place in roles]
        found = iter(eval_program(linear, [*residuals, *consts, *carry, *xs]))
        outs: list[Any] = []
        for k, is_active in enumerate(out_active):
            wanted = carry_active[k] if k < len(carry_active) else is_active
            value = next(found) if is_active else None
            if wanted:
                outs.append(value if value is not None else zeros_of(t_carry[sum(carry_active[:k])]))
        return outs

    return trace_to_program(fun, [*fixed_avals, *t_consts, *t_carry, *step_avals, *t_xs], name=linear.name)


def _linearize(
    primals: Sequence[Any], active: Sequence[bool], *, jaxpr: Program, num_consts: int, num_carry: int, **loop: Any
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:  # fmt: skip
    parts = linearized_body(jaxpr, num_consts, num_carry, tuple(active))
    consts, carry, xs = split_at(primals, num_consts, num_carry)
    hoisted = eval_program(parts.invariant, [*parts.own, *consts])
    last, ys = scan(parts.forward, [*hoisted, *parts.own, *consts], carry, xs, **loop)
    n = len(jaxpr.outvars) - num_carry
    stacked = ys[n:]
    sources = {"own": parts.own, "const": consts, "invariant": hoisted, "xs": xs, "ys": ys, "stacked": stacked}
    fixed = [sources[kind][i] for kind, i in parts.fixed]
    stepwise = [sources[kind][i] for kind, i in parts.stepwise]

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        of_consts, of_carry, of_xs = split_at(tangents, num_consts, num_carry)
        consts_active, _, xs_active = split_at(active, num_consts, num_carry)
        given_consts = [instantiate(t) for t in group(consts_active, of_consts)]
        given_carry = [instantiate(t) for t in group(parts.carry_active, of_carry)]
        given_xs = [_instantiate_like(t, x) for t, x in group(xs_active, zip(of_xs, xs))]
        out_carry, out_ys = scan(
            parts.linear, [*fixed, *given_consts], given_carry, [*stepwise, *given_xs], **{**loop, "linear": True}
        )
        found = iter([*out_carry, *out_ys])
        avals = [*jaxpr.out_avals[:num_carry], *map(aval_of, ys[:n])]
        is_active = (*parts.carry_active, *parts.ys_active)
        return [next(found) if a else Zero(v) for a, v in zip(is_active, avals)]

    return [*last, *ys[:n]], pushforward


def _instantiate_like(tangent: Any, x: Any) -> Any:
    """A tangent as an array; zeros of a length that only a run tells are computed from the primal value."""
    if not isinstance(tangent, Zero) or tangent.aval.shape[:1] != (UNKNOWN,):
        return instantiate(tangent)
    return convert_element_type(lt(x, x), tangent.aval.dtype)


class _Transposed(NamedTuple):
    """The body of the loop that runs backwards.

    (known constants, cotangents of carry and of linear constants, known slices, cotangents of slices of results) →
    (cotangents of carry and of linear constants, cotangents of linear slices).
    """

    body: Program
    carry_active: tuple[bool, ...]
    consts_active: tuple[bool, ...]  # of the linear constants
    xs_active: tuple[bool, ...]  # of the linear arrays


def _transposed(
    body: Program, linear: tuple[bool, ...], num_consts: int, num_carry: int, cts_active: tuple[bool, ...]
) -> _Transposed:
    key = ("scan transposed", linear, num_consts, num_carry, cts_active)
    return memoised(body, key, lambda: _transpose_body(body, linear, num_consts, num_carry, cts_active))


def _transpose_body(
    body: Program, linear: tuple[bool, ...], num_consts: int, num_carry: int, cts_active: tuple[bool, ...]
) -> _Transposed:
    carry_active, ys_active = list(cts_active[:num_carry]), cts_active[num_carry:]
    lin_consts = sum(linear[:num_consts])
    while True:
        program, out_active = transpose_program(body, linear, (*carry_active, *ys_active))
        consts_active, carry_out, xs_active = split_at(out_active, lin_consts, num_carry)
        grown = [a or b for a, b in zip(carry_active, carry_out)]
        if grown == carry_active:
            break
        carry_active = grown
    known_consts = [v.aval for v, li in zip(body.invars[:num_consts], linear) if not li]
    first_xs = num_consts + num_carry
    known_xs = [v.aval for v, li in zip(body.invars[first_xs:], linear[first_xs:]) if not li]
    carry_avals = group(carry_active, [v.aval for v in body.invars[num_consts:first_xs]])
    sums = group(consts_active, [v.aval for v, li in zip(body.invars[:num_consts], linear) if li])
    ct_ys = group(ys_active, body.out_avals[num_carry:])

    def fun(*args: Any) -> list[Any]:
        consts, carry, totals, xs, ys = split_at(args, len(known_consts), len(carry_avals), len(sums), len(known_xs))
        found = eval_program(program, [*consts, *xs, *carry, *ys])
        active = iter(found)
        flags = [*consts_active, *carry_out, *xs_active]
        of_consts, of_carry, of_xs = split_at([next(active) if a else None for a in flags], lin_consts, num_carry)
        new_carry = [
            zeros_of(aval) if ct is None else ct for aval, ct in zip(carry_avals, group(carry_active, of_carry))
        ]
        new_totals = [add_cotangents(t, ct) for t, ct in zip(totals, group(consts_active, of_consts))]
        return [*new_carry, *new_totals, *group(xs_active, of_xs)]

    avals = [*known_consts, *carry_avals, *sums, *known_xs, *ct_ys]
    made = trace_to_program(fun, [Aval(a.shape, a.dtype) for a in avals], name=program.name)
    return _Transposed(made, tuple(carry_active), tuple(consts_active), tuple(xs_active))


def _transpose(
    cts: Sequence[Any], *args: Any, jaxpr: Program, length: int, reverse: bool, unroll: int, num_consts: int,
    num_carry: int, linear: bool,
) -> list[Any]:  # fmt: skip
    split = split_known_carry(jaxpr, tuple(map(is_linear, args)), num_consts, num_carry)
    if split is not None:
        loop = {"length": length, "reverse": reverse, "unroll": unroll}
        return _transpose_beside_known(cts, args, split, num_consts, num_carry, loop)
    # What remains of the carry is linear as a whole; a first carry that is known is one of zeros.
    is_carry = [num_consts <= i < num_consts + num_carry for i in range(len(args))]
    linear_args = tuple(is_linear(a) or c for a, c in zip(args, is_carry))
    arriving = tuple(not isinstance(ct, Zero) for ct in cts)
    parts = _transposed(jaxpr, linear_args, num_consts, num_carry, arriving)
    consts, carry, xs = split_at(args, num_consts, num_carry)
    known = [c for c in consts if not is_linear(c)]
    known_xs = [x for x in xs if not is_linear(x)]
    totals = [zeros_of(c.aval) for c in group(parts.consts_active, [c for c in consts if is_linear(c)])]
    given = [instantiate(ct) for ct in group(parts.carry_active, cts)]
    ct_ys = [ct for ct in cts[num_carry:] if not isinstance(ct, Zero)]
    sums, of_xs = scan(
        parts.body, known, [*given, *totals], [*known_xs, *ct_ys], length=length, reverse=not reverse, unroll=unroll,
        linear=True,
    )  # fmt: skip
    carry_cts, const_cts = iter(sums[: len(given)]), iter(sums[len(given) :])
    slices = iter(of_xs)
    of_consts = iter([next(const_cts) if a else None for a in parts.consts_active])
    of_arrays = iter([next(slices) if a else None for a in parts.xs_active])
    return [
        *(next(of_consts) if is_linear(c) else None for c in consts),
        *(
            ct if is_linear(c) else None
            for c, ct in zip(carry, [next(carry_cts) if a else None for a in parts.carry_active])
        ),
        *(next(of_arrays) if is_linear(x) else None for x in xs),
    ]


def _transpose_beside_known(
    cts: Sequence[Any], args: Sequence[Any], split: KnownCarry, num_consts: int, num_carry: int, loop: dict[str, Any]
) -> list[Any]:
    """Run the known part of the carry first; the linear rest reads its values step by step."""
    consts, carry, xs = split_at(args, num_consts, num_carry)
    is_known = [not li for li in split.is_linear]
    _, steps = scan(
        split.known,
        [c for c in consts if not is_linear(c)],
        group(is_known, carry),
        [x for x in xs if not is_linear(x)],
        **loop,
    )
    linear_carry = group(split.is_linear, carry)
    cts = [*group(split.is_linear, cts), *cts[num_carry:]]
    leaving = _transpose(
        cts, *consts, *linear_carry, *xs, *steps,
        jaxpr=split.rest, num_consts=num_consts, num_carry=len(linear_carry), linear=True, **loop,
    )  # fmt: skip
    of_consts, of_carry, of_xs = split_at(leaving, num_consts, len(linear_carry))
    found = iter(of_carry)
    return [*of_consts, *(next(found) if li else None for li in split.is_linear), *of_xs[: len(xs)]]


# --- batching ---------------------------------------------------------------------------------------------


class _BatchedScan(NamedTuple):
    body: Program
    carry_mapped: tuple[bool, ...]
    ys_dims: tuple[int | None, ...]


def _batched(body: Program, size: int, dims: tuple[int | None, ...], num_consts: int, num_carry: int) -> _BatchedScan:
    return memoised(
        body,
        ("scan batched", size, dims, num_consts, num_carry, batched_axis()),
        lambda: _batch_body(body, size, dims, num_consts, num_carry),
    )


def _batch_body(
    body: Program, size: int, dims: tuple[int | None, ...], num_consts: int, num_carry: int
) -> _BatchedScan:
    consts, carry, xs = split_at(dims, num_consts, num_carry)
    mapped = [d is not None for d in carry]
    while True:
        inner = (*consts, *(0 if m else None for m in mapped), *xs)
        program, out_dims = batch_program(body, size, inner)
        grown = [m or d is not None for m, d in zip(mapped, out_dims)]
        if grown == mapped:
            break
        mapped = grown

    def fun(*args: Any) -> list[Any]:
        outs = eval_program(program, args)
        placed = [place_batch_axis(o, d, 0, size) if m else o for o, d, m in zip(outs, out_dims, mapped)]
        return [*placed, *outs[num_carry:]]

    return _BatchedScan(trace_to_program(fun, program.in_avals, name=program.name), tuple(mapped), out_dims[num_carry:])


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program, num_consts: int,
    num_carry: int, **loop: Any,
) -> tuple[list[Any], tuple[int | None, ...]]:  # fmt: skip
    consts, carry, xs = split_at(args, num_consts, num_carry)
    dims_of_consts, dims_of_carry, dims_of_xs = split_at(dims, num_consts, num_carry)
    xs = [move_axis(x, 0, 1) if d == 0 else x for x, d in zip(xs, dims_of_xs)]
    slices = [None if d is None else max(d - 1, 0) for d in dims_of_xs]
    wanted = (*dims_of_consts, *(None if d is None else 0 for d in dims_of_carry), *slices)
    parts = _batched(jaxpr, axis_size, wanted, num_consts, num_carry)
    carry = [
        place_batch_axis(c, d, 0, axis_size) if m else c for c, d, m in zip(carry, dims_of_carry, parts.carry_mapped)
    ]
    last, ys = scan(parts.body, consts, carry, xs, **loop)
    out_dims = [0 if m else None for m in parts.carry_mapped] + [None if d is None else d + 1 for d in parts.ys_dims]
    return [*last, *ys], tuple(out_dims)


def _carried(eqn: Eqn) -> list[tuple[Atom, Var]]:
    first, count = eqn.params["num_consts"], eqn.params["num_carry"]
    return list(zip(eqn.invars[first : first + count], eqn.outvars))


scan_p = Primitive(
    name="scan",
    doc="Run a body `length` times, carrying values along, reading slices of arrays and stacking results.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=ControlFlow("scan", closed=closed_scan, pruned=pruned_scan, carried=_carried),
    examples=Absent("it takes a Program; tests/control/ tests it under all transforms"),
)
