"""How a plan runs on a device: launches in a row are started together, loops and branches around them from Python.

Knows memory as pieces of a device's pool, and what is read back of it; neither how kernels are compiled nor written.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
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

Launcher = Callable[..., Launch]


def device_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype under which kernels take arrays: floats of 16 bits come as their patterns."""
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype


class LaunchRow:
    """Instructions that are started one after the other, with nothing between them.

    storages: whose addresses the launches are given.

    They are held for one thread at a time only while they are started: calls of Python stand between rows, and may
    call the same function.
    """

    def __init__(
        self,
        device: CudaDevice,
        name: str,
        instructions: Sequence[Instruction],
        launcher: Callable[[Instruction], Launcher],
    ) -> None:
        self._device = device
        self.graphs: OrderedDict[tuple[int, ...], int | None] = OrderedDict()
        self.instructions = instructions
        self._slots: dict[Storage, int] = {}
        self.launches = [launcher(i)(*[self._place(b, first) for b, first in i.arguments]) for i in instructions]
        self.storages = tuple(self._slots)
        self._prepared = device.driver.prepare(name, self.launches)
        self._lock = threading.Lock()  # the arguments of launches have one place

    def __del__(self) -> None:
        for graph in self.graphs.values():
            if graph is not None:
                self._device.driver.forget(graph)

    def _place(self, buffer: Buffer, first: int) -> ArrayPlace:
        slot = self._slots.setdefault(buffer.storage.memory, len(self._slots))
        dtype = device_dtype(buffer.dtype)
        return ArrayPlace(slot, first * dtype.itemsize, dtype, max(buffer.size - first, 0))

    def start(self, addresses: tuple[int, ...]) -> None:
        """Start all launches; where they come with the same addresses again, as one graph."""
        with self._lock:
            graph = self.graphs.get(addresses)
            if graph is None:
                if len(self.launches) < machine_model.CUDA_GRAPH_LAUNCHES or addresses not in self.graphs:
                    self._prepared.start(addresses)
                else:
                    graph = self._prepared.graph(addresses)
            if graph is not None:
                self._prepared.replay(graph)
            self.graphs[addresses] = graph
            self.graphs.move_to_end(addresses)
            if len(self.graphs) > machine_model.CUDA_GRAPHS:
                _, old = self.graphs.popitem(last=False)
                if old is not None:
                    self._device.driver.forget(old)

    def profiled(self, addresses: tuple[int, ...], times: int) -> list[float]:
        """The least time in µs of each launch, of so many."""
        with self._lock:
            return self._prepared.profiled(addresses, times)


def in_rows(
    items: Sequence[Instruction | ControlPlan], row: Callable[[Sequence[Instruction]], LaunchRow]
) -> list[LaunchRow | Instruction | ControlPlan]:
    """A plan in which instructions between loops, branches and calls of Python are rows."""
    found: list[LaunchRow | Instruction | ControlPlan] = []
    waiting: list[Instruction] = []

    def end() -> None:
        if waiting:
            found.append(row(list(waiting)))
            waiting.clear()

    for item in items:
        if isinstance(item, ControlPlan):
            end()
            found.append(ControlPlan(item.step, [in_rows(part, row) for part in item.parts]))
        elif isinstance(item.step, CallStep):
            end()
            found.append(item)
        elif item.n:
            waiting.append(item)
    end()
    return found


class DeviceRun(Walker):
    """One call of a Program. Memory is pieces of the device's pool; what Python needs to know is read back."""

    def __init__(self, device: CudaDevice, name: str) -> None:
        super().__init__()
        self._device = device
        self._name = name

    def run_leaf(self, item: LaunchRow | Instruction) -> None:
        if isinstance(item, LaunchRow):
            item.start(self.addresses(item))
        elif isinstance(item.step, CallStep):
            self._call(item.step)

    def addresses(self, row: LaunchRow) -> tuple[int, ...]:
        places = self.places
        return tuple([_address(places[s]) if s in places else 0 for s in row.storages])  # what is empty has no place

    def on_host(self, buffer: Buffer) -> np.ndarray:
        """A copy of a buffer."""
        found = np.empty(buffer.shape, buffer.dtype)
        if found.size:
            self._device.driver.download(found, _address(self.places[buffer.storage.memory]))
        return found

    def number(self, buffer: Buffer) -> Any:
        return self.on_host(buffer).reshape(-1)[0]

    def enlarged(self, memory: Any, nbytes: int) -> Any:
        larger = self._device.pool.take(nbytes, "what a loop keeps of its steps", f"of {self._name}")
        if memory is not None:
            self._device.driver.copy(larger.address, memory.address, memory.nbytes)
        return larger

    def size(self, memory: Any) -> int:
        return 0 if memory is None else int(memory.nbytes)

    def _call(self, step: CallStep) -> None:
        """Python computes on copies of the operands, and its results are copied to the device."""
        results = [np.empty(b.shape, b.dtype) for b in step.outs]
        call_into(step.callback, [self.on_host(b) for b in step.ins], results)
        for buffer, result in zip(step.outs, results):
            if buffer.size:
                self._device.driver.upload(_address(self.places[buffer.storage.memory]), np.ascontiguousarray(result))


def _address(place: Address) -> int:
    return 0 if place.memory is None else int(place.memory.address) + place.offset
