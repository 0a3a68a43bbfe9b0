"""Python functions as kernels: what a tape calls, and how they find their arrays.

Knows slots and where arrays lie; not what the functions do.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.backends.cpu.runtime.tape import TapeInstruction, runtime
from functad.ir import Aval
from functad.records import NamedTuple


class SlotArray(NamedTuple):
    """An array, whose address lies in a slot."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype


class PythonCall(NamedTuple):
    """A call of a Python function, which runs on the thread that runs the tape; if it raises, that stops.

    callback: as of a `CallStep`. operands, results: its arrays. token: the slot of the cancellation token.
    scale: of its range, which says nothing.
    """

    callback: Any
    operands: Sequence[SlotArray]
    results: Sequence[SlotArray]
    token: int
    scale: int = 1

    def instruction(self) -> TapeInstruction:
        """The instruction that calls it."""

        operands, results = map(_readers, (self.operands, self.results))
        avals = [Aval(place.shape, place.dtype) for place in self.results]

        def call(slots: int) -> None:
            given, targets = [read(slots) for read in operands], [read(slots) for read in results]
            for target, value in zip(targets, self.callback.run(given, avals)):
                target[...] = value

        words = np.array([id(call), self.token], np.int64).view(_CallWords)
        words.kept = call
        return TapeInstruction(runtime().addresses["call_python"], words)


class _CallWords(np.ndarray[Any, Any]):
    """The words of an instruction, which keep the function whose address they hold."""

    kept: Any


def _readers(places: Sequence[SlotArray]) -> list[Callable[[int], np.ndarray]]:
    return [partial(_array, p, 8 * p.slot, ctypes.c_char * (math.prod(p.shape) * p.dtype.itemsize)) for p in places]


def _array(place: SlotArray, offset: int, memory: Any, slots: int) -> np.ndarray:
    """An array in the memory whose address lies in its slot."""
    address = ctypes.c_int64.from_address(slots + offset).value
    return np.ndarray(place.shape, place.dtype, memory.from_address(address))
