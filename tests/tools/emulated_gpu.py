"""A stand-in for NVIDIA's driver library whose GPU runs kernels: their PTX, on the processor.

What functad gives to the driver is checked as by `FakeCuda`, and graphs run their nodes in any order that they allow.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any

from fake_cuda import OUT_OF_MEMORY, FakeCuda
from ptx_machine import LoadedModule, Memory

from functad.backends.cuda.runtime.launching import Launch

MULTIPROCESSORS = 3


class EmulatedGpu(FakeCuda):
    """A machine with one GPU that runs PTX."""

    def __init__(self, memory: int = 1 << 26, seed: int = 0) -> None:
        super().__init__(memory=memory)
        self._arena = Memory(memory)
        self._choose = random.Random(seed)

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        super()._cuDeviceGetAttribute(out, attribute, device)
        if attribute == 16:
            out._obj.value = MULTIPROCESSORS

    def _cuMemAllocAsync(self, out: Any, nbytes: int, stream: int) -> int:
        self._of("stream", stream)
        try:
            address = self._arena.take(nbytes)
        except MemoryError:
            return OUT_OF_MEMORY
        self._memory[address] = (ctypes.c_char * nbytes).from_address(address)
        out._obj.value = address
        return 0

    def _cuMemFreeAsync(self, address: int, stream: int) -> None:
        self._arena.give_back(address, len(self._memory.pop(address)))

    def _cuModuleLoadData(self, out: Any, code: bytes) -> None:
        out._obj.value = self._new("module", LoadedModule(code.rstrip(b"\0").decode(), self._arena))

    def _cuModuleGetFunction(self, out: Any, module: int, name: bytes) -> int:
        loaded = self._of("module", module)
        parameters = loaded.module.functions[name.decode()].parameters
        out._obj.value = self._new("function", ((loaded, name.decode()), len(parameters)))
        return 0

    def _run(self, launch: dict[str, Any]) -> None:
        loaded, name = launch["entry"]
        words = launch["words"]
        loaded.launch(name, *(launch[k] for k in ("grid", "block", "shared")), words, _arrays(words), self._choose)

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        before = len(self.launches)
        super()._cuLaunchKernel(function, *rest)
        for launch in self.launches[before:]:
            self._run(launch)

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        nodes, _ = self._of("ready graph", graph)
        left, done = list(range(len(nodes))), set[int]()
        while left:
            ready = [k for k in left if done.issuperset(nodes[k].get("after", range(k)))]
            number = self._choose.choice(ready)
            left.remove(number)
            done.add(number)
            self._run(nodes[number])


def _arrays(words: list[int]) -> list[tuple[int, int]]:
    """The memory of arrays among the words of a kernel's arguments: two zeros, count, bytes, address, shape, stride."""
    found, at = [], 0
    while at + 7 <= len(words):
        first, second, count, nbytes, address, shape, stride = words[at : at + 7]
        is_array = first == second == 0 and (count, nbytes) == (shape, stride) and address > 1 << 20
        if is_array:
            found.append((address, address + count * nbytes))
        at += 7 if is_array else 1
    return found


class PtxCompiler:
    """Machine code that is PTX, by the real compiler."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler

    def machine_code(self, launch: Launch, capability: tuple[int, int]) -> tuple[bytes, str]:
        text = self.ptx(launch.kernel.function, launch.types, capability, launch.kernel.fused)
        return text.encode() + b"\0", self._compiler._entry(text)

    def ptx(self, function: Any, arguments: Any, capability: tuple[int, int], fused: bool) -> str:
        text: str = self._compiler.ptx(function, arguments, capability, fused)
        return text

    def found_library(self, pattern: str) -> str | None:
        return None
