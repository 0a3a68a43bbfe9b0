"""Backends turn a Program into something that runs: `compile(program) -> callable on ndarrays`.

Knows the names of the backends; each is a module that is imported when first asked for. Where there is no Numba, as in
a browser, NumPy runs what the CPU backend would compile, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.errors import ArgumentError
from functad.ir import Program
from functad.system import numba_here
from functad.system.log import logger
from functad.system.once import imported

Executable = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

BACKENDS = {
    "cpu": "functad.backends.cpu.executable",
    "cuda": "functad.backends.cuda.executable",
    "interpreter": "functad.interpreter",
}


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
    if backend == "cpu" and not _can_compile():
        backend = "interpreter"
    return _module(backend).compile_program(program, donated, optimized)


def check_backend(backend: str) -> None:
    """Raise ArgumentError unless there is a backend of that name."""
    if backend not in BACKENDS:
        known = ", ".join(map(repr, sorted(BACKENDS)))
        raise ArgumentError(f"there is no backend named {backend!r}; the backends are {known}")


def lower_program(program: Program, backend: str, donated: Sequence[bool] = ()) -> Any:
    """The Program as kernels and a memory plan: an object with `kernels`, `memory_plan` and `cost`.

    Raises:
        ArgumentError: the backend runs Programs without writing kernels.
    """
    module = _module(backend)
    if not hasattr(module, "lower_program"):
        raise ArgumentError(
            f"the backend {backend!r} writes no kernels; functad.config.update('default_backend', 'cpu') chooses one "
            "that does"
        )
    return module.lower_program(program, donated)


@cache
def _can_compile() -> bool:
    if numba_here.is_installed() or numba_here.is_switched_off():
        return True
    logger().warning(
        "Numba is not installed: NumPy runs jitted functions, operation by operation. "
        "`python -m pip install numba` has them compiled; NUMBA_DISABLE_JIT=1 runs their kernels as plain Python"
    )
    return False


@cache
def _module(backend: str) -> Any:
    return imported(BACKENDS[backend])
