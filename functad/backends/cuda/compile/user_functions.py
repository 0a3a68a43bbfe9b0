"""The names under which generated CUDA kernels find the functions that users have written, and views for them.

A kernel's file imports them from here; this file knows nothing of what they compute.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numba import cuda

from functad.backends.cpu.scalars.user_functions import array_view
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.primitives.user_kernels import by_symbol

if not SIMULATED:
    array_view = import_module("functad.backends.cuda.scalars.intrinsics").view()


def __getattr__(name: str) -> Any:
    if name not in by_symbol:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return cuda.jit(device=True)(by_symbol[name].python)
