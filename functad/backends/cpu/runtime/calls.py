"""Python functions as kernels: what a tape calls, and how they find their arrays.

Knows slots and buffers; not what the functions do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.backends.cpu.runtime.tape import TapeInstruction, runtime
from functad.lowering.memory.buffers import Buffer
from functad.lowering.steps import CallStep


class PythonCalls:
    """The calls of one executable. They run on the thread that runs the tape; one that raises stops it."""

    def __init__(self) -> None:
        self.kept: list[Any] = []  # what the tape has addresses of

    def instruction(self, step: CallStep, numbers: Sequence[int], token: int) -> TapeInstruction:
        """The instruction of a step.

        numbers: the slots of the step's operands and results. token: the slot of the cancellation token.
        """
        buffers = [*step.ins, *step.outs]
        count = len(step.ins)

        def call(slots: int) -> None:
            arrays = [_array(buffer, slots, number) for buffer, number in zip(buffers, numbers)]
            step.call(arrays[:count], arrays[count:])

        self.kept.append(call)
        return TapeInstruction(runtime().addresses["call_python"], np.array([id(call), token], np.int64))


def _array(buffer: Buffer, slots: int, number: int) -> np.ndarray:
    """The memory of a buffer, whose address lies in the slot of that number."""
    address = ctypes.c_int64.from_address(slots + 8 * number).value
    memory: Any = (ctypes.c_char * buffer.nbytes).from_address(address)
    return np.ndarray(buffer.shape, buffer.dtype, memory)
