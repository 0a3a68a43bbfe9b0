"""From a Program to its executable: simplified, compiled by a backend, each once, and run.

Knows the optimiser and the backends; nothing of pytrees or signatures. Importing it lets `jit_p` compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

import functad.control  # noqa: F401  (so that all operations are known, whatever else is imported)
from functad.announcing import Announcement
from functad.backends import Executable, compile_program, lower_program
from functad.calls.jit import set_runner
from functad.config import config, extensions_of, own_optimisations
from functad.editing.keys import without_keys
from functad.ir import Program, memoised
from functad.system.garbage import collection_paused
from functad.system.log import logger
from functad.system.once import imported, once


def optimized(program: Program) -> Program:
    """The simplified Program, the same object each time."""
    program = without_keys(program)
    return memoised(program, ("optimized", *own_optimisations()), lambda: _pipeline().simplify(program))


@cache
def _pipeline() -> Any:
    """The passes, which a process that finds its executables on disk does without."""
    return imported("functad.optimize.pipeline")


def executable(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Executable:
    """The Program's executable on a backend, the configured one by default, compiled at the first call, by one thread.

    donated: which inputs' memory its results may take; none if empty.
    """
    program = without_keys(program)
    chosen = backend or config.default_backend
    own = extensions_of("backend").get(chosen), *own_optimisations()
    key = ("executable", chosen, donated, config.fuse_multiply_add, *own)
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
            return optimized(program)

        made = compile_program(program, backend, donated, optimized_anew)
    if config.log_compiles:
        ms = 1e3 * (perf_counter() - start)
        logger().warning("compiled %s for the backend %r in %.0f ms", program.name or "a Program", backend, ms)
    return made


def lowered(program: Program, donated: tuple[bool, ...] = (), backend: str | None = None) -> Any:
    """The Program as kernels of a backend, the configured one by default, not compiled."""
    chosen = backend or config.default_backend
    key = ("lowered", chosen, donated, config.fuse_multiply_add, *own_optimisations())
    return memoised(program, key, lambda: lower_program(optimized(program), chosen, donated))


def run(program: Program, args: Sequence[np.ndarray], backend: str | None = None) -> list[np.ndarray]:
    """The results of a Program, which is compiled first if it has not been."""
    return executable(program, backend=backend)(args)


set_runner(run)
