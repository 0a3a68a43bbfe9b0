"""Backends turn a Program into something that runs: `compile(program) -> callable on ndarrays`.

Knows the names of the backends; each is a module that is imported when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.errors import ArgumentError
from functad.ir import Program
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
def _module(backend: str) -> Any:
    return imported(BACKENDS[backend])
