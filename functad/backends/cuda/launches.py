"""The launches of a lowered Program: kernels loaded from their text, with arguments, and as many blocks as have work.

Knows of a device how many multiprocessors it has, and no more: kernels become PTX without one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from functad import machine_model
from functad.backends.cpu.compile.objects import keep_source
from functad.backends.cpu.runtime.plain import load_source
from functad.backends.cuda.lowering import THREADS, CudaLowering
from functad.backends.cuda.products.library import library_product
from functad.backends.cuda.runtime.launching import ArrayPlace, Kernel, Launch, LibraryProduct
from functad.backends.cuda.runtime.running import device_dtype, memories_of
from functad.backends.cuda.scalars.registry import NO_PTX, SIMULATED
from functad.errors import CompilationError
from functad.lowering.blocks import Instruction, leaves
from functad.lowering.steps import CallStep, GemmStep
from functad.system.once import imported

BLOCKS_OF_CORE = 2 if SIMULATED else machine_model.CUDA_BLOCKS_OF_CORE

AnyLaunch = Launch | LibraryProduct


class ProgramLaunches:
    """What each instruction of a Program starts on a device.

    of: the launch of an instruction. cores: how many multiprocessors the device has. has_library: whether a library
    multiplies large matrices there; it is started by being asked for.
    """

    def __init__(self, lowering: CudaLowering, cores: int, has_library: Callable[[], bool]) -> None:
        generated = lowering.generated
        self._lowering = lowering
        self._most_blocks = cores * BLOCKS_OF_CORE
        self._has_library = has_library
        functions = load_source(generated.source, str(keep_source(generated.source)))
        self._kernels = {name: Kernel(name, functions[name], lowering.fused) for name in generated.kernels}
        self.of = cache(self._made)

    def all(self) -> list[AnyLaunch]:
        """Those of all instructions, in loops and branches, too."""
        return [self.of(i) for i in leaves(self._lowering.generated.instructions) if _is_launch(i)]

    def _made(self, instruction: Instruction) -> AnyLaunch:
        slots = {storage: slot for slot, storage in enumerate(memories_of(instruction))}
        arrays = []
        for buffer, first in instruction.arguments:
            dtype = device_dtype(buffer.dtype)
            slot, size = slots[buffer.storage.memory], max(buffer.size - first, 0)
            arrays.append(ArrayPlace(slot, first * dtype.itemsize, dtype, size))
        step = instruction.step
        if isinstance(step, GemmStep) and self._lowering.by_library and self._has_library():
            return library_product(step, self._lowering.precision, *arrays)
        written = self._lowering.generated.kernels[instruction.function]
        mapping, threads = written.mapping, written.threads or THREADS
        blocks = mapping.work if mapping.by_block else -(-mapping.work // threads)  # as many as have work to do
        if not mapping.one_step:  # or as the multiprocessors take, each several times over
            blocks = min(blocks, self._most_blocks)
        return Launch(self._kernels[instruction.function], max(blocks, 1), threads, tuple(arrays))


def _is_launch(instruction: Instruction) -> bool:
    return bool(instruction.n) and not isinstance(instruction.step, CallStep)


def ptx_of(launches: Sequence[AnyLaunch], ptx: Callable[[Launch], str]) -> dict[str, str]:
    """The PTX of each kernel by its name; ptx: writes that of a launch."""
    return {launch.kernel.name: ptx(launch) for launch in launches if isinstance(launch, Launch)}


def ptx_without_a_device(lowering: CudaLowering, capability: tuple[int, int]) -> dict[str, str]:
    """The PTX of each kernel for GPUs of a compute capability, of which none need be there.

    Raises:
        CompilationError: the compiler is missing, or kernels run in the simulator.
    """
    if SIMULATED:
        raise CompilationError(NO_PTX)
    compiler: Any = imported("functad.backends.cuda.compile.compiler")

    def ptx(launch: Launch) -> str:
        text: str = compiler.ptx(launch.kernel.function, launch.types, capability, launch.kernel.fused)
        return text

    return ptx_of(ProgramLaunches(lowering, cores=1, has_library=lambda: False).all(), ptx)
