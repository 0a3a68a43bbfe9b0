"""`closed_call_p`: a Program called as one equation, whose derivative runs it again instead of keeping its insides.

So nothing of what happens inside, such as arrays of a length that only a run tells, ever leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.calls.common import body_function, closed, group, split_at
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Zero, memoised
from functad.lowering_rules import Call
from functad.primitives.common import instantiate
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.programs import batch_program, linearize_program, transpose_call


def closed_call(program: Program, args: Sequence[Any]) -> list[Any]:
    """Bind a call of a Program; its constants become operands."""
    program, args = closed(program, args)
    return bind(closed_call_p, *args, jaxpr=program)


def _impl(*args: np.ndarray, jaxpr: Program) -> list[np.ndarray]:
    return [np.asarray(out) for out in body_function(jaxpr)(args)]


def _abstract_eval(*avals: Aval, jaxpr: Program) -> list[Aval]:
    return jaxpr.out_avals


def _linearize(
    primals: Sequence[Any], active: Sequence[bool], *, jaxpr: Program
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    derivative, out_active = derivative_program(jaxpr, tuple(active))

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t in group(active, tangents)]
        found = iter(closed_call(derivative, [*primals, *given]))
        return [next(found) if a else Zero(v) for a, v in zip(out_active, jaxpr.out_avals)]

    return closed_call(jaxpr, primals), pushforward


def derivative_program(program: Program, active: tuple[bool, ...]) -> tuple[Program, tuple[bool, ...]]:
    """The Program (inputs, active tangents) → active tangent outputs, and which outputs are active."""
    return memoised(program, ("derivative", active), lambda: _derivative_program(program, active))


def _derivative_program(program: Program, active: tuple[bool, ...]) -> tuple[Program, tuple[bool, ...]]:
    forward, linear, out_active, residual_inputs = linearize_program(program, active)

    def fun(*args: Any) -> list[Any]:
        primals, tangents = split_at(args, len(active))
        stored = iter(eval_program(forward, primals)[len(program.outvars) :])
        residuals = [next(stored) if i is None else primals[i] for i in residual_inputs]
        return eval_program(linear, [*residuals, *tangents])

    avals = [*program.in_avals, *group(active, program.in_avals)]
    return trace_to_program(fun, avals, name=f"derivative_{program.name}"), out_active


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program) -> list[Any]:
    return transpose_call(closed_call, jaxpr, cts, args)


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Program
) -> tuple[list[Any], tuple[int | None, ...]]:
    program, out_dims = batch_program(jaxpr, axis_size, tuple(dims))
    return closed_call(program, args), out_dims


closed_call_p = Primitive(
    name="closed_call",
    doc="Call a Program; its derivative calls it again.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=Call("jaxpr"),
    examples=Absent("it takes a Program; tests/control/ tests it under all transforms"),
)
