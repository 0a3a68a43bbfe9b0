"""The CUDA backend: `compile_program(program) -> executable`, on arrays that lie on a device or are copied there.

Knows where the memory of a call comes from and in which order kernels are started; `lowering` writes them, a driver
starts them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cpu.compile.objects import keep_source
from functad.backends.cpu.runtime.plain import load_source
from functad.backends.cuda.device import CudaDevice, devices
from functad.backends.cuda.launching import ArrayPlace, Kernel, Launch
from functad.backends.cuda.lowering import THREADS, TILE, CudaLowering
from functad.backends.cuda.memory import DeviceMemory, described
from functad.backends.cuda.pool import PoolBlock
from functad.backends.cuda.products import product_kernel, product_launcher
from functad.backends.cuda.running import DeviceRun, Stretch, stretches_of
from functad.backends.cuda.scalars import SIMULATED
from functad.backends.walking import Address
from functad.ir import Program
from functad.lowering.blocks import Instruction, leaves, repeated
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.steps import ConvolutionStep, GemmStep

MOST_BLOCKS = 2 if SIMULATED else machine_model.CUDA_MOST_BLOCKS

CallValue = np.ndarray | DeviceMemory


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> CudaExecutable:
    """The executable of a Program.

    Raises:
        DeviceError: there is neither a GPU that can be used nor the simulator.
    """
    devices()
    return CudaExecutable(optimized(program), donated)


class CudaExecutable(CudaLowering):
    """A compiled Program. On which device it runs, each call says.

    Called with ndarrays, it copies them to the first device, and results back; `on_device` takes and gives arrays that
    lie on one.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        super().__init__(program, donated)
        self.donated = tuple(donated) or (False,) * len(self.program.invars)
        self._placed: dict[int, _OnDevice] = {}
        self._lock = threading.Lock()

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(result.host()) for result in self.on_device(args, devices()[0])]

    def on_device(self, args: Sequence[CallValue], device: CudaDevice) -> list[DeviceMemory]:
        """The results, on the device. Arguments that lie in the host's memory are copied there.

        Those marked as donated belong to the results afterwards, so nobody else may hold their memory.
        """
        return self._on(device).run(args)

    def profile_on(self, args: Sequence[CallValue], device: CudaDevice) -> report.Profile:
        """The least time of each kernel, by events of the device, beside what its bytes take at least."""
        return self._on(device).profile(args)

    def ptx(self, device: CudaDevice) -> dict[str, str]:
        """The PTX of each kernel for a device, by name."""
        return self._on(device).ptx()

    def _on(self, device: CudaDevice) -> _OnDevice:
        with self._lock:
            if device.id not in self._placed:
                self._placed[device.id] = _OnDevice(self, device)
            return self._placed[device.id]


class _OnDevice:
    """An executable on one device: its constants lie there, and its launches are ready."""

    def __init__(self, executable: CudaExecutable, device: CudaDevice) -> None:
        self._executable = executable
        self._device = device
        self._name = executable.program.name or "a function"
        self._lock = threading.RLock()  # the arguments of launches have one place; what Python computes may call again
        generated = executable.generated
        functions = load_source(generated.source, str(keep_source(generated.source)))
        self._kernels = {name: Kernel(name, functions[name]) for name in generated.kernels}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns of small grids: some arrays are small
            self._items = stretches_of(self._name, device, generated.instructions, self._launch)
        schedule = executable.schedule
        self._constants = [device.put(np.asarray(value), f"a constant of {self._name}") for value in schedule.values]

    def run(self, args: Sequence[CallValue]) -> list[DeviceMemory]:
        blocks, run = self._memory(args)
        with self._lock:
            run.run(self._items)
        return self._results(blocks)

    # --- memory -----------------------------------------------------------------------------------------

    def _memory(self, args: Sequence[CallValue]) -> tuple[dict[Storage, PoolBlock], DeviceRun]:
        """The memory of inputs, constants and results, and a call that has it, and memory for temporaries."""
        executable, device = self._executable, self._device
        schedule = executable.schedule
        blocks: dict[Storage, PoolBlock] = {}
        for buffer, value in zip(schedule.inputs, args):
            held = value if isinstance(value, DeviceMemory) else device.put(value, f"an argument of {self._name}")
            blocks[buffer.storage] = held.block
        for buffer, constant in zip(schedule.constants, self._constants):
            blocks[buffer.storage] = constant.block
        for buffer in schedule.outputs:
            storage = buffer.storage.memory
            if storage not in blocks:
                what = described(buffer.shape, buffer.dtype)
                blocks[storage] = device.pool.take(storage.nbytes, what, f"a result of {self._name}")
        run, plan = DeviceRun(device, self._name), executable.memory_plan
        arena = device.pool.take(plan.arena_bytes, "temporaries", f"of {self._name}")
        run.places.update((storage, Address(block)) for storage, block in blocks.items())
        run.places.update((storage, Address(arena, offset)) for storage, offset in plan.offsets.items())
        return blocks, run

    def _results(self, blocks: Mapping[Storage, PoolBlock]) -> list[DeviceMemory]:
        results: list[DeviceMemory] = []
        taken: set[Storage] = set()
        for buffer in self._executable.schedule.outputs:
            storage = buffer.storage.memory
            result = DeviceMemory(self._device, blocks[storage], buffer.shape, buffer.dtype)
            results.append(result.copy() if storage in taken else result)  # each has memory of its own
            taken.add(storage)
        return results

    # --- launches ---------------------------------------------------------------------------------------

    def _launch(self, instruction: Instruction, place: Callable[[Buffer, int], ArrayPlace]) -> Launch:
        step = instruction.step
        places = [place(buffer, first) for buffer, first in instruction.arguments]
        if isinstance(step, GemmStep):
            launcher: Callable[..., Any] = product_launcher(_product(step.a.dtype), step, TILE, MOST_BLOCKS)
        else:
            mapping = self._executable.generated.kernels[instruction.function].mapping
            blocks = mapping.work if mapping.by_block else -(-mapping.work // THREADS)
            threads = TILE * TILE if isinstance(step, ConvolutionStep) else THREADS
            launcher = self._kernels[instruction.function][min(blocks, MOST_BLOCKS), threads]
        launch: Launch = launcher(*places)
        return launch

    # --- looking at it ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[CallValue]) -> report.Profile:
        _, run = self._memory(args)
        with self._lock:
            run.run(self._items)
            step = self._device.driver.least_time(lambda: self._memory(args)[1].run(self._items), _TIMES)
            measured = {s: s.profiled(addresses, _TIMES) for s, addresses in run.seen.items()}
        speed = self._device.copy_speed()
        found = [
            report.KernelTime(report.label(i, times), times * time, times * i.bytes / speed)
            for stretch, times in repeated(self._items)
            if stretch in measured
            for i, time in zip(stretch.instructions, measured[stretch])
        ]
        return report.Profile(tuple(found), step)

    @property
    def launches(self) -> list[Launch]:
        """All launches, those of loops and branches included."""
        return [launch for stretch in self.stretches for launch in stretch.launches]

    @property
    def stretches(self) -> list[Stretch]:
        return [item for item in leaves(self._items) if isinstance(item, Stretch)]

    def ptx(self) -> dict[str, str]:
        return {launch.kernel.name: self._device.driver.ptx(launch) for launch in self.launches}


_TIMES = 20


def _product(dtype: np.dtype) -> Kernel:
    if dtype not in _products:
        _products[dtype] = Kernel("product", product_kernel(dtype, TILE))
    return _products[dtype]


_products: dict[np.dtype, Kernel] = {}
