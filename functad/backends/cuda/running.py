"""How a plan runs on a device: launches, and loops of known length, are one graph; Python goes through other loops.

Knows memory as pieces of a device's pool, and what is read back of it; neither how kernels are compiled nor written.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cuda.device import CudaDevice
from functad.backends.cuda.launching import ArrayPlace, Launch, LibraryProduct
from functad.backends.walking import Address, Walker
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import ControlPlan, Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.python_functions import call_into
from functad.lowering.steps import CallStep, LoopStep, UnlessSameStep
from functad.records import NamedTuple

Launcher = Callable[..., Launch | LibraryProduct]


def device_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype under which kernels take arrays: floats of 16 bits come as their patterns."""
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype


class LaunchRow:
    """Instructions that are started one after the other, with nothing between them.

    storages: whose addresses the launches are given.
    """

    def __init__(
        self,
        device: CudaDevice,
        name: str,
        instructions: Sequence[Instruction],
        launcher: Callable[[Instruction], Launcher],
    ) -> None:
        self.instructions = instructions
        self._slots: dict[Storage, int] = {}
        self.launches = [launcher(i)(*[self._place(b, first) for b, first in i.arguments]) for i in instructions]
        self.storages = tuple(self._slots)
        self._prepared = device.driver.prepare(name, self.launches)

    def _place(self, buffer: Buffer, first: int) -> ArrayPlace:
        slot = self._slots.setdefault(buffer.storage.memory, len(self._slots))
        dtype = device_dtype(buffer.dtype)
        return ArrayPlace(slot, first * dtype.itemsize, dtype, max(buffer.size - first, 0))

    def start(self, addresses: tuple[int, ...], recorded: bool = False) -> None:
        """Start all launches; recorded: as parts of the graph that the driver records."""
        self._prepared.start(addresses, recorded)

    def profiled(self, addresses: tuple[int, ...], times: int) -> list[float]:
        """The least time in µs of each launch, of so many."""
        return self._prepared.profiled(addresses, times)


class Recorded(NamedTuple):
    """A graph, and where pointers are behind it: of each the storage in whose memory it points, and how far in."""

    graph: int
    moves: tuple[tuple[Storage, Storage, int], ...]


class Stretch:
    """Launches, and loops of known length of launches, where nothing is asked of Python: one graph if they come again.

    items: rows, and plans of such loops. launches: how many they are, with all steps of loops.

    They are held for one thread at a time only while they are started: calls of Python stand between stretches, and
    may call the same function.
    """

    def __init__(self, device: CudaDevice, name: str, items: Sequence[LaunchRow | ControlPlan]) -> None:
        self._device = device
        self._name = name
        self.items = list(items)
        self.launches = launches_of(items)
        self._storages = tuple(dict.fromkeys(_storages_of(items)))
        self.graphs: OrderedDict[tuple[int, ...], Recorded | None] = OrderedDict()
        self._lock = threading.Lock()  # the arguments of launches have one place

    def __del__(self) -> None:
        for recorded in self.graphs.values():
            if recorded is not None:
                self._device.driver.forget(recorded.graph)

    def start(self, run: DeviceRun) -> None:
        """Start all launches; where they come with the same addresses again, as one graph."""
        if self.launches < machine_model.CUDA_GRAPH_LAUNCHES:
            with self._lock:
                run.run(self.items)
            return
        addresses = run.addresses(self._storages)
        with self._lock:
            recorded = self.graphs.get(addresses)
            if recorded is None and addresses in self.graphs:
                recorded = self._record(run)
            elif recorded is None:
                run.run(self.items)
            else:
                run.follow(recorded.moves)
            if recorded is not None:
                self._device.driver.replay(self._name, recorded.graph)
            self.graphs[addresses] = recorded
            self.graphs.move_to_end(addresses)
            if len(self.graphs) > machine_model.CUDA_GRAPHS:
                _, old = self.graphs.popitem(last=False)
                if old is not None:
                    self._device.driver.forget(old.graph)

    def _record(self, run: DeviceRun) -> Recorded:
        before = dict(run.places)
        graph = self._device.driver.captured(partial(run.run_recorded, self.items))
        owner = {id(place.memory): storage for storage, place in before.items()}
        moves = [(s, owner[id(p.memory)], p.offset) for s, p in run.places.items() if before.get(s) != p]
        return Recorded(graph, tuple(moves))


