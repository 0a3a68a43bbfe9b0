"""From a Program to its executable: simplified, compiled by a backend, each once, and run.

Knows the optimiser and the backends; nothing of pytrees or signatures. Importing it lets `jit_p` compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from time import perf_counter
from typing import Any

import numpy as np

from functad import machine_model
from functad.announcing import Announcement
from functad.array import ArrayImpl, class_for, value_of
from functad.backends import Executable, compile_program, lower_program
from functad.calls.jit import set_runner
from functad.config import config, current_settings, extensions_of, own_optimisations
from functad.device_arrays import (
    DeviceArray,
    commit_results,
    common_device,
    is_committed,
    memory_of,
    on_device,
    put_on,
    set_device_runner,
    to_device,
)
from functad.eager import outside_traces
from functad.editing.keys import without_keys
from functad.editing.placement import on_one_device
from functad.evaluation import aval_of, check_values, evaluate, infer_avals
from functad.exact import exact_key
from functad.ir import UNKNOWN, Aval, Eqn, Primitive, Program, Var, memoised, puts_values
from functad.layouts import CPU, Device
from functad.lowering_rules import Call, Callback
from functad.options import COMPILED_BY
from functad.system.garbage import collection_paused
from functad.system.log import logger
from functad.system.once import imported, once
from functad.tracing import eval_program


def optimized(program: Program, backend: str | None = None) -> Program:
    """The Program simplified for a backend, the configured one by default, the same object each time."""
    program = without_keys(program)
    on_device = (backend or config.default_backend) == "cuda"
    cost = _cost_by(_compiled_by(config)) if on_device else None
    key = ("simplified", on_device, cost, *own_optimisations())
    return memoised(program, key, lambda: _pipeline().simplify_for(program, on_device, cost))


@cache
def _cost_by(options: tuple[Any, ...]) -> Callable[[Program], Any]:
    """What tells what a GPU takes for a Program: a function for each choice of options, which it obeys."""
    return lambda program: imported("functad.backends.cuda.lowering").device_cost_of(program)


@cache
def _pipeline() -> Any:
    """The passes, which a process that finds its executables on disk does without."""
    return imported("functad.optimize.pipeline")


_compiled_by: Any = attrgetter(*COMPILED_BY)


def executable(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Executable:
    """The Program's executable on a backend, the configured one by default, compiled at the first call, by one thread.

    donated: which inputs' memory its results may take; none if empty.
    """
    program = without_keys(program)
    chosen = backend or config.default_backend
    own = extensions_of("backend").get(chosen), *own_optimisations()
    key = ("executable", chosen, donated, *_compiled_by(config), *own)
    known: Executable | None = program.cache.get(key)
    if known is not None:
        return known
    return once(
        (id(program), *key),
        lambda: program.cache.get(key),
        lambda: memoised(program, key, lambda: _compiled(program, chosen, donated)),
    )


def _compiled(program: Program, backend: str, donated: tuple[bool, ...]) -> Executable:
    start = perf_counter()
    with collection_paused(), Announcement(program) as said:

        def optimized_anew(program: Program) -> Program:
            said.begin()
            return optimized(program, backend)

        made = compile_program(program, backend, donated, optimized_anew)
    if config.log_compiles:
        ms = 1e3 * (perf_counter() - start)
        logger().warning("compiled %s for the backend %r in %.0f ms", program.name or "a Program", backend, ms)
    return made


def lowered(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Any:
    """The Program as kernels of a backend, the configured one by default, not compiled."""
    chosen = backend or config.default_backend
    key = ("lowered", chosen, donated, *_compiled_by(config), *own_optimisations())
    return memoised(program, key, lambda: lower_program(optimized(program, chosen), chosen, donated))


def compile_and_run(program: Program, args: Sequence[np.ndarray], backend: str | None = None) -> list[np.ndarray]:
    """The results of a Program, which is compiled first if it has not been."""
    return executable(program, backend=backend)(args)


class _OnDevices:
    """How operations run on devices: each is a Program of one equation, compiled once for its types."""

    def __init__(self) -> None:
        # Some options, and what runs an operation under them, with the types of its results.
        self._known: tuple[Any, dict[Any, tuple[Any, Sequence[Aval]]]] = (None, {})

    def evaluate(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        key: list[Any] = [primitive]
        held: list[Any] = []
        committed = False
        for a in args:
            if type(a) is not DeviceArray:
                return self._evaluate_anew(primitive, args, params)[0]
            aval, memory = a.aval, memory_of(a)
            if held and memory.device is not held[0].device:  # where that runs depends on who has put them there
                return self._evaluate_anew(primitive, args, params)[0]
            held.append(memory)
            committed = committed or memory.committed
            key += aval.dtype, aval.shape, aval.weak_type, memory.device
        if params:
            key.append(_Params(params).key)
        options = current_settings()
        known_under, known = self._known
        if known_under is not options and known_under != options:
            known = {}
            self._known = options, known
        found = known.get(tuple(key))
        if found is None:
            result, program, device = self._evaluate_anew(primitive, args, params)
            if program is not None and not (config.debug_nans or config.debug_infs or config.debug_key_reuse):
                if len(known) >= machine_model.CUDA_OPERATIONS:
                    known.clear()
                known[tuple(key)] = _runner_on(program, device), program.out_avals
            return result
        run, avals = found
        results = [on_device(memory, aval) for memory, aval in zip(_committed(run(held), committed), avals)]
        return results if primitive.multiple_results else results[0]

    def _evaluate_anew(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[Any, Program | None, Any]:
        """The results; and the Program that gave them, and where it ran, if the operation is one of its own."""
        if puts_values(primitive, params):
            return self._put(primitive, args, params), None, None
        device = common_device(args, lambda i: f"operand {i + 1}", f"`{primitive.name}`")
        assert device is not None
        args = [to_device(a, device) if isinstance(a, DeviceArray) else a for a in args]
        if device is CPU:
            return evaluate(primitive, args, params), None, device
        program = None
        if isinstance(primitive.lower, Callback):
            results = self._on_host(primitive, args, params, device)
        elif isinstance(primitive.lower, Call):
            called = params[primitive.lower.parameter]
            if _runs_as_one(primitive.lower, called):
                results = run_on(called, args, device)
            else:
                called = on_one_device(called) if primitive.lower.compiled else called
                with outside_traces():
                    results = [to_device(r, device) for r in eval_program(called, args)]
        else:
            program = _program_of(primitive, tuple([aval_of(a) for a in args]), _Params(params))
            results = run_on(program, args, device)
        if config.may_check_values:
            if config.debug_nans or config.debug_infs:  # which copies results back
                values = [value_of(r) for r in results]
                check_values(primitive, values if primitive.multiple_results else values[0])
            if config.debug_key_reuse:
                imported("functad.key_reuse").follow(primitive, args, results, params)
        return results if primitive.multiple_results else results[0], program, device

    def put(self, x: ArrayImpl, device: Device) -> ArrayImpl:
        if device is CPU:
            return class_for(x.aval)(value_of(x), x.weak_type)
        moved = on_device(device.put(value_of(x)), x.aval)  # type: ignore[attr-defined]
        memory_of(moved).committed = is_committed(x)
        return moved

    def _put(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[ArrayImpl]:
        """The operands where they are put; of a call, what its operations give, each where its own operands lie."""
        if isinstance(primitive.lower, Call):
            with outside_traces():
                return [put_on(r, None) for r in eval_program(params[primitive.lower.parameter], args)]
        moved = [put_on(a, device) for a, device in zip(args, params["devices"])]
        if config.debug_key_reuse:
            imported("functad.key_reuse").follow(primitive, args, moved, params)
        return moved

    def _on_host(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], device: Device) -> list[Any]:
        """A function of Python's gets its operands from the device, and its results are put there."""
        given = [self.put(a, CPU) if isinstance(a, DeviceArray) else a for a in args]
        results = [to_device(r, device) for r in evaluate(primitive, given, params)]
        return commit_results(results) if any(map(is_committed, args)) else results


