"""What a driver does, in Numba's simulator of GPUs: memory is the host's, and kernels are run when they are started.

Knows the simulator; nothing of Programs. It stands for `driver.CudaDriver`, and cannot be imported without a simulator.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from functad.backends.cuda.driver import DeviceFacts
from functad.backends.cuda.launching import ArrayPlace, Launch
from functad.backends.cuda.pool import NoMemoryError
from functad.backends.cuda.simulator import simulation
from functad.errors import CompilationError

MEMORY = 1 << 27  # bytes of a simulated device
DEVICES = 2


class SimulatedDriver:
    """A simulated GPU. Calls return when they are done; what they take and give is as for `CudaDriver`."""

    is_simulated = True
    stream = 0
    blas = None

    def __init__(self, number: int) -> None:
        self._number = number
        self._memory: dict[int, np.ndarray] = {}
        self._lock = threading.Lock()
        self._used = 0
        self._graphs: list[list[tuple[SimulatedRun, list[int]]]] = []
        self.recording: list[tuple[SimulatedRun, list[int]]] = []

    def facts(self) -> DeviceFacts:
        return DeviceFacts("Numba's simulator", (0, 0), 1, 48 << 10, 1024)

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

    def copy(self, target: int, source: int, nbytes: int) -> None:
        ctypes.memmove(target, source, nbytes)

    def owns(self, address: int) -> bool:
        return any(a <= address < a + piece.nbytes for a, piece in self._memory.items())

    def prepare(self, name: str, launches: Sequence[Launch]) -> SimulatedRun:
        return SimulatedRun(self, launches)

    def ptx(self, launch: Launch) -> str:
        raise CompilationError(
            "Numba's simulator runs kernels as Python, so they have no PTX: ask without NUMBA_ENABLE_CUDASIM"
        )

    def least_time(self, action: Callable[[], None], times: int) -> float:
        """No time means anything here."""
        action()
        return float("nan")

    def synchronize(self) -> None:
        pass

    synchronize_all = synchronize

    def wait_for(self, stream: int) -> None:
        pass

    let_wait = wait_for

    def captured(self, action: Callable[[], None]) -> int:
        """A graph of what an action starts as parts of it."""
        self.recording = []
        action()
        self._graphs.append(self.recording)
        return len(self._graphs) - 1

    def replay(self, what: str, graph: int) -> None:
        for run, addresses in self._graphs[graph]:
            run.start(addresses)

    def forget(self, graph: int) -> None:
        self._graphs[graph] = []


_ALIGNED = 256  # bytes, to which the driver aligns memory


class SimulatedRun:
    """Launches ready to be started on a simulated GPU."""

    def __init__(self, driver: SimulatedDriver, launches: Sequence[Launch]) -> None:
        self._driver = driver
        self._launches = launches
        self._kernels = [_in_simulator(launch.kernel.function) for launch in launches]

    def start(self, addresses: Sequence[int], recorded: bool = False) -> None:
        if recorded:
            self._driver.recording.append((self, list(addresses)))
            return
        with simulation():
            for launch, kernel in zip(self._launches, self._kernels):
                arguments = [_view(a, addresses) if isinstance(a, ArrayPlace) else a for a in launch.arguments]
                kernel[launch.grid, launch.block, None, launch.shared](*arguments)

    def profiled(self, addresses: Sequence[int], times: int) -> list[float]:
        self.start(addresses)
        return [float("nan")] * len(self._launches)


def _in_simulator(function: Any) -> Any:
    return function if hasattr(function, "__getitem__") else import_module("numba.cuda").jit(function)


def _view(place: ArrayPlace, addresses: Sequence[int]) -> Any:
    """The elements of an array that lies in the host's memory, as kernels take them."""
    nbytes = place.size * place.dtype.itemsize
    if not nbytes:
        return _fake_array()(np.empty(0, place.dtype))
    memory: Any = (ctypes.c_char * nbytes).from_address(addresses[place.slot] + place.offset)
    return _fake_array()(np.frombuffer(memory, np.uint8).view(place.dtype))


def _fake_array() -> Any:
    return import_module("numba.cuda.simulator.cudadrv.devicearray").FakeCUDAArray