def launches_of(items: Sequence[LaunchRow | Instruction | ControlPlan]) -> int:
    """How many launches the items are, each step of a loop counted; more than a graph takes where only a run tells."""
    return sum(_launches(item) for item in items)


def _launches(item: LaunchRow | Instruction | ControlPlan) -> int:
    if isinstance(item, LaunchRow):
        return len(item.launches)
    if isinstance(item, Instruction):
        return _UNKNOWN
    step, parts = item.step, [launches_of(part) for part in item.parts]
    if isinstance(step, UnlessSameStep):
        return sum(parts)
    if not isinstance(step, LoopStep) or step.length is None or step.predicate is not None or step.stacks:
        return _UNKNOWN
    condition, body, after = parts
    return step.length * max(body, 1) + after


_UNKNOWN = sys.maxsize


def _storages_of(items: Sequence[LaunchRow | ControlPlan]) -> Iterator[Storage]:
    """All that decides where launches find their arguments."""
    for item in items:
        if isinstance(item, LaunchRow):
            yield from item.storages
            continue
        step = item.step
        if isinstance(step, LoopStep):
            yield from (move.source.memory for move in (*step.starts, *step.moves))
        elif isinstance(step, UnlessSameStep):
            yield from (step.one.memory, step.other.memory)
        for part in item.parts:
            yield from _storages_of(part)


def in_stretches(
    items: Sequence[Instruction | ControlPlan],
    row: Callable[[Sequence[Instruction]], LaunchRow],
    stretch: Callable[[Sequence[LaunchRow | ControlPlan]], Stretch],
) -> list[Stretch | Instruction | ControlPlan]:
    """A plan in which what needs nothing of Python is in stretches; what stands in them is in rows."""
    return _grouped(_in_rows(items, row), stretch)


def _grouped(
    items: Sequence[LaunchRow | Instruction | ControlPlan],
    stretch: Callable[[Sequence[LaunchRow | ControlPlan]], Stretch],
) -> list[Stretch | Instruction | ControlPlan]:
    found: list[Stretch | Instruction | ControlPlan] = []
    waiting: list[LaunchRow | ControlPlan] = []

    def end() -> None:
        if waiting:
            found.append(stretch(list(waiting)))
            waiting.clear()

    for item in items:
        if isinstance(item, Instruction) or launches_of([*waiting, item]) > machine_model.CUDA_GRAPH_NODES:
            end()
        if isinstance(item, Instruction):
            found.append(item)
        elif isinstance(item, LaunchRow) or launches_of([item]) <= machine_model.CUDA_GRAPH_NODES:
            waiting.append(item)
        else:
            found.append(ControlPlan(item.step, [_grouped(part, stretch) for part in item.parts]))
    end()
    return found


def _in_rows(
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
            found.append(ControlPlan(item.step, [_in_rows(part, row) for part in item.parts]))
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
        self._recorded = False

    def run_leaf(self, item: Stretch | LaunchRow | Instruction) -> None:
        if isinstance(item, Stretch):
            item.start(self)
        elif isinstance(item, LaunchRow):
            item.start(self.addresses(item.storages), self._recorded)
        elif isinstance(item.step, CallStep):
            self._call(item.step)

    def run_recorded(self, items: Sequence[LaunchRow | ControlPlan]) -> None:
        """Let launches be parts of the graph that the driver records."""
        self._recorded = True
        try:
            self.run(items)
        finally:
            self._recorded = False

    def follow(self, moves: Sequence[tuple[Storage, Storage, int]]) -> None:
        """Let pointers be where a stretch leaves them."""
        places = self.places
        self.places |= {pointer: Address(places[source].memory, offset) for pointer, source, offset in moves}

    def addresses(self, storages: Sequence[Storage]) -> tuple[int, ...]:
        places = self.places
        return tuple([_address(places[s]) if s in places else 0 for s in storages])  # what is empty has no place

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
