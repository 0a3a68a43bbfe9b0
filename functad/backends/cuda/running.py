"""How a plan runs on a device: launches in a row, and loops, branches and calls of Python between them.

Knows storages, launches and the memory that a call has; neither how kernels are compiled nor what they compute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cuda.device import CudaDevice
from functad.backends.cuda.launching import ArrayPlace, Launch
from functad.backends.walking import Address, Walker
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import ControlPlan, Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.python_functions import call_into
from functad.lowering.steps import CallStep

MakeLaunch = Callable[[Instruction, Callable[[Buffer, int], ArrayPlace]], Launch]


class Stretch:
    """Launches without anything between them, ready to be started. One thread at a time may use it.

    replays: whether the same addresses are likely to come again, so that all of it is kept as a graph.
    """

    def __init__(
        self, name: str, device: CudaDevice, instructions: Sequence[Instruction], make: MakeLaunch, replays: bool
    ) -> None:
        self.instructions = instructions
        self._device = device
        self._slots: dict[Storage, int] = {}
        self.launches = [make(i, self._place) for i in instructions]
        self._run = device.driver.prepare(name, self.launches)
        self.graphs: OrderedDict[tuple[int, ...], int | None] = OrderedDict()
        self._replays = replays and len(self.launches) >= machine_model.CUDA_GRAPH_LAUNCHES

    def addresses(self, places: Mapping[Storage, Address]) -> tuple[int, ...]:
        """Where the memory of each slot begins."""
        return tuple([places[s].memory.address + places[s].offset if s in places else 0 for s in self._slots])

    def start(self, addresses: tuple[int, ...]) -> None:
        """Start all launches; where they come with the same addresses again, as one graph."""
        if not self._replays:
            self._run.start(addresses)
            return
        seen = addresses in self.graphs
        graph = self.graphs.get(addresses)
        if graph is not None:
            self.graphs.move_to_end(addresses)
            self._run.replay(graph)
            return
        if seen:
            graph = self._run.graph(addresses)
            self._run.replay(graph)
        else:
            self._run.start(addresses)
        self.graphs[addresses] = graph
        if len(self.graphs) > machine_model.CUDA_GRAPHS:
            _, old = self.graphs.popitem(last=False)
            if old is not None:
                self._device.driver.forget(old)

    def profiled(self, addresses: tuple[int, ...], times: int) -> list[float]:
        """The least time in µs that each launch took, of so many."""
        found: list[float] = self._run.profiled(addresses, times)
        return found

    def _place(self, buffer: Buffer, first: int) -> ArrayPlace:
        """A buffer from one of its elements on, as an argument."""
        slot = self._slots.setdefault(buffer.storage.memory, len(self._slots))
        dtype = device_dtype(buffer.dtype)
        return ArrayPlace(slot, first * dtype.itemsize, dtype, buffer.size - first)


def device_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype under which kernels take arrays: floats of 16 bits come as their patterns."""
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype


def stretches_of(
    name: str, device: CudaDevice, items: Sequence[Any], make: MakeLaunch, in_loop: bool = False
) -> list[Any]:
    """The plan with stretches in the place of instructions that are launched; calls of Python are left."""
    found: list[Any] = []
    waiting: list[Instruction] = []

    def finish() -> None:
        if waiting:
            found.append(Stretch(name, device, list(waiting), make, replays=not in_loop))
            waiting.clear()

    for item in items:
        if isinstance(item, ControlPlan):
            finish()
            parts = [stretches_of(name, device, part, make, in_loop=True) for part in item.parts]
            found.append(ControlPlan(item.step, parts))
        elif isinstance(item.step, CallStep):
            finish()
            found.append(item)
        elif item.n:
            waiting.append(item)
    finish()
    return found


class DeviceRun(Walker):
    """One call of a Program. What Python needs to know, as the condition of a loop, is read back.

    seen: the addresses with which each stretch has run first.
    """

    def __init__(self, device: CudaDevice, name: str) -> None:
        super().__init__()
        self.seen: dict[Stretch, tuple[int, ...]] = {}
        self._device = device
        self._name = name
        self._kept: list[Any] = []  # memory that kernels may not have come to yet

    def run_leaf(self, item: Stretch | Instruction) -> None:
        if isinstance(item, Stretch):
            addresses = item.addresses(self.places)
            self.seen.setdefault(item, addresses)
            item.start(addresses)
        else:
            assert isinstance(item.step, CallStep)
            self._call(item.step)

    def number(self, buffer: Buffer) -> Any:
        return self._on_host(buffer).reshape(-1)[0]

    def enlarged(self, memory: Any, nbytes: int) -> Any:
        larger = self._device.pool.take(nbytes, "the steps of a loop", f"of {self._name}")
        if memory is not None:
            self._device.driver.copy(larger.address, memory.address, memory.nbytes)
            self._kept.append(memory)
        return larger

    def size(self, memory: Any) -> int:
        return 0 if memory is None else int(memory.nbytes)

    def _address(self, buffer: Buffer) -> int:
        memory, offset = self.places[buffer.storage.memory]
        return int(memory.address + offset)

    def _on_host(self, buffer: Buffer) -> np.ndarray:
        """A copy of a buffer."""
        found = np.empty(buffer.shape, buffer.dtype)
        if found.size:
            self._device.driver.download(found, self._address(buffer))
        return found

    def _call(self, step: CallStep) -> None:
        """Python computes on copies of the operands, and its results are copied to the device."""
        results = [np.empty(b.shape, b.dtype) for b in step.outs]
        call_into(step.callback, [self._on_host(b) for b in step.ins], results)
        for buffer, result in zip(step.outs, results):
            if buffer.size:
                self._device.driver.upload(self._address(buffer), result)
