"""Scans of a few steps, written out one step after another; scans that take several steps at a time.

Knows `scan` equations; nothing of what else is done to loops.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from functad import machine_model
from functad.ir import UNKNOWN, Eqn, Program, subprograms
from functad.primitives.common import full, reshape
from functad.primitives.joining import concatenate, stack
from functad.primitives.structure import slice_
from functad.tracing import bind, eval_program, trace_to_program


def is_short(eqn: Eqn) -> bool:
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


def unrolled(eqn: Eqn, *args: Any) -> list[Any]:
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


def unrolled_in_part(eqn: Eqn, *args: Any) -> list[Any]:
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
    several = trace_to_program(partial(unrolled, piece), [*avals[: n + m], *wide], name=body.name)
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
    last = unrolled(piece, *consts, *outs[:m], *tails)
    joined = [concatenate([t, y] if reverse else [y, t], 0) for y, t in zip(ys, last[m:])]
    return [*last[:m], *joined]


def _step_of(x: Any, i: int) -> Any:
    return reshape(_steps_of(x, i, i + 1), x.shape[1:])


def _steps_of(x: Any, start: int, stop: int) -> Any:
    return slice_(x, (start, *[0] * (x.ndim - 1)), (stop, *x.shape[1:]))


def _nothing(aval: Any) -> Any:
    return full(aval.shape, aval.dtype.type(0))
