"""The direct way into a tape: a built-in function of the leaves of a call's arguments, which returns Arrays.

Knows types and frames; not what a tape computes. Where Python's objects do not lie as `python_objects` expects there is
no such function, and all calls go by lists of ndarrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.backends.cpu.runtime.tape import Tape, Words, runtime
from functad.ir import Aval
from functad.records import NamedTuple
from functad.system.freed_memory import is_aligned, memory_bytes

DirectCall = Callable[..., Any]  # of the leaves: their Array, a tuple of several, or None where the long way must judge


class DirectTypes(NamedTuple):
    """What a call is made for.

    constants: arrays that come before all others. leaves: the types of the arguments; the same objects as their Arrays
    have. numbers: for each whether a Python float is of that type. results: the types of the results.
    """

    constants: Sequence[np.ndarray[Any, Any]]
    leaves: Sequence[Aval]
    numbers: Sequence[bool]
    results: Sequence[Aval]


def bind_directly(tape: Tape, slots: Words, arena: Any, types: DirectTypes) -> DirectCall | None:
    """The function that runs the tape with these slots and this arena, which are its own; None if there can be none.

    It returns None, and has done nothing, for other leaves than Arrays or contiguous ndarrays of the known types and
    floats, while a call is under way, or where threads are to be started or memory is missing.
    """
    if runtime().direct_problem or not types.results:
        return None
    words = [tape.address, slots.ctypes.data, 0, len(types.constants), len(types.leaves), len(types.results)]
    words += [array.ctypes.data for array in types.constants]
    kept: list[Any] = [tape, slots, arena, types]
    for aval, number in zip(types.leaves, types.numbers):
        scratch = np.zeros(1, np.int64).view(aval.dtype)[:1].reshape(()) if number else None
        place = 0 if scratch is None else id(scratch)
        words += [id(aval), id(bool(aval.weak_type)), *_elements(aval, kept)]
        words += [not aval.weak_type, place, aval.dtype.itemsize == 8, 0]
        kept.append(scratch)
    for aval in types.results:
        words += [id(aval), id(bool(aval.weak_type)), id(ArrayImpl), 0, *_elements(aval, kept), _memory(aval, kept)]
    return runtime().direct.bound(words, *kept)


def _memory(aval: Aval, kept: list[Any]) -> int:
    """Address of the size of the memory that holds an array which begins at a cache line; 0 for one that need not."""
    if not is_aligned(aval.shape, aval.dtype):
        return 0
    size = np.array([memory_bytes(aval.size * aval.dtype.itemsize)], np.int64)
    kept.append(size)
    return int(size.ctypes.data)


def _elements(aval: Aval, kept: list[Any]) -> list[int]:
    """The address of the dtype, the rank, and the address of the axes' sizes."""
    shape = np.array(aval.shape, np.int64)
    kept.append(shape)
    return [id(aval.dtype), len(aval.shape), shape.ctypes.data]
