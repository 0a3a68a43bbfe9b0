"""How a plan runs on a device: what each instruction is given, and loops and branches around them.

Knows launchers as functions of arrays on the device; neither how kernels are compiled nor where memory comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import cuda

from functad.backends.walking import Walker
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import Instruction
from functad.lowering.memory.buffers import Buffer
from functad.lowering.python_functions import call_into
from functad.lowering.steps import CallStep

Launcher = Callable[..., None]


def device_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype under which kernels take arrays: floats of 16 bits come as their patterns."""
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype


class DeviceRun(Walker):
    """One call of a Program. Memory is arrays of bytes on the device; what Python needs to know is read back."""

    def __init__(self, launchers: Mapping[int, Launcher]) -> None:
        super().__init__()
        self.launchers = launchers  # by the identity of the instruction

    def run_leaf(self, item: Instruction) -> None:
        if isinstance(item.step, CallStep):
            self._call(item.step)
        elif item.n:
            self.launchers[id(item)](*[self.array(b, first) for b, first in item.arguments])

    def array(self, buffer: Buffer, first: int = 0) -> Any:
        """The elements of a buffer, from one of them on; None if there are none."""
        if not buffer.size:
            return None
        memory, offset = self.places[buffer.storage.memory]
        dtype = device_dtype(buffer.dtype)
        start, stop = offset + first * dtype.itemsize, offset + buffer.size * dtype.itemsize
        return memory[start:stop].view(dtype)

    def on_host(self, buffer: Buffer) -> np.ndarray:
        """A copy of a buffer."""
        if not buffer.size:
            return np.empty(buffer.shape, buffer.dtype)
        found: np.ndarray = self.array(buffer).copy_to_host()
        return found.view(buffer.dtype).reshape(buffer.shape)

    def number(self, buffer: Buffer) -> Any:
        return self.on_host(buffer).reshape(-1)[0]

    def enlarged(self, memory: Any, nbytes: int) -> Any:
        larger = cuda.device_array(nbytes, np.uint8)
        if memory is not None:
            larger[: memory.size].copy_to_device(memory)
        return larger

    def size(self, memory: Any) -> int:
        return 0 if memory is None else int(memory.size)

    def _call(self, step: CallStep) -> None:
        """Python computes on copies of the operands, and its results are copied to the device."""
        results = [np.empty(b.shape, b.dtype) for b in step.outs]
        call_into(step.callback, [self.on_host(b) for b in step.ins], results)
        for buffer, result in zip(step.outs, results):
            if buffer.size:
                self.array(buffer).copy_to_device(result.reshape(-1).view(device_dtype(buffer.dtype)))
