"""The GPUs of this machine, or those of Numba's simulator, each with its driver and its pool of memory.

Knows which driver there is; no Programs. The driver is started when devices are first asked for.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from functad import machine_model
from functad.backends.cuda.runtime import driver_library
from functad.backends.cuda.runtime.driver import CudaDriver
from functad.backends.cuda.runtime.memory import DeviceMemory, described
from functad.backends.cuda.runtime.pool import MemoryPool
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.device_arrays import gpus
from functad.layouts import Device
from functad.system.once import imported, once


class CudaDevice(Device):
    """A GPU.

    driver: what is asked of it. pool: its memory. compute_capability: such as "9.0".
    """

    backend = "cuda"
    prefix = "cuda"

    def __init__(self, number: int, driver: Any) -> None:
        self.facts = driver.facts()
        super().__init__("gpu", number, self.facts.name)
        self.driver = driver
        self._copy_speed: float | None = None
        self.pool = driver.pool = MemoryPool(driver, str(self), driver.capacity)

    @property
    def compute_capability(self) -> str:
        return "{}.{}".format(*self.facts.capability)

    @property
    def core_count(self) -> int:
        """How many multiprocessors it has."""
        return int(self.facts.multiprocessors)

    def memory_stats(self) -> dict[str, int]:
        """Bytes of functad's arrays on the device, now and at most, and bytes that there are."""
        return self.pool.statistics()

    def put(self, array: np.ndarray, maker: str = "put there") -> DeviceMemory:
        """A copy of a host's array on the device."""
        block = self.pool.take(array.nbytes, described(array.shape, array.dtype), maker)
        flat = np.ascontiguousarray(array)  # after it is known that there is room
        if flat.size:
            self.driver.upload(block.address, flat)
        return DeviceMemory(self, block, array.shape, array.dtype)

    def copy_speed(self) -> float:
        """Bytes in a µs that the device reads and writes in a copy of its own memory; NaN in the simulator."""
        if self._copy_speed is None:
            nbytes = 1 << 16 if self.driver.is_simulated else machine_model.CUDA_COPY_BYTES
            one, other = (self.pool.take(nbytes, "a measurement", "of the copy bandwidth") for _ in range(2))
            time = self.driver.least_time(lambda: self.driver.copy(one.address, other.address, nbytes), 10)
            self._copy_speed = 2 * nbytes / time
        return self._copy_speed

    def synchronize(self) -> None:
        """Wait until all is done that was started on the device."""
        self.driver.synchronize()


def cuda_devices() -> list[CudaDevice]:
    """The GPUs, in the order of their numbers.

    Raises:
        DeviceError: there is none that can be used; it says why, and what to do.
    """
    return cast(list[CudaDevice], gpus or once("GPUs", lambda: gpus or None, _start_gpus))


def _start_gpus() -> list[Device]:
    if SIMULATED:
        simulated = imported("functad.backends.cuda.runtime.simulated_driver")
        found = [CudaDevice(n, simulated.SimulatedDriver(n)) for n in range(simulated.DEVICES)]
    else:
        calls = driver_library.library()
        count = driver_library.start_driver(calls)
        compiler = imported("functad.backends.cuda.compile.compiler")
        found = [CudaDevice(n, CudaDriver(calls, n, compiler)) for n in range(count)]
    gpus[:] = found
    return gpus
