"""Backends turn a Program into something that runs: `compile(program) -> callable on ndarrays`.

Knows the names of the backends; each is a module that is imported when first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import numpy as np

from functad.errors import ArgumentError
from functad.ir import Program

Executable = Callable[[Sequence[np.ndarray]], list[np.ndarray]]

BACKENDS = {"interpreter": "functad.backends.interpreter"}


def compile_program(program: Program, backend: str) -> Executable:
    """An executable for a Program without array constants other than its own consts.

    The executable takes the inputs as ndarrays, which it never changes or keeps, and returns fresh arrays.
    """
    if backend not in BACKENDS:
        known = ", ".join(map(repr, sorted(BACKENDS)))
        raise ArgumentError(f"there is no backend named {backend!r}; the backends are {known}")
    return import_module(BACKENDS[backend]).compile_program(program)
