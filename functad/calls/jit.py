"""`jit_p`: a Program called as one equation. Its rules are the transforms of that Program.

Knows the Program → Program transforms; how a Program is compiled and run, the layers above say (`functad.execution`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import interpreter
from functad.config import config
from functad.editing.inlining import inline_calls
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Zero, memoised, registry
from functad.lowering_rules import Call
from functad.primitives.common import instantiate
from functad.tracing import bind, eval_program
from functad.transforms.programs import batch_program, linearize_program, transpose_call


def call_program(program: Program, args: Sequence[Any], name: str = "", backend: str | None = None) -> list[Any]:
    """Call a Program as one `jit` equation, of a backend if one is named; its constants become operands."""
    params = {} if backend is None else {"backend": backend}
    return bind(jit_p, *program.consts, *args, jaxpr=closed(program), name=name or program.name, **params)


def closed(program: Program) -> Program:
    """The Program with its constants as leading inputs, the same object each time."""
    return memoised(program, ("closed",), program.close) if program.consts else program


MOST_NESTED = 32  # calls within each other


def of_moderate_depth(program: Program) -> Program:
    """The Program; where calls nest deeper, it has them inlined, so that what goes into them stays within the stack."""
    if _depth(program) <= MOST_NESTED:
        return program
    return inline_calls(program, tuple(n for n, p in registry.items() if isinstance(p.lower, Call) and p is not jit_p))


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


def _impl(*args: np.ndarray, jaxpr: Program, name: str, backend: str | None = None, **params: Any) -> list[np.ndarray]:
    if config.debug_nans or config.debug_infs:  # equation by equation, so that the first one to blame is found
        return [np.asarray(out) for out in eval_program(inline_calls(jaxpr), args)]
    return _run(jaxpr, args, backend)


def _abstract_eval(*avals: Aval, jaxpr: Program, name: str, **params: Any) -> list[Aval]:
    return jaxpr.out_avals


def _linearize(
    primals: Sequence[Any],
    active: Sequence[bool],
    *,
    jaxpr: Program,
    name: str,
    backend: str | None = None,
    **params: Any,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    forward, linear, out_active, residual_inputs = linearize_program(jaxpr, tuple(active))
    results = call_program(forward, primals, name, backend)
    n = len(jaxpr.outvars)
    outs, stored = results[:n], iter(results[n:])
    residuals = [next(stored) if i is None else primals[i] for i in residual_inputs]

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t, a in zip(tangents, active) if a]
        found = iter(call_program(linear, [*residuals, *given], name, backend))
        return [next(found) if a else Zero(v.aval) for a, v in zip(out_active, jaxpr.outvars)]

    return outs, pushforward


def _transpose(
    cts: Sequence[Any], *args: Any, jaxpr: Program, name: str, backend: str | None = None, **params: Any
) -> list[Any]:
    return transpose_call(lambda program, given: call_program(program, given, name, backend), jaxpr, cts, args)


def _batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: Program,
    name: str,
    backend: str | None = None,
    **params: Any,
) -> tuple[list[Any], tuple[int | None, ...]]:
    program, out_dims = batch_program(jaxpr, axis_size, tuple(dims))
    return call_program(program, args, name, backend), out_dims


jit_p = Primitive(
    name="jit",
    doc="Call a Program; compiled by the backend when it runs.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=Call("jaxpr"),
    examples=Absent("it takes a Program; tests/api/test_api_jit.py tests it under all transforms"),
)
