"""The CUDA backend: `compile_program(program) -> executable`. Inputs go to the device and results come back.

Knows the device and how kernels are started on it; `lowering` writes them. What is above the backend is the CPU's.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numba import cuda

from functad import machine_model
from functad.backends.cpu.compile.objects import keep_source
from functad.backends.cpu.runtime.plain import load_source
from functad.backends.cuda.lowering import THREADS, CudaLowering, check_operations
from functad.backends.cuda.products import product_kernel, product_launcher
from functad.backends.cuda.scalars import SIMULATED
from functad.backends.cuda.simulator import simulation
from functad.dtypes import is_narrow_float
from functad.errors import CompilationError
from functad.ir import Program
from functad.lowering.blocks import Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.steps import GemmStep

MOST_BLOCKS = 2 if SIMULATED else machine_model.CUDA_MOST_BLOCKS
TILE = 2 if SIMULATED else machine_model.CUDA_TILE


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> CudaExecutable:
    """The executable of a Program. Arguments are copied to the device, so that nothing is gained from donated ones.

    Raises:
        CompilationError: there is neither a GPU nor the simulator.
        NoRuleError: the Program has an operation that this backend does not have yet.
    """
    _check_device()
    program = optimized(program)
    check_operations(program)
    return CudaExecutable(program)


class CudaExecutable(CudaLowering):
    """A compiled Program: a function of the list of its inputs, ndarrays, to the list of its results."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        functions = load_source(self.generated.source, str(keep_source(self.generated.source)))
        kernels = {name: cuda.jit(functions[name]) for name in self.generated.kernels}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns of small grids: some arrays are small
            self._launchers = [self._launcher(i, kernels) for i in self.generated.instructions]
        self._lock = threading.Lock()
        self._constants: list[Any] | None = None

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        with simulation() if SIMULATED else nullcontext():
            found = self._locate(args)
            for instruction, launch in zip(self.generated.instructions, self._launchers):
                launch(*[found(b) for _, b, _ in instruction.parameters])
            return [_to_host(found(b), b) for b in self.schedule.outputs]

    def _locate(self, args: Sequence[np.ndarray]) -> Callable[[Buffer], Any]:
        """Where every buffer lies on the device in this call."""
        with self._lock:
            if self._constants is None:
                self._constants = [_to_device(c) for c in self.program.consts]
        places: dict[Storage, Any] = {}
        for buffers, arrays in ((self.schedule.inputs, args), (self.schedule.constants, self._constants)):
            for buffer, array in zip(buffers, arrays):
                places[buffer.storage] = _to_device(array) if buffer.storage.kind == "input" else array
        arena = cuda.device_array(max(self.memory_plan.arena_bytes, 1), np.uint8)
        for storage, offset in self.memory_plan.offsets.items():
            places[storage] = arena[offset : offset + storage.nbytes]

        def find(buffer: Buffer) -> Any:
            storage = buffer.storage
            if storage.kind == "arena":
                return places[storage].view(_device_dtype(buffer.dtype))
            if storage not in places:
                places[storage] = cuda.device_array(buffer.size, _device_dtype(buffer.dtype))
            return places[storage]

        return find

    def _launcher(self, instruction: Instruction, kernels: Mapping[str, Any]) -> Callable[..., None]:
        """A function of device arrays that runs an instruction."""
        step = instruction.step
        if isinstance(step, GemmStep):
            return product_launcher(_product(step.a.dtype), step, TILE, MOST_BLOCKS)
        text = self.generated.kernels[instruction.function]
        blocks = text.work if text.by_block else -(-text.work // THREADS)
        launcher: Callable[..., None] = kernels[instruction.function][min(blocks, MOST_BLOCKS), THREADS]
        return launcher


def _device_dtype(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.uint16) if is_narrow_float(dtype) else dtype  # kernels take floats of 16 bits as patterns


def _to_device(array: np.ndarray) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1)
    return cuda.to_device(flat.view(_device_dtype(flat.dtype))) if flat.size else None


def _to_host(array: Any, buffer: Buffer) -> np.ndarray:
    if not buffer.size:
        return np.empty(buffer.shape, buffer.dtype)
    found: np.ndarray = array.copy_to_host()
    return found.view(buffer.dtype).reshape(buffer.shape)


def _product(dtype: np.dtype) -> Any:
    if dtype not in _products:
        _products[dtype] = product_kernel(dtype, TILE)
    return _products[dtype]


_products: dict[np.dtype, Any] = {}


def _check_device() -> None:
    if SIMULATED or cuda.is_available():
        return
    raise CompilationError(
        'the backend "cuda" finds no GPU that it can use. It needs an NVIDIA GPU with its driver, and the package '
        "numba-cuda (python -m pip install numba-cuda[cu13], or [cu12] for a driver of CUDA 12); `python -m functad "
        "doctor` says what is missing. Without a GPU, NUMBA_ENABLE_CUDASIM=1 runs kernels, slowly, in Numba's simulator"
    )
