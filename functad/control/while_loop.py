"""`while_p`: run a body as long as a condition holds.

Operands are (constants of the condition, constants of the body, carry). The condition is a closed Program
`(its constants, carry) → bool`, the body `(its constants, carry) → carry`.

The loop in a derivative also stacks what each step leaves for the one that goes through the steps again: its body
returns more than the carry. The first of these stacks is `valid`: false where a step was none, because under `vmap`
other examples went on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.calls.closed_call import closed_call
from functad.calls.common import body_function, check_operands, group, memoised_together, split_at, with_constants
from functad.control.closing import closed_while
from functad.control.conditional import choose
from functad.control.guard import guarded
from functad.control.pruning import pruned_while
from functad.control.scan import linearized_body, scan
from functad.dtypes import kind_of, stored_as
from functad.evaluation import aval_of
from functad.ir import UNKNOWN, Absent, Atom, Aval, Eqn, Linearize, Literal, Primitive, Program, Var, Zero, memoised
from functad.lowering_rules import ControlFlow
from functad.primitives.arithmetic import add
from functad.primitives.common import full_like, instantiate
from functad.primitives.logic import and_p, lt, select_n
from functad.primitives.reduction import reduce_or
from functad.records import NamedTuple
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.batching import place_batch_axis
from functad.transforms.effects import without_actions
from functad.transforms.named_axes import batched_axis
from functad.transforms.programs import batch_program


def while_(
    cond: Program, cond_consts: Sequence[Any], body: Program, body_consts: Sequence[Any], carry: Sequence[Any]
) -> list[Any]:
    """Bind a loop; the constants of its Programs become operands."""
    cond, cond_consts = with_constants(cond, cond_consts)
    body, body_consts = with_constants(body, body_consts)
    return bind(
        while_p, *cond_consts, *body_consts, *carry, cond_jaxpr=cond, cond_nconsts=len(cond_consts),
        body_jaxpr=body, body_nconsts=len(body_consts),
    )  # fmt: skip


def counting_steps(cond: Program, body: Program, most: int) -> tuple[Program, Program]:
    """Condition and body of a loop that counts its steps in front of the carry, and takes at most so many."""

    def make() -> tuple[Program, Program]:
        avals = [Aval((), np.dtype(np.int32)), *body.in_avals]
        return trace_to_program(holds, avals, name=cond.name), trace_to_program(step, avals, name=body.name)

    def holds(count: Any, *carry: Any) -> list[Any]:
        (goes_on,) = eval_program(cond, carry)
        return [bind(and_p, lt(count, np.int32(most)), goes_on)]

    def step(count: Any, *carry: Any) -> list[Any]:
        return [add(count, np.int32(1)), *eval_program(body, carry)]

    return memoised_together((body, cond), ("counted", most), make)


def _abstract_eval(
    *avals: Aval, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program, body_nconsts: int
) -> list[Aval]:
    cond_consts, body_consts, carry = split_at(avals, cond_nconsts, body_nconsts)
    check_operands("while", [*cond_consts, *carry], cond_jaxpr)
    check_operands("while", [*body_consts, *carry], body_jaxpr)
    count, outs = len(carry), body_jaxpr.out_avals
    return outs[:count] + [Aval((UNKNOWN, *a.shape), a.dtype) for a in outs[count:]]


def _impl(
    *args: np.ndarray, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program, body_nconsts: int
) -> list[np.ndarray]:
    holds, step = body_function(cond_jaxpr), body_function(body_jaxpr)
    cond_consts, body_consts, carry = split_at(args, cond_nconsts, body_nconsts)
    count = len(carry)
    stacks: list[list[np.ndarray]] = [[] for _ in body_jaxpr.outvars[count:]]
    while holds([*cond_consts, *carry])[0]:
        outs = step([*body_consts, *carry])
        carry = outs[:count]
        for stack, out in zip(stacks, outs[count:]):
            stack.append(out)
    ys = [
        np.stack(stack) if stack else np.empty((0, *a.shape), stored_as(a.dtype))
        for stack, a in zip(stacks, body_jaxpr.out_avals[count:])
    ]
    return [np.asarray(c) for c in carry] + ys


# --- derivatives ------------------------------------------------------------------------------------------


def _linearize(
    primals: Sequence[Any], active: Sequence[bool], *, cond_jaxpr: Program, cond_nconsts: int, body_jaxpr: Program,
    body_nconsts: int,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:  # fmt: skip
    cond_consts, body_consts, carry = split_at(primals, cond_nconsts, body_nconsts)
    _, *flags = split_at(active, cond_nconsts, body_nconsts)
    count = len(carry)
    if len(body_jaxpr.outvars) > count:
        return _linearize_stacking(cond_jaxpr, cond_consts, body_jaxpr, body_consts, carry, flags)
    outs = while_(cond_jaxpr, cond_consts, body_jaxpr, body_consts, carry)
    derivative, out_active = _derivative(
        cond_jaxpr, len(cond_consts), body_jaxpr, len(body_consts), (*flags[0], *flags[1])
    )

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t, a in zip(tangents, active) if a][sum(active[:cond_nconsts]) :]
        found = iter(closed_call(derivative, [*primals, *given]))
        return [next(found) if a else Zero(aval_of(o)) for a, o in zip(out_active, outs)]

    return outs, pushforward


def _derivative(
    cond: Program, n_cond: int, body: Program, n_body: int, active: tuple[bool, ...]
) -> tuple[Program, tuple[bool, ...]]:
    """The Program (operands of the loop, active tangents) → active tangents of the carry: it runs the loop again."""
    key = ("while derivative", n_cond, n_body, active)
    return memoised_together((body, cond), key, lambda: _derivative_program(cond, n_cond, body, n_body, active))


def _derivative_program(
    cond: Program, n_cond: int, body: Program, n_body: int, active: tuple[bool, ...]
) -> tuple[Program, tuple[bool, ...]]:
    cond, body = without_actions(cond), without_actions(body)
    count = len(body.outvars)
    out_active: list[bool] = []

    def fun(*args: Any) -> list[Any]:
        cond_consts, body_consts, carry, tangents = split_at(args, n_cond, n_body, count)
        _, pushforward = _linearize_stacking(
            cond, cond_consts, body, body_consts, carry, [list(active[:n_body]), list(active[n_body:])]
        )
        given = iter(tangents)
        whole = [next(given) if a else Zero(v.aval) for a, v in zip(active, body.invars)]
        found = pushforward([*[Zero(aval_of(c)) for c in cond_consts], *whole])
        out_active.extend(not isinstance(t, Zero) for t in found)
        return [t for t in found if not isinstance(t, Zero)]

    avals = [*cond.in_avals[:n_cond], *body.in_avals, *group(active, body.in_avals)]
    return trace_to_program(fun, avals, name=f"derivative_{body.name}"), tuple(out_active)


def _linearize_stacking(
    cond: Program, cond_consts: Sequence[Any], body: Program, body_consts: Sequence[Any], carry: Sequence[Any],
    flags: Sequence[list[bool]],
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:  # fmt: skip
    """Run the loop, stacking residuals; the pushforward is a scan over them."""
    count = len(carry)
    stacking = _with_valid(body, count)
    parts = linearized_body(stacking, len(body_consts), count, (*flags[0], *flags[1]))
    hoisted = eval_program(parts.invariant, [*parts.own, *body_consts])
    results = while_(cond, cond_consts, parts.forward, [*hoisted, *parts.own, *body_consts], carry)
    n = len(stacking.outvars)
    last, ys, stacked = results[:count], results[count:n], results[n:]
    (starts,) = eval_program(cond, [*cond_consts, *carry])
    finite = [_one_unless(starts, h) for h in hoisted]
    sources = {"own": parts.own, "const": body_consts, "invariant": finite, "ys": ys, "stacked": stacked}
    fixed = [sources[kind][i] for kind, i in parts.fixed]
    stepwise = [sources[kind][i] for kind, i in parts.stepwise]
    carry_active = parts.carry_active

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        of_consts, of_carry = split_at(tangents[len(cond_consts) :], len(body_consts))
        given_consts = [instantiate(t) for t in group(flags[0], of_consts)]
        given = [instantiate(t) for t in group(carry_active, of_carry)]
        flag = stacking.out_avals[count]
        linear = _where_valid(parts.linear, len(fixed) + len(given_consts), len(given), flag)
        out_carry, out_ys = scan(
            linear, [*fixed, *given_consts], given, [ys[0], *stepwise], length=UNKNOWN, reverse=False
        )
        found = iter([*out_carry, *out_ys])
        is_active = (*carry_active, *parts.ys_active)
        tangents_out = [next(found) if a else Zero(aval_of(o)) for a, o in zip(is_active, [*last, *ys])]
        return tangents_out if len(body.outvars) > count else tangents_out[:count]

    return [*last, *ys] if len(body.outvars) > count else last, pushforward


def _one_unless(starts: Any, residual: Any) -> Any:
    """A residual of all steps. Where only other examples' loops make steps, it must be finite: zeros meet it."""
    return select_n(starts, full_like(residual, 1), residual) if kind_of(aval_of(residual).dtype) in "fc" else residual


