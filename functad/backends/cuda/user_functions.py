"""The names under which generated CUDA kernels find the functions of users, and views of arrays, as device functions.

A kernel's file imports them from here; this file knows nothing of what they compute.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from functad.primitives.user_kernels import by_symbol


@cuda.jit(device=True)
def array_view(x, start, shape):
    """The elements from `start` on as an array."""
    size = 1
    for extent in shape:
        size *= extent
    return x[start : start + size].reshape(shape)


def __getattr__(name: str) -> Any:
    if name not in by_symbol:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return cuda.jit(device=True)(by_symbol[name].python)
