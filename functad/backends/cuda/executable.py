"""The CUDA backend: `compile_program(program) -> executable`, on arrays that lie on a device or are copied there.

Knows where the memory of a call comes from, and what starts each instruction; `lowering` writes kernels, `running`
starts them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cpu.compile.objects import keep_source
from functad.backends.cpu.runtime.plain import load_source
from functad.backends.cuda.cublas import takes
from functad.backends.cuda.device import CudaDevice, devices
from functad.backends.cuda.launching import Kernel, Launch
from functad.backends.cuda.lowering import THREADS, TILE, CudaLowering
from functad.backends.cuda.memory import DeviceMemory, described
from functad.backends.cuda.products import library_product, product_kernel, product_launcher
from functad.backends.cuda.running import DeviceRun, Launcher, LaunchRow, Stretch, in_stretches
from functad.backends.cuda.scalars import SIMULATED
from functad.backends.walking import Address
from functad.errors import ArgumentError
from functad.ir import Program
from functad.lowering.blocks import Instruction
from functad.lowering.memory.buffers import Storage
from functad.lowering.steps import ConvolutionStep, GemmStep

BLOCKS_OF_CORE = 2 if SIMULATED else machine_model.CUDA_BLOCKS_OF_CORE

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
        self.donated = tuple(donated) or (False,) * len(program.invars)
        self._placed: dict[int, PlacedExecutable] = {}
        self._lock = threading.Lock()

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(result.host()) for result in self.on_device(args, devices()[0])]

    def on_device(self, args: Sequence[CallValue], device: CudaDevice) -> list[DeviceMemory]:
        """The results, on the device. Arguments that lie in the host's memory are copied there.

        Those marked as donated belong to the results afterwards, so nobody else may hold their memory.
        """
        return self.placed(device).run(args)

    def profile_on(self, args: Sequence[CallValue], device: CudaDevice) -> report.Profile:
        """The least time of each kernel, by events of the device, beside what its bytes take at least."""
        return self.placed(device).profile(args)

    def ptx(self, device: CudaDevice) -> dict[str, str]:
        """The PTX of each kernel for a device, by name."""
        found = [launch for row in self.placed(device).rows for launch in row.launches]
        launches = [launch for launch in found if isinstance(launch, Launch)]
        return {launch.kernel.name: device.driver.ptx(launch) for launch in launches}

    def placed(self, device: CudaDevice) -> PlacedExecutable:
        with self._lock:
            if device.id not in self._placed:
                self._placed[device.id] = PlacedExecutable(self, device)
            return self._placed[device.id]


class PlacedExecutable:
    """An executable on one device: its constants lie there, and its launches are ready.

    rows: of launches, in loops and branches, too.
    """

    def __init__(self, executable: CudaExecutable, device: CudaDevice) -> None:
        self._executable = executable
        self._device = device
        self._name = executable.program.name or "a function"
        self.rows: list[LaunchRow] = []
        functions = load_source(executable.generated.source, str(keep_source(executable.generated.source)))
        kernels = {name: Kernel(name, functions[name], executable.fused) for name in executable.generated.kernels}
        stretch = partial(Stretch, device, self._name)
        self._plan = in_stretches(executable.generated.instructions, partial(self._row, kernels), stretch)
        values = [*executable.schedule.values, *(np.zeros(b.shape, b.dtype) for b in executable.generated.tickets)]
        self._constants = [device.put(np.asarray(value), f"a constant of {self._name}") for value in values]
        self._constant_buffers = [*executable.schedule.constants, *executable.generated.tickets]

    def run(self, args: Sequence[CallValue]) -> list[DeviceMemory]:
        run = self._located(args)
        run.run(self._plan)
        results: list[DeviceMemory] = []
        taken: set[Storage] = set()
        for buffer in self._executable.schedule.outputs:
            place = run.places[buffer.storage.memory]
            result = DeviceMemory(self._device, place.memory, buffer.shape, buffer.dtype)
            results.append(result.copy() if buffer.storage in taken else result)  # each has memory of its own
            taken.add(buffer.storage)
        return results

    def _located(self, args: Sequence[CallValue]) -> DeviceRun:
        """A call, whose buffers lie on the device."""
        schedule, memory_plan, device = self._executable.schedule, self._executable.memory_plan, self._device
        run = DeviceRun(device, self._name)
        for buffer, value in zip(schedule.inputs, args):
            held = value if isinstance(value, DeviceMemory) else device.put(value, f"an argument of {self._name}")
            run.places[buffer.storage] = Address(held.block)
        for buffer, constant in zip(self._constant_buffers, self._constants):
            run.places[buffer.storage] = Address(constant.block)
        for buffer in schedule.outputs:
            if buffer.storage.kind == "output" and buffer.storage not in run.places:
                what = described(buffer.shape, buffer.dtype)
                block = device.pool.take(buffer.storage.nbytes, what, f"a result of {self._name}")
                run.places[buffer.storage] = Address(block)
        if memory_plan.arena_bytes:
            arena = device.pool.take(memory_plan.arena_bytes, "temporaries", f"of {self._name}")
            run.places.update((storage, Address(arena, offset)) for storage, offset in memory_plan.offsets.items())
        return run

    # --- launches ---------------------------------------------------------------------------------------

    def _row(self, kernels: Mapping[str, Kernel], instructions: Sequence[Instruction]) -> LaunchRow:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns of small grids: some arrays are small
            row = LaunchRow(self._device, self._name, instructions, partial(self._launcher, kernels))
        self.rows.append(row)
        return row

    def _launcher(self, kernels: Mapping[str, Kernel], instruction: Instruction) -> Launcher:
        """A function of arrays' places that gives the launch of an instruction: as many blocks as have work to do.

        Unless a kernel does one step in each thread, there are no more than the device's multiprocessors take, each
        several times over.
        """
        step, most = instruction.step, self._device.core_count * BLOCKS_OF_CORE
        if isinstance(step, GemmStep):
            if self._executable.by_library and takes(step.a.dtype) and self._device.driver.blas is not None:
                return partial(library_product, step)
            launcher: Any = product_launcher(_product(step.a.dtype), step, TILE, most)
            return launcher
        mapping = self._executable.generated.kernels[instruction.function].mapping
        blocks = mapping.work if mapping.by_block else -(-mapping.work // THREADS)
        kernel, threads = kernels[instruction.function], THREADS
        if isinstance(step, ConvolutionStep):
            kernel, threads = Kernel(kernel.name, kernel.function), TILE * TILE
        return kernel[max(blocks if mapping.one_step else min(blocks, most), 1), threads]

    # --- looking at it ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[CallValue]) -> report.Profile:
        items = [part for item in self._plan for part in (item.items if isinstance(item, Stretch) else [item])]
        if len(items) > 1 or not all(isinstance(item, LaunchRow) for item in items):
            raise ArgumentError(
                "a profile takes kernels that run once, in a row: this function has loops, branches or calls of "
                "Python, so profile what they contain"
            )
        donated = self._executable.donated
        run = self._located([a.copy() if d and isinstance(a, DeviceMemory) else a for a, d in zip(args, donated)])
        run.run(self._plan)  # so that what a kernel reads, such as an index, is what it will be
        speed = self._device.copy_speed()
        found: list[report.KernelTime] = []
        for row in self.rows:
            times = row.profiled(run.addresses(row.storages), machine_model.CUDA_REPEATS)
            found += [report.KernelTime(report.label(i), t, i.bytes / speed) for i, t in zip(row.instructions, times)]
        step = self._device.driver.least_time(lambda: run.run(self._plan), machine_model.CUDA_REPEATS)
        return report.Profile(tuple(found), step)


def _product(dtype: np.dtype) -> Kernel:
    if dtype not in _products:
        _products[dtype] = Kernel("product", product_kernel(dtype, TILE))
    return _products[dtype]


_products: dict[np.dtype, Kernel] = {}
