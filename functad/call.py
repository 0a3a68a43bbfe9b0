"""`jit_p`: a Program called as one equation. Its rules are the transforms of that Program.

Knows the Program → Program transforms and the backends; nothing of pytrees or signatures.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from functad.backends import Executable, compile_program, lower_program
from functad.config import config
from functad.control import cond_p  # noqa: F401  (passes bind it by its name)
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Zero
from functad.once import once
from functad.primitives.common import instantiate
from functad.tracing import bind, eval_program
from functad.transforms.calls import inline_calls
from functad.transforms.programs import batch_program, linearize_program, memoised, transpose_call
from functad.transforms.simplify import simplify

_logger = logging.getLogger("functad")


def call_program(program: Program, args: Sequence[Any], name: str = "", backend: str | None = None) -> list[Any]:
    """Call a Program as one `jit` equation, of a backend if one is named; its constants become operands."""
    params = {} if backend is None else {"backend": backend}
    return bind(jit_p, *program.consts, *args, jaxpr=closed(program), name=name or program.name, **params)


def closed(program: Program) -> Program:
    """The Program with its constants as leading inputs, the same object each time."""
    return memoised(program, ("closed",), program.close) if program.consts else program


def optimized(program: Program) -> Program:
    """The simplified Program, the same object each time."""
    return memoised(program, ("optimized",), lambda: simplify(program))


def executable(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Executable:
    """The Program's executable on a backend, the configured one by default, compiled at the first call, by one thread.

    donated: which inputs' memory its results may take; none if empty.
    """
    chosen = backend or config.default_backend
    key = ("executable", chosen, donated)
    return once(
        (id(program), *key),
        lambda: program.cache.get(key),
        lambda: memoised(program, key, lambda: _compiled(program, chosen, donated)),
    )


def _compiled(program: Program, backend: str, donated: tuple[bool, ...]) -> Executable:
    start = perf_counter()
    made = compile_program(optimized(program), backend, donated)
    if config.log_compiles:
        ms = 1e3 * (perf_counter() - start)
        _logger.warning("compiled %s for the backend %r in %.0f ms", program.name or "a Program", backend, ms)
    return made


def lowered(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Any:
    """The Program as kernels of a backend, the configured one by default, not compiled."""
    chosen = backend or config.default_backend
    return memoised(program, ("lowered", chosen, donated), lambda: lower_program(optimized(program), chosen, donated))


def _impl(*args: np.ndarray, jaxpr: Program, name: str, backend: str | None = None, **params: Any) -> list[np.ndarray]:
    if config.debug_nans or config.debug_infs:  # equation by equation, so that the first one to blame is found
        return [np.asarray(out) for out in eval_program(inline_calls(jaxpr), args)]
    return executable(jaxpr, backend=backend)(args)


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
    lower=Absent("calls are inlined before a Program is lowered"),
    examples=Absent("it takes a Program; tests/test_api_jit.py tests it under all transforms"),
)
