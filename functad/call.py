"""`jit_p`: a Program called as one equation. Its rules are the transforms of that Program.

Knows the Program → Program transforms and the backends; nothing of pytrees or signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends import Executable, compile_program, lower_program
from functad.config import config
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Zero
from functad.primitives.common import instantiate, is_linear
from functad.tracing import bind, eval_program
from functad.transforms.programs import batch_program, linearize_program, memoised, transpose_program
from functad.transforms.simplify import inline_calls, simplify


def call_program(program: Program, args: Sequence[Any], name: str = "") -> list[Any]:
    """Call a Program as one `jit` equation; its constants become operands."""
    return bind(jit_p, *program.consts, *args, jaxpr=closed(program), name=name or program.name)


def closed(program: Program) -> Program:
    """The Program with its constants as leading inputs, the same object each time."""
    return memoised(program, ("closed",), program.close) if program.consts else program


def optimized(program: Program) -> Program:
    """The simplified Program, the same object each time."""
    return memoised(program, ("optimized",), lambda: simplify(program))


def executable(program: Program, donated: tuple[bool, ...] = ()) -> Executable:
    """The Program's executable on the configured backend, compiled at the first call.

    donated: which inputs' memory its results may take; none if empty.
    """
    backend = config.default_backend
    key = ("executable", backend, donated)
    return memoised(program, key, lambda: compile_program(optimized(program), backend, donated))


def lowered(program: Program, donated: tuple[bool, ...] = ()) -> Any:
    """The Program as kernels of the configured backend, not compiled."""
    backend = config.default_backend
    return memoised(
        program, ("lowered", backend, donated), lambda: lower_program(optimized(program), backend, donated)
    )


def _impl(*args: np.ndarray, jaxpr: Program, name: str, **params: Any) -> list[np.ndarray]:
    if config.debug_nans or config.debug_infs:  # equation by equation, so that the first one to blame is found
        return [np.asarray(out) for out in eval_program(inline_calls(jaxpr), args)]
    return executable(jaxpr)(args)


def _abstract_eval(*avals: Aval, jaxpr: Program, name: str, **params: Any) -> list[Aval]:
    return jaxpr.out_avals


def _linearize(
    primals: Sequence[Any], active: Sequence[bool], *, jaxpr: Program, name: str, **params: Any
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    forward, linear, out_active, residual_inputs = linearize_program(jaxpr, tuple(active))
    results = call_program(forward, primals, name)
    n = len(jaxpr.outvars)
    outs, stored = results[:n], iter(results[n:])
    residuals = [next(stored) if i is None else primals[i] for i in residual_inputs]

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = [instantiate(t) for t, a in zip(tangents, active) if a]
        found = iter(call_program(linear, [*residuals, *given], name))
        return [next(found) if a else Zero(v.aval) for a, v in zip(out_active, jaxpr.outvars)]

    return outs, pushforward


def _transpose(cts: Sequence[Any], *args: Any, jaxpr: Program, name: str, **params: Any) -> list[Any]:
    linear = tuple(is_linear(a) for a in args)
    arriving = tuple(not isinstance(ct, Zero) for ct in cts)
    program, out_active = transpose_program(jaxpr, linear, arriving)
    known = [a for a in args if not is_linear(a)]
    found = iter(call_program(program, [*known, *(ct for ct in cts if not isinstance(ct, Zero))], name))
    leaving = iter([next(found) if a else None for a in out_active])
    return [next(leaving) if li else None for li in linear]


def _batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: Program,
    name: str,
    **params: Any,
) -> tuple[list[Any], tuple[int | None, ...]]:
    program, out_dims = batch_program(jaxpr, axis_size, tuple(dims))
    return call_program(program, args, name), out_dims


jit_p = Primitive(
    name="jit",
    doc="Call a Program; compiled by the backend when it runs.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=Linearize(_linearize),
    transpose=_transpose,
    batch=_batch,
    lower=Absent("calls are inlined before a Program is lowered"),
    examples=Absent("it takes a Program; tests/test_api_jit.py tests it under all transforms"),
)
