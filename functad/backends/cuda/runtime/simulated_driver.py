"""What a driver does, in Numba's simulator of GPUs: memory is the host's, and kernels are run when they are started.

Knows the simulator; nothing of Programs. It stands for `driver.CudaDriver`, and cannot be imported without a simulator.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from importlib import import_module
from typing import Any

import numpy as np

from functad.backends.cuda.runtime.driver import DeviceFacts
from functad.backends.cuda.runtime.launching import ArrayPlace, Launch, LaunchNode
from functad.backends.cuda.runtime.pool import MemoryPool, NoMemoryError
from functad.backends.cuda.scalars.registry import NO_PTX
from functad.backends.cuda.scalars.simulator import simulation
from functad.errors import CompilationError
from functad.records import NamedTuple

MEMORY = 1 << 27  # bytes of a simulated device
DEVICES = 2


class SimulatedDriver:
    """A simulated GPU. Calls return when they are done; what they take and give is as for `CudaDriver`."""

    is_simulated = True
    waits = False
    stream = 0
    blas = None
    pool: MemoryPool

    def __init__(self, number: int) -> None:
        self._number = number
        self._memory: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()
        self._used = 0
        self.replays = 0

    def facts(self) -> DeviceFacts:
        return DeviceFacts("Numba's simulator", (0, 0), 1)

    def capacity(self) -> tuple[int, int]:
        return MEMORY - self._used, MEMORY

    def allocate(self, nbytes: int) -> int:
        with self._lock:
            if self._used + nbytes > MEMORY:
                raise NoMemoryError
            memory = np.empty(nbytes + _ALIGNED, np.uint8)
            address = -(-memory.ctypes.data // _ALIGNED) * _ALIGNED
            self._memory[address] = memory
            self._used += nbytes
        return address

    def release(self, address: int) -> None:
        with self._lock:
            self._used -= self._memory.pop(address).nbytes - _ALIGNED

    def upload(self, address: int, array: np.ndarray) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array: np.ndarray, address: int) -> None:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        ctypes.memmove(target, source, nbytes)

    def owns(self, address: int) -> bool:
        with self._lock:
            return any(a <= address < a + piece.nbytes for a, piece in self._memory.items())

    def prepare(self, name: str, nodes: Sequence[LaunchNode]) -> SimulatedRun:
        return SimulatedRun(nodes)

    def ptx(self, launch: Launch) -> str:
        raise CompilationError(NO_PTX)

    def least_time(self, action: Callable[[], None], times: int) -> float:
        """No time means anything here."""
        action()
        return float("nan")

    def synchronize(self) -> None:
        pass

    synchronize_all = synchronize

    def is_idle(self) -> bool:
        return True

    def wait_for(self, stream: int) -> None:
        pass

    let_wait = wait_for

    def replay(self, what: str, graph: SimulatedGraph) -> None:
        self.replays += 1
        graph.run.run(graph.bases)

    def forget(self, graph: SimulatedGraph) -> None:
        pass


_ALIGNED = 256  # bytes, to which the driver aligns memory


class SimulatedRun:
    """Launches ready to be started on a simulated GPU: in another order than they were written, which graphs allow."""

    def __init__(self, nodes: Sequence[LaunchNode]) -> None:
        self._nodes = nodes
        self._order = _last_first([node.after for node in nodes])
        launches = {id(node.launch): node.launch for node in nodes if isinstance(node.launch, Launch)}
        jit = import_module("numba.cuda").jit
        self._kernels = {key: jit(launch.kernel.function) for key, launch in launches.items()}

    def start(self, bases: Sequence[int]) -> None:
        self.run([bases] * len(self._nodes))

    def run(self, bases: Sequence[Sequence[int]]) -> None:
        """Run all launches; bases: for each of them the addresses of all memories."""
        for number in self._order:
            self.start_one(number, bases[number])

    def start_one(self, number: int, bases: Sequence[int], stream: int | None = None) -> None:
        node = self._nodes[number]
        launch, kernel = node.launch, self._kernels[id(node.launch)]
        assert isinstance(launch, Launch)
        arguments = [
            _view(a, node.begin(a.slot, bases) + a.offset) if isinstance(a, ArrayPlace) else a for a in launch.arguments
        ]
        with simulation():
            kernel[launch.blocks, launch.threads](*arguments)

    def record(self, bases: Sequence[int]) -> SimulatedGraph:
        return SimulatedGraph(self, [bases] * len(self._nodes))

    def change(self, graph: SimulatedGraph, numbers: Sequence[int], bases: Sequence[int]) -> bool:
        for number in numbers:
            graph.bases[number] = bases
        return True


class SimulatedGraph(NamedTuple):
    """Launches, and for each of them the addresses of all memories."""

    run: SimulatedRun
    bases: list[Sequence[int]]


def _last_first(after: Sequence[Sequence[int]]) -> list[int]:
    """An order in which of all nodes that wait for nothing the last one runs.

    >>> _last_first([(), (0,), (), (1, 2), (2,)])
    [2, 4, 0, 1, 3]
    """
    users: list[list[int]] = [[] for _ in after]
    for number, others in enumerate(after):
        for other in others:
            users[other].append(number)
    waits = [len(others) for others in after]
    ready = [-number for number, count in enumerate(waits) if not count]
    found: list[int] = []
    heapify(ready)
    while ready:
        found.append(-heappop(ready))
        for user in users[found[-1]]:
            waits[user] -= 1
            if not waits[user]:
                heappush(ready, -user)
    return found


def _view(place: ArrayPlace, address: int) -> Any:
    """The elements of an array that lies in the host's memory, as kernels take them."""
    nbytes = place.size * place.dtype.itemsize
    if not nbytes:
        return _fake_array()(np.empty(0, place.dtype))
    memory: Any = (ctypes.c_char * nbytes).from_address(address)
    return _fake_array()(np.frombuffer(memory, np.uint8).view(place.dtype))


def _fake_array() -> Any:
    return import_module("numba.cuda.simulator.cudadrv.devicearray").FakeCUDAArray
