"""Backends turn a Program into something that runs: `compile(program) -> callable on ndarrays`.

Knows the names of the backends; each is a module that is imported when first asked for. Where there is no Numba, as in
a browser, NumPy runs what the CPU backend would compile, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.config import extensions_of
from functad.errors import ArgumentError, CustomRuleError, DeviceError
from functad.ir import Program
from functad.layouts import Device, add_platform
from functad.system import numba_here
from functad.system.log import logger
from functad.system.once import imported

Executable = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

BACKENDS = {
    "cpu": "functad.backends.cpu.executable",
    "cuda": "functad.backends.cuda.executable",
    "interpreter": "functad.interpreter",
}
# Those that write kernels, and where; that takes no Numba.
WRITERS = {"cpu": "functad.backends.cpu.executable", "cuda": "functad.backends.cuda.lowering"}


def compile_program(
    program: Program,
    backend: str,
    donated: Sequence[bool] = (),
    optimized: Callable[[Program], Program] = lambda program: program,
) -> Executable:
    """An executable for a Program without array constants other than its own consts.

    The executable takes the inputs as ndarrays, which it never keeps, and changes only where they are donated: a
    result may then be the input's own array. All other results are fresh arrays.

    optimized: the passes, for a backend that has not compiled the Program before.
    """
    check_backend(backend)
    if backend in extensions_of("backend"):
        return _of_user(backend, optimized(program))
    if backend == "cpu" and not _can_compile():
        backend = "interpreter"
    return _module(backend).compile_program(program, donated, optimized)


def check_backend(backend: str) -> None:
    """Raise ArgumentError unless there is a backend of that name."""
    own = extensions_of("backend")
    if backend not in BACKENDS and backend not in own:
        known = ", ".join(map(repr, sorted([*BACKENDS, *own])))
        raise ArgumentError(f"there is no backend named {backend!r}; the backends are {known}")


def lower_program(program: Program, backend: str, donated: Sequence[bool] = ()) -> Any:
    """The Program as kernels and a memory plan: an object with `kernels`, `memory_plan` and `cost`.

    Raises:
        ArgumentError: the backend runs Programs without writing kernels.
    """
    if backend not in WRITERS:
        raise ArgumentError(
            f"the backend {backend!r} writes no kernels; functad.config.update('default_backend', 'cpu') chooses one "
            "that does"
        )
    return imported(WRITERS[backend]).lower_program(program, donated)


def _of_user(backend: str, program: Program) -> Executable:
    """What a user's backend makes of a Program, held to what it announces: its results have the Program's types."""
    run, wanted = extensions_of("backend")[backend](program), program.out_avals
    if not callable(run):
        raise CustomRuleError(
            f"the backend {backend!r} made a {type(run).__name__} of a Program; compile_program(program) must return a "
            "function of the list of its arguments to the list of its results"
        )

    def checked(args: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = [np.array(result, order="C") for result in run(args)]  # of their own
        found = [(r.shape, r.dtype) for r in results]
        if found != [(a.shape, a.dtype) for a in wanted]:
            types = [
                ", ".join(f"{dtype}{list(shape)}" for shape, dtype in found),
                ", ".join(a.str_short() for a in wanted),
            ]
            raise CustomRuleError(
                f"the backend {backend!r} returned ({types[0]}) for `{program.name}`, whose results are ({types[1]})"
            )
        return results

    return checked


@cache
def _can_compile() -> bool:
    if numba_here.is_installed() or numba_here.is_switched_off():
        return True
    logger().warning(
        "Numba is not installed: NumPy runs jitted functions, operation by operation. "
        "`python -m pip install numba` has them compiled; NUMBA_DISABLE_JIT=1 runs their kernels as plain Python"
    )
    return False


def _gpus() -> Sequence[Device]:
    if not numba_here.is_installed():
        raise DeviceError(
            'the backend "cuda" compiles with Numba, which is not installed: python -m pip install numba; without it, '
            "`.lower(…).kernels` shows the kernels"
        )
    devices: Sequence[Device] = imported("functad.backends.cuda.runtime.device").cuda_devices()
    return devices


add_platform(("cuda", "gpu"), _gpus)


@cache
def _module(backend: str) -> Any:
    return imported(BACKENDS[backend])
