"""The memory of arrays: where it begins, and that of dead ones stays with the process for the next, up to a limit.

Arrays of some size begin at a cache line, so that no vector lies in two of them.

glibc gives the end of its heap back to the system as soon as a little of it is free. The next large results then take
a page fault for each 4 KiB, call by call, which can cost ten times what computing them does. What is too large for its
heap lies in blocks that functad keeps itself. Those beyond the limit are lent to the system: it may take their pages
whenever it needs memory, that of a container too, and until then they are there for the next large result.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import stored_as

try:
    import resource
except ImportError:  # neither Windows nor a browser has it
    resource = None  # type: ignore[assignment]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
LARGEST_OF_THE_HEAP = 32 << 20  # bytes of memory; as much, or more, has a mapping of its own
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


class AlignedMemory(np.ndarray):
    """The memory of one array, and a cache line more: the array begins where a line does."""


class LargeBlock(np.ndarray):
    """The memory of one large array; when nobody reads it any more, it is kept for the next one of its size."""

    def __del__(self) -> None:
        memory = self.base
        if type(memory) is not AlignedMemory or sys.is_finalizing():
            return  # a part of a block, or nobody comes after it
        _kept[id(memory)] = memory
        excess = _taken_beyond(_kept, machine_model.KEPT_FREED_BYTES)
        _lent.update((id(memory), memory) for memory in excess if _lend(memory))
        if _lent:
            _taken_beyond(_lent, machine_model.LENT_SHARE * _memory_of_process())


def _taken_beyond(blocks: dict[int, np.ndarray], most: float) -> list[np.ndarray]:
    """The oldest blocks, taken out until the others are no more than so many bytes."""
    taken, excess = [], sum(memory.nbytes for memory in list(blocks.values())) - most
    for key in list(blocks):
        if excess > 0 and (oldest := blocks.pop(key, None)) is not None:
            excess -= oldest.nbytes
            taken.append(oldest)
    return taken


def _lend(memory: np.ndarray) -> bool:
    """Let the system take pages of dead memory when it needs them; returns whether it knows how to."""
    if not hasattr(mmap, "MADV_FREE"):
        return False
    address, page = _address(memory), mmap.PAGESIZE
    first, end = -(-address // page) * page, (address + memory.nbytes) // page * page
    madvise = ctypes.CDLL(None).madvise
    return not madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_FREE)


_LIMIT_OF_CONTAINER = "/sys/fs/cgroup/memory.max"


@cache
def _memory_of_process() -> int:
    """Bytes that the process may have: the machine's memory, or less where its container or a limit says so."""
    limits = [os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE]
    with suppress(OSError, ValueError), open(_LIMIT_OF_CONTAINER, encoding="ascii") as file:
        limits.append(int(file.read()))  # not a number, "max", if there is none
    if resource is not None:
        # What is lent still takes addresses, which the system does not take back.
        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        limits += [space] if space != resource.RLIM_INFINITY else []
    return min(limits)


OWN_MEMORY = (AlignedMemory, LargeBlock)
"""What an array is based on that has all of its memory for itself."""

# Dead blocks, the oldest first; each step on a dict is one of Python's, so threads need no lock.
_kept: dict[int, np.ndarray] = {}
_lent: dict[int, np.ndarray] = {}


def aligned_empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array that begins at a cache line and that nothing was written to, as `numpy.empty`."""
    memory = _memory_for(math.prod(shape) * np.dtype(dtype).itemsize)
    return np.ndarray(shape, dtype, memory, _start_in(memory))


def aligned_copy(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A contiguous copy, of another dtype if one is given, that begins at a cache line if it is of some size."""
    dtype = array.dtype if dtype is None else dtype
    copy = empty_for(array.shape, dtype)(array.shape, dtype)
    copy[...] = array
    return copy


def large_empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array whose memory is not of the heap, and that nothing was written to, as `numpy.empty`."""
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    for blocks in (_kept, _lent):
        for key, memory in list(blocks.items()):
            if memory.nbytes == memory_bytes(nbytes) and blocks.pop(key, None) is not None:
                return _large(memory, shape, dtype)
    try:
        memory = _memory_for(nbytes)
    except MemoryError:
        _kept.clear()
        _lent.clear()
        memory = _memory_for(nbytes)
    return _large(memory, shape, dtype)


def _large(memory: np.ndarray, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, memory.view(LargeBlock), _start_in(memory))


def _memory_for(nbytes: int) -> np.ndarray:
    if nbytes > sys.maxsize - memory_bytes(0):
        raise MemoryError(f"an array of {nbytes:,} bytes")
    return AlignedMemory(memory_bytes(nbytes), np.uint8)


def memory_bytes(nbytes: int) -> int:
    """How much memory holds an array of so many bytes that begins at a cache line, half a page behind its start."""
    return nbytes + machine_model.CACHE_LINE + machine_model.BEFORE_A_RESULT


def _start_in(memory: np.ndarray) -> int:
    """How many bytes after the beginning of some memory its array begins."""
    return machine_model.BEFORE_A_RESULT + -_address(memory) % machine_model.CACHE_LINE


def _address(memory: np.ndarray) -> int:
    # NumPy takes ten times as long to tell it.
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))  # type: ignore[arg-type]


def is_aligned(shape: Sequence[int], dtype: Any) -> bool:
    """Whether arrays of a type are large enough to begin at a cache line."""
    return _nbytes(shape, dtype) >= machine_model.ALIGNED_BYTES


def empty_for(shape: Sequence[int], dtype: Any) -> Any:
    """What makes arrays of a type: `numpy.empty`, `aligned_empty` or `large_empty`."""
    if memory_bytes(_nbytes(shape, dtype)) >= LARGEST_OF_THE_HEAP:
        return large_empty
    return aligned_empty if is_aligned(shape, dtype) else np.empty


def _nbytes(shape: Sequence[int], dtype: Any) -> int:
    return math.prod(shape) * np.dtype(stored_as(dtype)).itemsize
