"""The direct way to a device: a built-in function of the leaves of a call's arguments, which returns Arrays.

Knows types, and how memories lie; not what is started. Where Python's objects do not lie as expected there is no such
function, and Python reads and makes Arrays itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.array import DonatedArray
from functad.backends.cpu.compile.word_modules import load_words
from functad.backends.cpu.runtime import compiled_arrays
from functad.backends.cpu.runtime.built_in import METH_FASTCALL, BuiltIn
from functad.backends.cpu.runtime.direct import DirectCall
from functad.backends.cpu.runtime.pool import address_of
from functad.backends.cpu.runtime.python_objects import places_of_slots
from functad.backends.cpu.runtime.tape import runtime
from functad.backends.cuda.runtime import compiled_call as frame
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.memory import DeviceMemory
from functad.backends.cuda.runtime.pool import PoolBlock
from functad.device_arrays import device_class_for
from functad.ir import Aval
from functad.records import NamedTuple


class DeviceCallTypes(NamedTuple):
    """What a call on a device is made for.

    leaves: the types of the arguments; the same objects as their Arrays have. donated: of each its name, or None.
    results: the types of the results. given: for each the number of the donated leaf whose memory it gets, or None.
    commits: whether results are committed to the device, wherever the arguments are.
    """

    leaves: Sequence[Aval]
    donated: Sequence[str | None]
    results: Sequence[Aval]
    given: Sequence[int | None]
    commits: bool


def bind_on_device(
    start: Callable[[list[Any]], list[DeviceMemory] | None], wanted: str, device: CudaDevice, types: DeviceCallTypes
) -> DirectCall | None:
    """The function that starts kernels on a device; None if there can be none.

    start: of what is wanted of all leaves' memories, "address" or "block"; gives the memories of the results that are
    not given, or None if there is no memory. The function returns None, and has done nothing, in that case, for other
    leaves than Arrays of the known types on the device, where somebody else holds or knows a donated one's memory, and
    while a call is under way.
    """
    places = _places()
    if places is None or not types.results:
        return None
    api = ctypes.pythonapi
    words = [0, runtime().pool.address, address_of(api.PyList_New), address_of(api.PyObject_CallOneArg)]
    words += [id(start), id(device), id(True), id(False), id(DonatedArray), types.commits, id(DeviceMemory)]
    words += [places[name] for name in ("device", "block", "committed", "kept", wanted, "shared")]
    words += [len(types.leaves), len(types.results)]
    for aval, name in zip(types.leaves, types.donated):
        words += [id(device_class_for(aval)), id(aval), 0 if name is None else id(name), 0]
    for aval, leaf in zip(types.results, types.given):
        words += [id(aval), id(bool(aval.weak_type)), id(device_class_for(aval)), 0, -1 if leaf is None else leaf]
    return _built_in().bound(words, start, device, types)


@cache
def _built_in() -> BuiltIn:
    return BuiltIn(load_words(compiled_arrays, frame, identity="runtime"), "call_on_device", METH_FASTCALL)


@cache
def _places() -> dict[str, int] | None:
    """Which words of memories, and of pieces of the pool, are what; None if compiled code must not read them."""
    if runtime().direct_problem or not _counts_lie_first():
        return None
    block = _ProbedBlock(None, 0, 0)  # type: ignore[arg-type]
    memory = DeviceMemory(None, block, (), np.dtype(np.float32))
    names = ("address", "block", "committed", "device", "kept")
    found = dict(zip(names, places_of_slots(memory, names)))
    [found["shared"]] = places_of_slots(block, ["shared"])
    known = {name: place for name, place in found.items() if place is not None}
    return known if len(known) == len(found) else None


class _ProbedBlock(PoolBlock):
    """A piece of memory that is none, and goes back to no pool."""

    __slots__ = ()

    def __del__(self) -> None:
        """Nobody waits for it."""


def _counts_lie_first() -> bool:
    """Whether an object begins with how many references there are to it, as an int."""
    counts, held = [], []
    thing = DonatedArray.__new__(DonatedArray)
    for _ in range(3):
        counts.append(ctypes.c_int32.from_address(id(thing) + object.__basicsize__ - 16).value)
        held.append(thing)
    return counts == [1, 2, 3]
