"""The CUDA backend: `compile_program(program) -> executable`, on arrays that lie on a device or are copied there.

Knows where the memory of a call comes from and in which order kernels are started; `lowering` writes them, a driver
starts them.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cpu.compile.objects import keep_source
from functad.backends.cpu.runtime.plain import load_source
from functad.backends.cuda.device import CudaDevice, devices
from functad.backends.cuda.launching import ArrayPlace, Kernel, Launch
from functad.backends.cuda.lowering import THREADS, CudaLowering, check_operations
from functad.backends.cuda.memory import DeviceMemory, described
from functad.backends.cuda.pool import PoolBlock
from functad.backends.cuda.products import product_kernel, product_launcher
from functad.backends.cuda.scalars import SIMULATED
from functad.dtypes import is_narrow_float
from functad.ir import Program
from functad.lowering.blocks import Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.steps import GemmStep

MOST_BLOCKS = 2 if SIMULATED else machine_model.CUDA_MOST_BLOCKS
TILE = 2 if SIMULATED else machine_model.CUDA_TILE

CallValue = np.ndarray | DeviceMemory


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> CudaExecutable:
    """The executable of a Program.

    Raises:
        DeviceError: there is neither a GPU that can be used nor the simulator.
        NoRuleError: the Program has an operation that this backend does not have yet.
    """
    devices()
    program = optimized(program)
    check_operations(program)
    return CudaExecutable(program, donated)


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
        self._lock = threading.Lock()  # the arguments of launches have one place
        self._slots: dict[Storage, int] = {}
        self.instructions = [i for i in executable.generated.instructions if i.n]
        self.launches = self._launches()
        self._run = device.driver.prepare(self._name, self.launches)
        schedule = executable.schedule
        self._constants = [device.put(np.asarray(value), f"a constant of {self._name}") for value in schedule.values]
        self._graphs: OrderedDict[tuple[int, ...], int | None] = OrderedDict()
        self._replays = len(self.launches) >= machine_model.CUDA_GRAPH_LAUNCHES

    def run(self, args: Sequence[CallValue]) -> list[DeviceMemory]:
        blocks, arena = self._memory(args)
        with self._lock:
            self._start(self._addresses(blocks, arena))
        return self._results(blocks)

    def _start(self, addresses: tuple[int, ...]) -> None:
        """Start all launches; where they come with the same addresses again, as one graph."""
        if not self._replays:
            self._run.start(addresses)
            return
        seen = addresses in self._graphs
        graph = self._graphs.get(addresses)
        if graph is not None:
            self._graphs.move_to_end(addresses)
            self._run.replay(graph)
            return
        if seen:
            graph = self._run.graph(addresses)
            self._run.replay(graph)
        else:
            self._run.start(addresses)
        self._graphs[addresses] = graph
        if len(self._graphs) > machine_model.CUDA_GRAPHS:
            _, old = self._graphs.popitem(last=False)
            if old is not None:
                self._device.driver.forget(old)

    # --- memory -----------------------------------------------------------------------------------------

    def _memory(self, args: Sequence[CallValue]) -> tuple[dict[Storage, PoolBlock], PoolBlock]:
        """The memory of inputs, constants and results, and that of temporaries."""
        schedule, device = self._executable.schedule, self._device
        blocks: dict[Storage, PoolBlock] = {}
        for buffer, value in zip(schedule.inputs, args):
            held = value if isinstance(value, DeviceMemory) else device.put(value, f"an argument of {self._name}")
            blocks[buffer.storage] = held.block
        for buffer, constant in zip(schedule.constants, self._constants):
            blocks[buffer.storage] = constant.block
        for buffer in schedule.outputs:
            storage = buffer.storage
            if storage not in blocks:
                what = described(buffer.shape, buffer.dtype)
                blocks[storage] = device.pool.take(storage.nbytes, what, f"a result of {self._name}")
        nbytes = self._executable.memory_plan.arena_bytes
        return blocks, device.pool.take(nbytes, "temporaries", f"of {self._name}")

    def _addresses(self, blocks: Mapping[Storage, PoolBlock], arena: PoolBlock) -> tuple[int, ...]:
        """Where the memory of each slot begins."""
        offsets = self._executable.memory_plan.offsets
        return tuple([blocks[s].address if s in blocks else arena.address + offsets[s] for s in self._slots])

    def _results(self, blocks: Mapping[Storage, PoolBlock]) -> list[DeviceMemory]:
        results: list[DeviceMemory] = []
        taken: set[Storage] = set()
        for buffer in self._executable.schedule.outputs:
            result = DeviceMemory(self._device, blocks[buffer.storage], buffer.shape, buffer.dtype)
            results.append(result.copy() if buffer.storage in taken else result)  # each has memory of its own
            taken.add(buffer.storage)
        return results

    # --- launches ---------------------------------------------------------------------------------------

    def _launches(self) -> list[Launch]:
        generated = self._executable.generated
        functions = load_source(generated.source, str(keep_source(generated.source)))
        kernels = {name: Kernel(name, functions[name]) for name in generated.kernels}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns of small grids: some arrays are small
            return [self._launch(i, kernels) for i in self.instructions]

    def _launch(self, instruction: Instruction, kernels: Mapping[str, Kernel]) -> Launch:
        step = instruction.step
        places = [self._place(buffer) for _, buffer, _ in instruction.parameters]
        if isinstance(step, GemmStep):
            launcher: Callable[..., Any] = product_launcher(_product(step.a.dtype), step, TILE, MOST_BLOCKS)
        else:
            text = self._executable.generated.kernels[instruction.function]
            blocks = text.work if text.by_block else -(-text.work // THREADS)
            launcher = kernels[instruction.function][min(blocks, MOST_BLOCKS), THREADS]
        launch: Launch = launcher(*places)
        return launch

    def _place(self, buffer: Buffer) -> ArrayPlace:
        slot = self._slots.setdefault(buffer.storage.memory, len(self._slots))
        return ArrayPlace(slot, 0, _device_dtype(buffer.dtype), buffer.size)

    # --- looking at it ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[CallValue]) -> report.Profile:
        blocks, arena = self._memory(args)
        addresses = self._addresses(blocks, arena)
        with self._lock:
            times = self._run.profiled(addresses, _TIMES)
            step = self._run.whole(addresses, _TIMES)
        speed = self._device.copy_speed()
        found = [report.KernelTime(report.label(i), time, i.bytes / speed) for i, time in zip(self.instructions, times)]
        return report.Profile(tuple(found), step)

    def ptx(self) -> dict[str, str]:
        return {launch.kernel.name: self._device.driver.ptx(launch) for launch in self.launches}


_TIMES = 20


def _device_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype  # kernels take floats of 16 bits as patterns


def _product(dtype: np.dtype) -> Kernel:
    if dtype not in _products:
        _products[dtype] = Kernel("product", product_kernel(dtype, TILE))
    return _products[dtype]


_products: dict[np.dtype, Kernel] = {}
