"""`closed_call_p`: a Program called as one equation, whose derivative runs it again instead of keeping its insides.

So nothing of what happens inside, such as arrays of a length that only a run tells, ever leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.calls.builder import TangentMap, call_primitive, pushforward_of
from functad.calls.common import group, split_at, with_constants
from functad.ir import Absent, Program, memoised
from functad.tracing import bind, eval_program, trace_to_program
from functad.transforms.programs import linearize_program


def closed_call(program: Program, args: Sequence[Any]) -> list[Any]:
    """Bind a call of a Program; its constants become operands."""
    program, args = with_constants(program, args)
    return bind(closed_call_p, *args, jaxpr=program)


def _linearize(program: Program, primals: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], TangentMap]:
    derivative, out_active = derivative_program(program, tuple(active))

    def push(tangents: Sequence[Any]) -> list[Any]:
        return closed_call(derivative, [*primals, *tangents])

    return closed_call(program, primals), pushforward_of(push, active, out_active, program.out_avals)


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


closed_call_p = call_primitive(
    "closed_call",
    "Call a Program; its derivative calls it again.",
    call=closed_call,
    linearize=_linearize,
    examples=Absent("it takes a Program; tests/control/ tests it under all transforms"),
)
