"""How a plan runs on a device: launches, and loops of known length, are one graph; Python goes through other loops.

Knows memory as pieces of a device's pool, and what is read back of it; neither how kernels are compiled nor written.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cuda.runtime.dependencies import Access, Order, dependencies_of
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.driver_library import in_the_midst
from functad.backends.cuda.runtime.launching import Launch, LaunchNode, LibraryProduct
from functad.backends.cuda.runtime.pool import PoolBlock
from functad.backends.walking import Address, Walker
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import ControlPlan, Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.python_functions import call_into
from functad.lowering.steps import CallStep, LoopStep, UnlessSameStep


def device_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype under which kernels take arrays: floats of 16 bits come as their patterns."""
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype


class Base:
    """Memory of which a call tells where it begins: an argument, a result, the arena, or what a pointer points to.

    number: among the pieces of memory of a call. address: of a constant, which lies at one place. pointer: what points
    there when a stretch begins.
    """

    __slots__ = ("address", "number", "pointer")

    def __init__(self, number: int = -1, address: int | None = None, pointer: Storage | None = None) -> None:
        self.number = number
        self.address = address
        self.pointer = pointer


CallLayout = Mapping[Storage, Address]  # addresses of which the memory is a `Base`
LaunchOf = Callable[[Instruction], Launch | LibraryProduct]


def memories_of(instruction: Instruction) -> list[Storage]:
    """The memories of its launch, by their slots."""
    return list(dict.fromkeys(buffer.storage.memory for buffer, _ in instruction.arguments))


class StretchWalker(Walker):
    """Goes through a stretch once for all calls, and writes down its launches, with where their memories lie.

    found: of each launch its instruction, and the addresses of its memories.
    """

    def __init__(self, layout: CallLayout, launch_of: LaunchOf) -> None:
        super().__init__()
        self._launch_of = launch_of
        self.places = _Found(layout)
        self.found: list[tuple[Instruction, list[Address]]] = []

    def run_leaf(self, item: Instruction) -> None:
        if item.n:
            self.found.append((item, [self.places[storage] for storage in memories_of(item)]))

    def nodes(self, bases: Sequence[Base]) -> list[LaunchNode]:
        """The launches, each with those for which it must wait; bases: all that are not constants."""
        numbers = {base: number for number, base in enumerate(bases)}
        launches = [self._launch_of(instruction) for instruction, _ in self.found]
        orders = self._orders(launches, bases)
        return [
            LaunchNode(launch, tuple([_from_base(place, numbers) for place in places]), order.after, order.lane)
            for launch, (_, places), order in zip(launches, self.found, orders)
        ]

    def _orders(self, launches: Sequence[Launch | LibraryProduct], bases: Sequence[Base]) -> list[Order]:
        if not machine_model.CUDA_BRANCHES or any(base.pointer for base in bases):  # which may point anywhere
            return [Order((number - 1,) if number else (), 0) for number in range(len(launches))]
        accesses = [list(self._accesses(instruction, places)) for instruction, places in self.found]
        by_library = [isinstance(launch, LibraryProduct) for launch in launches]
        return dependencies_of(accesses, by_library, machine_model.CUDA_LANES)

    def _accesses(self, instruction: Instruction, places: Sequence[Address]) -> Iterator[Access]:
        at = dict(zip(memories_of(instruction), places))
        for _, buffer, mode in instruction.parameters:
            base, start = at[buffer.storage.memory]
            yield Access(base, start, start + buffer.nbytes, mode != "r")


class _Found(dict[Storage, Address]):
    """Places, with those of pointers that are asked for before they are set."""

    def __missing__(self, storage: Storage) -> Address:
        self[storage] = Address(Base(pointer=storage)) if storage.nbytes else Address(_NOWHERE)
        return self[storage]


_NOWHERE = Base(address=0)  # where what is empty lies


def _from_base(place: Address, numbers: Mapping[Base, int]) -> tuple[int | None, int]:
    base, offset = place
    return (numbers[base], offset) if base.address is None else (None, base.address + offset)


