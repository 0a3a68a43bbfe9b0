"""Scans of a few steps, written out one step after another; scans that take several steps at a time.

Knows `scan` equations; nothing of what else is done to loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.editing.rewriting import View, spliced
from functad.ir import UNKNOWN, Aval, Eqn, Program, subprograms
from functad.primitives.common import reshape, zeros_of
from functad.primitives.joining import stack
from functad.primitives.reduction import slice_along
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
    ys: dict[int, Sequence[Any]] = {}  # what each step stacks
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        outs = eval_program(body, [*consts, *carry, *(_step_of(x, i) for x in xs)])
        carry, ys[i] = outs[:m], outs[m:]
    stacked = [
        stack([ys[i][k] for i in range(length)], 0) if ys else zeros_of(v.aval) for k, v in enumerate(eqn.outvars[m:])
    ]
    return [*carry, *stacked]


def _steps_at_once(eqn: Eqn) -> int:
    """How many of a scan's steps become one: `unroll`, or fewer that divide all."""
    length: int = eqn.params["length"]
    return 1 if length == UNKNOWN else max(k for k in range(1, eqn.params["unroll"] + 1) if length % k == 0)


def several_at_once(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A scan of several steps at a time, as `unroll` asks for."""
    at_once = _steps_at_once(eqn)
    if at_once == 1 or is_short(eqn):
        return None
    return spliced(partial(_in_part, eqn, at_once), eqn.invars, eqn)


def _in_part(eqn: Eqn, at_once: int, *args: Any) -> list[Any]:
    length = eqn.params["length"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, xs = args[:n], args[n : n + m], args[n + m :]
    heads = [reshape(x, (length // at_once, at_once, *x.shape[1:])) for x in xs]
    piece = eqn.replace(params={**eqn.params, "length": at_once})
    avals = [*(a.aval for a in args[: n + m]), *(Aval(x.shape[1:], x.dtype) for x in heads)]
    several = trace_to_program(partial(unrolled, piece), avals, name=eqn.params["jaxpr"].name)
    params = {**eqn.params, "jaxpr": several, "length": length // at_once, "unroll": 1}
    outs = bind(eqn.primitive, *consts, *carry, *heads, **params)
    return [*outs[:m], *(reshape(y, (length, *y.shape[2:])) for y in outs[m:])]


def _step_of(x: Any, i: int) -> Any:
    return reshape(slice_along(x, 0, i, i + 1), x.shape[1:])
