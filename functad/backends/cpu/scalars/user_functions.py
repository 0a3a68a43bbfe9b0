"""The names under which generated kernels find the functions that users have written, and views of arrays for them.

A kernel's file imports them from here; this file knows nothing of what they compute.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad.primitives.user_kernels import PREFIX, by_symbol
from functad.system import numba_here
from functad.system.once import imported


def array_view(pointer: np.ndarray, start: int, shape: tuple[int, ...]) -> np.ndarray:
    """The elements from `start` on as an array; compiled, it is what `user_functions_numba` makes of it."""
    return pointer[start : start + math.prod(shape)].reshape(shape)


def is_user_function(name: str) -> bool:
    """Whether a name in a kernel's text is one of these names."""
    return name == array_view.__name__ or name.startswith(PREFIX)


def __getattr__(name: str) -> Any:
    if name not in by_symbol:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = by_symbol[name]
    if numba_here.is_switched_off():
        return function.python
    return imported("functad.backends.cpu.scalars.user_functions_numba").in_kernels(function)