class Stretch:
    """Launches, and loops of known length of launches, where nothing is asked of Python: one graph if they come again.

    instructions: of each launch, with all steps of loops. nodes: the launches. bases: the memories of which each call
    tells where they begin. moves: where pointers are behind it.

    It is held for one thread at a time only while it is started: calls of Python stand between stretches, and may call
    the same function. Where memory lies elsewhere than before, the nodes of a graph that use it are changed.
    """

    def __init__(
        self,
        device: CudaDevice,
        name: str,
        layout: CallLayout,
        launch_of: LaunchOf,
        items: Sequence[Instruction | ControlPlan],
    ) -> None:
        self._device = device
        self._name = name
        self._graphs: dict[tuple[int, ...], Any] = {}  # by the addresses of bases
        self._latest: tuple[int, ...] = ()
        tape = StretchWalker(layout, launch_of)
        tape.run(items)
        self.is_row = all(isinstance(item, Instruction) for item in items)
        self.instructions = [instruction for instruction, _ in tape.found]
        used = dict.fromkeys(base for _, places in tape.found for base, _ in places)
        self.bases = [base for base in used if base.address is None]
        self.nodes = tape.nodes(self.bases)
        self.moves = [(s, place) for s, place in tape.places.items() if _is_moved(s, place, layout)]
        self.prepared = device.driver.prepare(name, self.nodes)
        self._users = [0] * len(self.bases)  # of each base: the bits of the launches that use it
        for number, node in enumerate(self.nodes):
            for base in {base for base, _ in node.places if base is not None}:
                self._users[base] |= 1 << number
        self._spent: dict[tuple[int, ...], int] = {}  # on changes for bases that have no graph
        product = machine_model.CUDA_PRODUCT_CHANGE
        self._change_costs = [product if isinstance(n.launch, LibraryProduct) else 1 for n in self.nodes]
        self._lock: Any = threading.RLock()  # the arguments of launches have one place
        self._replay = device.driver.replay

    def __del__(self) -> None:
        for graph in self._graphs.values():
            self._device.driver.forget(graph)

    def start(self, bases: tuple[int, ...]) -> None:
        """Start all launches; where they come again, as one graph. bases: where the memories begin."""
        with self.alone():
            graph = self._graphs.get(bases)
            if graph is None:
                graph = self._graph_for(bases)
                if graph is None:
                    self.prepared.start(bases)
                    return
                self._graphs[bases] = graph
            self._latest = bases
            self._replay(self._name, graph)

    def alone(self) -> AbstractContextManager[Any]:
        """A lock: while this thread has it, `prepared` and all graphs are its own.

        Raises:
            DeviceError: this thread is in the midst of it.
        """
        if self._lock._is_owned():
            raise in_the_midst(f"kernels of {self._name} are started")
        return self._lock

    def changed_in_place(self, number: int, bases: Sequence[int]) -> list[tuple[int, Buffer]]:
        """What a launch both reads and writes to: where it lies in a call, and what it is."""
        node, instruction = self.nodes[number], self.instructions[number]
        slots = {storage: slot for slot, storage in enumerate(memories_of(instruction))}
        changed = [buffer for _, buffer, mode in instruction.parameters if mode == "rw" and buffer.size]
        return [(node.begin(slots[buffer.storage.memory], bases), buffer) for buffer in changed]

    def _graph_for(self, bases: tuple[int, ...]) -> Any:
        """A graph for bases that have none; None at the first call, which may be the only one, or if all is waited for.

        It is the graph that differs in the fewest launches, changed, until the changes for these bases have cost what a
        graph of their own does.
        """
        if self._device.driver.waits:
            return None
        spent = self._spent.pop(bases, None)
        if not self._graphs:
            is_first = not self._spent and spent is None
            self._spent[bases] = 0
            return None if is_first else self.prepared.record(bases)
        known, users = self._nearest(bases)
        cost = (spent or 0) + sum(self._change_costs[n] for n in users)
        if spent is None or cost < max(machine_model.CUDA_CHANGES, len(self.nodes)):
            self._spent[bases] = cost
            if len(self._spent) > machine_model.CUDA_GRAPHS:
                del self._spent[next(iter(self._spent))]
            graph, is_changed = self._graphs.pop(known), False
            try:
                is_changed = self.prepared.change(graph, users, bases)
            finally:
                if not is_changed:
                    self._device.driver.forget(graph)
            if is_changed:
                return graph
        elif len(self._graphs) >= machine_model.CUDA_GRAPHS:
            self._device.driver.forget(self._graphs.pop(next(iter(self._graphs))))  # the oldest
        return self.prepared.record(bases)

    def _nearest(self, bases: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
        """The bases of the graph that differs in the fewest launches, and these; of equal ones the latest."""
        order = [self._latest] if self._latest in self._graphs else []
        found = [(known, self._users_of_changed(known, bases)) for known in dict.fromkeys([*order, *self._graphs])]
        nearest, users = min(found, key=lambda each: each[1].bit_count())
        return nearest, [number for number, bit in enumerate(f"{users:b}"[::-1]) if bit == "1"]

    def _users_of_changed(self, known: tuple[int, ...], bases: tuple[int, ...]) -> int:
        """The bits of the launches that use memory which lies at other addresses."""
        found = 0
        for users, one, other in zip(self._users, known, bases):
            if one != other:
                found |= users
        return found


def _is_moved(storage: Storage, place: Address, layout: CallLayout) -> bool:
    base, offset = place
    return not (
        base is _NOWHERE or storage in layout and layout[storage] == place or base.pointer is storage and not offset
    )


def launches_of(
    items: Sequence[Instruction | ControlPlan], weigh: Callable[[Instruction], int] = lambda instruction: 1
) -> int:
    """How many launches the items are, each step of a loop counted; more than a graph takes where only a run tells.

    weigh: as how many each counts.
    """
    return sum(_launches(item, weigh) for item in items)


def _launches(item: Instruction | ControlPlan, weigh: Callable[[Instruction], int]) -> int:
    if isinstance(item, Instruction):
        return _UNKNOWN if isinstance(item.step, CallStep) else weigh(item) if item.n else 0
    step, parts = item.step, [launches_of(part, weigh) for part in item.parts]
    if isinstance(step, UnlessSameStep):
        return max(sum(parts), 1)
    if not isinstance(step, LoopStep) or step.length is None or step.predicate is not None or step.stacks:
        return _UNKNOWN
    condition, body, after = parts
    return step.length * max(body, 1) + max(after, 1)


_UNKNOWN = sys.maxsize


def in_stretches(
    items: Sequence[Instruction | ControlPlan], stretch: Callable[[Sequence[Instruction | ControlPlan]], Stretch]
) -> list[Stretch | Instruction | ControlPlan]:
    """A plan in which what needs nothing of Python is in stretches."""
    found: list[Stretch | Instruction | ControlPlan] = []
    waiting: list[Instruction | ControlPlan] = []

    def end() -> None:
        if waiting:
            found.append(stretch(list(waiting)))
            waiting.clear()

    for item in items:
        count = launches_of([item])
        if launches_of(waiting) + count > machine_model.CUDA_GRAPH_NODES:
            end()
        if count <= machine_model.CUDA_GRAPH_NODES:
            waiting.extend([item] if count else [])
        elif isinstance(item, ControlPlan):
            found.append(ControlPlan(item.step, [in_stretches(part, stretch) for part in item.parts]))
        else:
            found.append(item)
    end()
    return found


class DeviceRun(Walker):
    """One call of a Program. Memory is pieces of the device's pool; what Python needs to know is read back.

    blocks: the pieces of memory that the call has, in which the layout says where storages lie.
    """

    def __init__(self, device: CudaDevice, name: str, blocks: Sequence[PoolBlock], layout: CallLayout) -> None:
        super().__init__()
        self._device = device
        self._name = name
        self._blocks = blocks
        self.places.update([(storage, self._place(place)) for storage, place in layout.items()])

    def _place(self, place: Address) -> Address:
        """Where it is in this call."""
        base, offset = place
        if base.pointer is None:
            return Address(self._blocks[base.number], offset)
        begin = self.places.get(base.pointer, Address(None))
        return Address(begin.memory, begin.offset + offset)

    def run_leaf(self, item: Stretch | Instruction) -> None:
        if isinstance(item, Stretch):
            item.start(tuple([_address(self._place(Address(base))) for base in item.bases]))
            self.places.update([(storage, self._place(place)) for storage, place in item.moves])
        elif isinstance(item.step, CallStep):
            self._call(item.step)

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
