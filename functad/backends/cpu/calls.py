"""Python functions as kernels: how a tape calls them, and what becomes of their exceptions.

Knows slots and buffers; not what the functions do.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.lowering.buffers import Buffer
from functad.lowering.steps import CallStep

# ctypes takes the interpreter's lock for such a function, whether the thread has it or not.
_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class PythonCalls:
    """The calls of one executable.

    running: the slot of the address of a bool that is set until a function raises, when the tape goes to its end;
        -1 if there are no calls. Calls run on the thread that runs the tape, so its exception is a value of the thread.
    """

    def __init__(self) -> None:
        self.running = -1
        self._kept: list[Any] = []  # what the tape has addresses of
        self._problems = threading.local()

    def kernel(self, step: CallStep) -> int:
        """The address of a kernel whose params are the slots of the step's buffers."""
        buffers = [*step.ins, *step.outs]
        count = len(step.ins)

        def call(slots: int, params: int, start: int, stop: int) -> None:
            try:
                arrays = _arrays(buffers, slots, params)
                step.call(arrays[:count], arrays[count:])
            except BaseException as problem:  # no exception can pass through compiled code
                self._problems.found = problem
                ctypes.c_bool.from_address(_word(slots, self.running)).value = False

        function = _Kernel(call)
        self._kept.append(function)
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    def settle(self) -> None:
        """Raise the exception that ended the last run on this thread, if one did."""
        problem: BaseException | None = getattr(self._problems, "found", None)
        if problem is not None:
            self._problems.found = None
            raise problem


def _word(address: int, number: int) -> int:
    return ctypes.c_int64.from_address(address + 8 * number).value


def _arrays(buffers: Sequence[Buffer], slots: int, params: int) -> list[np.ndarray]:
    """The memory of buffers as arrays."""
    found = []
    for number, buffer in enumerate(buffers):
        memory: Any = (ctypes.c_char * buffer.nbytes).from_address(_word(slots, _word(params, number)))
        found.append(np.ndarray(buffer.shape, buffer.dtype, memory))
    return found
