"""`jit_p`: a Program called as one equation. Its rules are the transforms of that Program.

Knows the Program → Program transforms; how a Program is compiled and run, the layers above say (`functad.execution`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import interpreter
from functad.calls.builder import TangentMap, call_primitive, pushforward_by, run_program
from functad.calls.common import closed, split_at
from functad.config import config
from functad.editing.inlining import inline_calls
from functad.ir import Absent, Primitive, Program, memoised
from functad.tracing import bind
from functad.transforms import programs


def call_program(program: Program, args: Sequence[Any], name: str = "", backend: str | None = None) -> list[Any]:
    """Call a Program as one `jit` equation, of a backend if one is named; its constants become operands."""
    params = {} if backend is None else {"backend": backend}
    return bind(jit_p, *program.consts, *args, jaxpr=closed(program), name=name or program.name, **params)


MOST_NESTED = 32  # calls within each other


def of_moderate_depth(program: Program) -> Program:
    """The Program; where calls nest deeper, it has them inlined, so that what goes into them stays within the stack."""
    if _depth(program) <= MOST_NESTED:
        return program
    return inline_calls(program, kept=_is_not_jit)


def _is_not_jit(primitive: Primitive) -> bool:
    return primitive is not jit_p  # the rules of other calls are still needed


def _depth(program: Program) -> int:
    """How deep calls nest in a Program."""
    inner = [e.params["jaxpr"] for e in program.eqns if e.primitive is jit_p]
    return memoised(program, ("depth of calls",), lambda: max([1 + _depth(p) for p in inner], default=0))


RunProgram = Callable[[Program, Sequence[np.ndarray], str | None], list[np.ndarray]]


def set_runner(run: RunProgram) -> None:
    """Let the layers above say how a Program runs that is called on values, on a backend or the configured one."""
    global _run
    _run = run


def _interpreted(program: Program, args: Sequence[np.ndarray], backend: str | None) -> list[np.ndarray]:
    return interpreter.compile_program(program)(args)


_run: RunProgram = _interpreted


def _call(program: Program, args: Sequence[Any], *, name: str, backend: str | None = None, **params: Any) -> list[Any]:
    return call_program(program, args, name, backend)


def _run_call(
    program: Program, args: Sequence[np.ndarray], *, name: str, backend: str | None = None, **params: Any
) -> list[np.ndarray]:
    if config.debug_nans or config.debug_infs:  # equation by equation, so that the first one to blame is found
        return run_program(program, args)
    return _run(program, args, backend)


def _linearize(
    program: Program, primals: Sequence[Any], active: Sequence[bool], **params: Any
) -> tuple[list[Any], TangentMap]:
    forward, linear, out_active, residual_inputs = programs.linearize_program(program, tuple(active))
    outs, stored = split_at(_call(forward, primals, **params), len(program.outvars))
    found = iter(stored)
    residuals = [next(found) if i is None else primals[i] for i in residual_inputs]

    def push(part: Program, args: Sequence[Any]) -> list[Any]:
        return _call(part, args, **params)

    return outs, pushforward_by(push, linear, residuals, active, out_active, program.out_avals)


jit_p = call_primitive(
    "jit",
    "Call a Program; compiled by the backend when it runs.",
    call=_call,
    run=_run_call,
    linearize=_linearize,
    compiled=True,
    examples=Absent("it takes a Program; tests/api/test_api_jit.py tests it under all transforms"),
)