def _with_valid(body: Program, count: int) -> Program:
    """The body with the stack `valid` as its first result after the carry."""
    if len(body.outvars) > count:
        return body
    valid = Literal(np.bool_(True), Aval((), np.dtype(bool)))
    return memoised(body, ("with valid",), lambda: body.replace(outvars=[*body.outvars, valid]))


def _where_valid(linear: Program, fixed: int, carries: int, flag: Aval) -> Program:
    """The linear step with `valid` in front of what it reads: a step that was none keeps the tangents."""
    return memoised(linear, ("where valid", fixed, carries, flag), lambda: _only_valid(linear, fixed, carries, flag))


def _only_valid(linear: Program, fixed: int, carries: int, flag: Aval) -> Program:
    guard = guarded(linear)

    def fun(*args: Any) -> list[Any]:
        consts, carry, (valid, *slices) = split_at(args, fixed, carries)
        if flag.shape:  # the step of a batched loop, which knows itself for which examples it is one
            valid = reduce_or(valid, axes=tuple(range(len(flag.shape))))
        given = [*consts, *carry, *slices]
        outs = eval_program(linear, given) if guard is None else eval_program(guard, [valid, *given])
        return [*(select_n(valid, old, new) for old, new in zip(carry, outs)), *outs[carries:]]

    avals = linear.in_avals
    at = fixed + carries
    return trace_to_program(fun, [*avals[:at], flag, *avals[at:]], name=linear.name)