def _runs_as_one(rule: Call, called: Program) -> bool:
    """Whether a called Program is compiled, and not run by operations, as one is that each call makes anew.

    No operation can be compiled by itself whose arrays have a length that only a run tells. The values of each are
    looked at where the first one to blame is to be found.
    """
    if any(UNKNOWN in v.aval.shape for eqn in called.eqns for v in eqn.outvars):
        return True
    return rule.compiled and not (config.debug_nans or config.debug_infs)


class _Params:
    """The parameters of an equation, equal where they are to the bit."""

    __slots__ = ("key", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.key = exact_key(tuple(sorted(values.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Params) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=machine_model.CUDA_OPERATIONS)
def _program_of(primitive: Primitive, avals: tuple[Aval, ...], params: _Params) -> Program:
    """A Program of one operation."""
    results = infer_avals(primitive, avals, params.values)
    inputs, outputs = [Var(a) for a in avals], [Var(a) for a in results]
    return Program(inputs, [], [], [Eqn(primitive, inputs, params.values, outputs, None)], outputs, primitive.name)


def run_on(program: Program, args: Sequence[Any], device: Any) -> list[DeviceArray]:
    """The results of a Program on a device, of Arrays, ndarrays and numbers, wherever these lie."""
    results = _runner_on(program, device)([held_or_host(a) for a in args])
    found = _committed(results, any(map(is_committed, args)))
    return [on_device(r, v) for r, v in zip(found, program.out_avals)]


def _committed(results: Sequence[Any], committed: bool) -> Sequence[Any]:
    """New memory, of which is noted whether it lies where it does on purpose: if an operand did."""
    if not committed:
        for memory in results:
            memory.committed = False
    return results


def _runner_on(program: Program, device: Any) -> Any:
    """What runs a Program on a device, under the options as they are."""
    key = ("runner", device, current_settings())
    run = program.cache.get(key)
    if run is None:
        compiled: Any = executable(program, backend=device.backend)
        run = program.cache[key] = compiled.placed(device).run
    return run


def held_or_host(x: Any) -> Any:
    """What an executable of a device takes: memory there, or an ndarray."""
    return memory_of(x) if isinstance(x, DeviceArray) else value_of(x)


set_runner(compile_and_run)
set_device_runner(_OnDevices())
