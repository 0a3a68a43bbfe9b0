"""The memory of dead arrays stays with the process for the next ones, up to a limit.

glibc gives the end of its heap back to the system as soon as a little of it is free. The next large results then take
a page fault for each 4 KiB, call by call, which can cost ten times what computing them does. What is too large for its
heap lies in blocks that functad keeps itself.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import plain_dtype

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
LARGEST_OF_THE_HEAP = 32 << 20  # what is larger always has a mapping of its own
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed; once a process.

    Returns whether it does: not with another C library, nor where the user's environment has settings of its own
    (`MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`, `GLIBC_TUNABLES`).
    """
    if os.name != "posix" or any(name in os.environ for name in _SETTINGS):
        return False
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version")):
        return False
    # Either one alone would end glibc's own adaptation of both.
    kept = library.mallopt(_M_TRIM_THRESHOLD, machine_model.KEPT_FREED_BYTES)
    return bool(kept and library.mallopt(_M_MMAP_THRESHOLD, LARGEST_OF_THE_HEAP))


class LargeBlock:
    """The memory of one large array; when nobody reads it any more, it is kept for the next one of its size."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> None:
        self._memory = memory
        data = memory.ctypes.data, False
        self.__array_interface__ = {"version": 3, "shape": tuple(shape), "typestr": dtype.str, "data": data}

    def __del__(self) -> None:
        if self._memory.nbytes > machine_model.KEPT_FREED_BYTES:
            return
        _kept[id(self._memory)] = self._memory
        excess = sum(memory.nbytes for memory in list(_kept.values())) - machine_model.KEPT_FREED_BYTES
        for key in list(_kept):
            if excess > 0 and (oldest := _kept.pop(key, None)) is not None:
                excess -= oldest.nbytes


_kept: dict[int, np.ndarray] = {}  # the oldest first; each step on it is one of Python's, so threads need no lock


def large_empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array of more than `LARGEST_OF_THE_HEAP` bytes that nothing was written to, as `numpy.empty`."""
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > sys.maxsize:
        raise MemoryError(f"an array of {nbytes:,} bytes")
    for key, memory in list(_kept.items()):
        if memory.nbytes == nbytes and _kept.pop(key, None) is not None:
            return np.asarray(LargeBlock(memory, shape, plain_dtype(dtype))).view(dtype)
    try:
        memory = np.empty(nbytes, np.uint8)
    except MemoryError:
        _kept.clear()
        memory = np.empty(nbytes, np.uint8)
    return np.asarray(LargeBlock(memory, shape, plain_dtype(dtype))).view(dtype)


def empty_for(shape: Sequence[int], dtype: Any) -> Any:
    """What makes arrays of a type: `numpy.empty`, or `large_empty`."""
    return large_empty if math.prod(shape) * np.dtype(dtype).itemsize > LARGEST_OF_THE_HEAP else np.empty
