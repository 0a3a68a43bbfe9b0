"""A GPU for tests without one: a stand-in for NVIDIA's library, and for the compiler.

What only a GPU can tell: that real machine code computes what it should, times, and what a real driver refuses.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda

from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.driver import CudaDriver
from functad.errors import CompilationError
from functad.ir import Aval
from functad.tracing import trace_to_program

F32 = np.dtype(np.float32)


class FakeCompiler:
    """Machine code that says how many parameters it takes: seven for an array, two for a complex number."""

    def __init__(self, blas: str | None = None) -> None:
        self.compiled: list[Any] = []
        self.blas = blas  # the path of cuBLAS, or of what stands for it

    def machine_code(self, launch: Any, capability: tuple[int, int]) -> tuple[bytes, str]:
        self.compiled.append((launch.kernel.name, capability))
        words = sum(7 if kind == "array" else 1 + dtype.startswith("complex") for kind, dtype in launch.types)
        return f"{launch.kernel.name} parameters={words}".encode(), launch.kernel.name

    def ptx(self, function: Any, arguments: Any, capability: tuple[int, int], fused: bool) -> str:
        return f".target sm_{capability[0]}{capability[1]}"

    def found_library(self, pattern: str) -> str | None:
        return self.blas


def device_of(fake: FakeCuda, number: int = 0, blas: str | None = None) -> CudaDevice:
    return CudaDevice(number, CudaDriver(fake, number, FakeCompiler(blas)))


def executable(fun: Any, *avals: Aval, donated: tuple[bool, ...] = ()) -> cuda_backend.CudaExecutable:
    return cuda_backend.CudaExecutable(trace_to_program(fun, avals, name="step"), donated)


def launches_of(step: cuda_backend.CudaExecutable, device: CudaDevice) -> list[Any]:
    return step.placed(device).launches


X = Aval((6,), F32)


def compiler_with_nvvm() -> Any:
    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    try:
        compiler.ptx(lambda x: None, (("array", "float32"),), (8, 0))
    except CompilationError as problem:
        pytest.skip(f"no NVVM: {problem.__cause__}")
    return compiler


def fake_device() -> CudaDevice:
    return device_of(FakeCuda())
