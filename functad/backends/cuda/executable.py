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
from functad.backends.cuda.lowering import THREADS, TILE, CudaLowering
from functad.backends.cuda.products import product_kernel, product_launcher
from functad.backends.cuda.running import DeviceRun, Launcher
from functad.backends.cuda.scalars import SIMULATED
from functad.backends.cuda.simulator import simulation
from functad.backends.walking import Address
from functad.errors import CompilationError
from functad.ir import Program
from functad.lowering.blocks import Instruction, leaves
from functad.lowering.steps import CallStep, ConvolutionStep, GemmStep

MOST_BLOCKS = 2 if SIMULATED else machine_model.CUDA_MOST_BLOCKS


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda program: program
) -> CudaExecutable:
    """The executable of a Program. Arguments are copied to the device, so that nothing is gained from donated ones.

    Raises:
        CompilationError: there is neither a GPU nor the simulator.
    """
    _check_device()
    return CudaExecutable(optimized(program))


class CudaExecutable(CudaLowering):
    """A compiled Program: a function of the list of its inputs, ndarrays, to the list of its results."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        functions = load_source(self.generated.source, str(keep_source(self.generated.source)))
        kernels = {name: cuda.jit(functions[name]) for name in self.generated.kernels}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Numba warns of small grids: some arrays are small
            self._launchers = {
                id(i): self._launcher(i, kernels)
                for i in leaves(self.generated.instructions)
                if not isinstance(i.step, CallStep)
            }
        self._lock = threading.Lock()
        self._constants: list[Any] | None = None

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        with simulation() if SIMULATED else nullcontext():
            run = self._located(args)
            run.run(self.generated.instructions)
            return [run.on_host(b) for b in self.schedule.outputs]

    def _located(self, args: Sequence[np.ndarray]) -> DeviceRun:
        """A call, whose buffers lie on the device."""
        with self._lock:
            if self._constants is None:
                self._constants = [_to_device(c) for c in self.schedule.values]
        run = DeviceRun(self._launchers)
        for buffers, arrays in (
            (self.schedule.inputs, [_to_device(a) for a in args]),
            (self.schedule.constants, self._constants),
        ):
            for buffer, array in zip(buffers, arrays):
                run.places[buffer.storage] = Address(array)
        arena = cuda.device_array(max(self.memory_plan.arena_bytes, 1), np.uint8)
        for storage, offset in self.memory_plan.offsets.items():
            run.places[storage] = Address(arena, offset)
        for storage in dict.fromkeys(b.storage for b in self.schedule.outputs if b.storage.kind == "output"):
            run.places[storage] = Address(cuda.device_array(max(storage.nbytes, 1), np.uint8))
        return run

    def _launcher(self, instruction: Instruction, kernels: Mapping[str, Any]) -> Launcher:
        """A function of device arrays that runs an instruction."""
        step = instruction.step
        if isinstance(step, GemmStep):
            return product_launcher(_product(step.a.dtype), step, TILE, MOST_BLOCKS)
        mapping = self.generated.kernels[instruction.function].mapping
        blocks = mapping.work if mapping.by_block else -(-mapping.work // THREADS)
        threads = TILE * TILE if isinstance(step, ConvolutionStep) else THREADS
        launcher: Launcher = kernels[instruction.function][max(min(blocks, MOST_BLOCKS), 1), threads]
        return launcher


def _to_device(array: np.ndarray) -> Any:
    """An array's bytes on the device."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return cuda.to_device(flat.view(np.uint8)) if flat.size else None


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