# --- batching ---------------------------------------------------------------------------------------------


class _BatchedWhile(NamedTuple):
    cond: Program
    body: Program
    carry_mapped: tuple[bool, ...]
    ys_mapped: tuple[bool, ...]
    body_asks: bool  # whether the body also takes the condition's constants


def _batched(
    cond: Program, body: Program, size: int, cond_dims: tuple[int | None, ...], body_dims: tuple[int | None, ...],
    carry_mapped: tuple[bool, ...],
) -> _BatchedWhile:  # fmt: skip
    key = ("while batched", size, cond_dims, body_dims, carry_mapped, batched_axis())
    make = partial(_batch_programs, cond, body, size, cond_dims, body_dims, carry_mapped)
    return memoised_together((body, cond), key, make)


def _batch_programs(
    cond: Program, body: Program, size: int, cond_dims: tuple[int | None, ...], body_dims: tuple[int | None, ...],
    carry_mapped: tuple[bool, ...],
) -> _BatchedWhile:  # fmt: skip
    mapped = list(carry_mapped)
    while True:
        dims = tuple(0 if m else None for m in mapped)
        holds, (holds_dim,) = batch_program(cond, size, (*cond_dims, *dims))
        step, out_dims = batch_program(body, size, (*body_dims, *dims))
        grown = [m or d is not None or holds_dim is not None for m, d in zip(mapped, out_dims)]
        if grown == mapped:
            break
        mapped = grown
    carry_avals = [v.aval for v in step.invars[len(body_dims) :]]
    count = len(mapped)
    ys_mapped = [d is not None for d in out_dims[count:]]
    if holds_dim is None:

        def advance(*args: Any) -> list[Any]:
            outs = eval_program(step, args)
            return [
                place_batch_axis(o, d, 0, size) if m else o for o, d, m in zip(outs, out_dims, [*mapped, *ys_mapped])
            ]

        made = trace_to_program(advance, step.in_avals, name=step.name)
        return _BatchedWhile(holds, made, tuple(mapped), tuple(ys_mapped), False)

    # Every example ends when its own condition does: the loop runs while any goes on, and those that have ended stay.
    n_cond, n_body = len(cond_dims), len(body_dims)
    guard, run = guarded(body), step
    if guard is not None:
        run, out_dims = batch_program(guard, size, (holds_dim, *body_dims, *dims))

    def any_holds(*args: Any) -> list[Any]:
        return [reduce_or(eval_program(holds, args)[0], axes=(holds_dim,))]

    def advance_some(*args: Any) -> list[Any]:
        cond_consts, body_consts, carry = split_at(args, n_cond, n_body)
        (goes_on,) = eval_program(holds, [*cond_consts, *carry])
        outs = eval_program(run, [*body_consts, *carry] if guard is None else [goes_on, *body_consts, *carry])
        placed = [place_batch_axis(o, d, 0, size) for o, d in zip(outs, out_dims)]
        moved = [old if new is old else choose(goes_on, (old, new)) for old, new in zip(carry, placed)]
        # A residual of a step that is none must be finite, also where something is divided by it.
        # The first one says whether it is one.
        kept = [choose(goes_on, (full_like(y, k > 0), y)) for k, y in enumerate(placed[count:])]
        return [*moved, *kept]

    made_cond = trace_to_program(any_holds, holds.in_avals, name=holds.name)
    avals = [*holds.in_avals[:n_cond], *step.in_avals[:n_body], *carry_avals]
    return _BatchedWhile(
        made_cond, trace_to_program(advance_some, avals, name=step.name), tuple(mapped), (True,) * len(ys_mapped), True
    )


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, cond_jaxpr: Program, cond_nconsts: int,
    body_jaxpr: Program, body_nconsts: int,
) -> tuple[list[Any], tuple[int | None, ...]]:  # fmt: skip
    cond_consts, body_consts, carry = split_at(args, cond_nconsts, body_nconsts)
    cond_dims, body_dims, carry_dims = split_at(dims, cond_nconsts, body_nconsts)
    mapped = tuple(d is not None for d in carry_dims)
    parts = _batched(cond_jaxpr, body_jaxpr, axis_size, tuple(cond_dims), tuple(body_dims), mapped)
    carry = [place_batch_axis(c, d, 0, axis_size) if m else c for c, d, m in zip(carry, carry_dims, parts.carry_mapped)]
    given = [*cond_consts, *body_consts] if parts.body_asks else body_consts
    outs = while_(parts.cond, cond_consts, parts.body, given, carry)
    return outs, tuple([0 if m else None for m in parts.carry_mapped] + [1 if m else None for m in parts.ys_mapped])


def _carried(eqn: Eqn) -> list[tuple[Atom, Var]]:
    first = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
    return list(zip(eqn.invars[first:], eqn.outvars))


while_p = Primitive(
    name="while",
    doc="Run a body as long as a condition holds.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=Absent("a loop of unknown length is no linear function of its operands"),
    batch=_batch,
    lower=ControlFlow("while", closed=closed_while, pruned=pruned_while, carried=_carried),
    examples=Absent("it takes Programs; tests/control/ tests it under all transforms"),
)
