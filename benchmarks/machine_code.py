"""`python -m benchmarks machine-code`: what the kernels of workloads are for a GPU, and what may make them slow.

Registers, shared memory, spills, widths of loads and stores, slow instructions, and how often blocks fill all
multiprocessors: as NVIDIA's compiler and assembler say, without a GPU. `described(lowered)` says it of any function.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import functad
from benchmarks import gpu_steps
from benchmarks.frameworks.functional import FunctionalCalling, FunctionalTraining
from benchmarks.frameworks.with_functad import API
from benchmarks.task import Training
from functad import machine_model
from functad.backends.cuda.launches import ProgramLaunches
from functad.backends.cuda.runtime.launching import Launch
from functad.errors import CompilationError

Capability = tuple[int, int]


class Processor(NamedTuple):
    """What a multiprocessor has room for at a time: threads, blocks, and bytes of shared memory."""

    threads: int
    blocks: int
    shared: int


PROCESSORS: dict[Capability, Processor] = {
    (7, 5): Processor(1024, 16, 64 << 10),
    (8, 0): Processor(2048, 32, 164 << 10),
    (8, 6): Processor(1536, 16, 100 << 10),
    (8, 9): Processor(1536, 24, 100 << 10),
    (9, 0): Processor(2048, 32, 228 << 10),
    (10, 0): Processor(2048, 32, 228 << 10),
    (12, 0): Processor(1536, 24, 100 << 10),
}
"""By compute capability, from NVIDIA's CUDA C++ Programming Guide."""

REGISTERS = 1 << 16  # of a multiprocessor, and of a block at most
_BLOCK_SHARED = 1 << 10  # bytes that CUDA keeps of each block since compute capability 8.0
_MOST_BLOCKS = (1 << 31) - 1
_MOST_PARAMETERS = 32764  # bytes, since CUDA 12.1


class MachineCode(NamedTuple):
    """A kernel as machine code.

    registers: of a thread; None where the assembler did not say, as of `shared` (bytes) and `spilled`: bytes of a
    thread that lie in memory. moves: its accesses of global memory, such as `ld.v4.f32`. doubles, divisions, products:
    instructions of float64, divisions of 64 bits, and upper halves of their products. calls: functions that it calls.
    is_double: whether it has arrays of 64-bit floats.
    """

    name: str
    blocks: int
    threads: int
    registers: int | None
    shared: int | None
    spilled: int | None
    parameters: int
    instructions: int
    moves: tuple[str, ...]
    doubles: int
    divisions: int
    products: int
    calls: tuple[str, ...]
    is_double: bool

    def waves(self, capability: Capability, cores: int = machine_model.CUDA_CORES) -> float | None:
        """How many times its blocks fill all multiprocessors."""
        if self.registers is None or self.shared is None:
            return None
        processor = PROCESSORS[capability]
        warps = -(-self.threads // 32)
        of_warp = -(-32 * self.registers // 256) * 256
        of_block = self.shared + (_BLOCK_SHARED if capability >= (8, 0) else 0)
        resident = [processor.blocks, processor.threads // (32 * warps), REGISTERS // (of_warp * warps)]
        resident += [processor.shared // of_block] if of_block else []
        return self.blocks / (cores * max(min(resident), 1))

    def faults(self) -> list[str]:
        """What no GPU takes, or what makes a kernel slow."""
        registers = self.threads * (-(-(self.registers or 0) // 8) * 8)
        found = {
            f"{registers} registers of a block": registers > REGISTERS,
            f"{self.shared} bytes of shared memory": (self.shared or 0) > machine_model.CUDA_SHARED_BYTES,
            f"{self.spilled} bytes of a thread in memory": bool(self.spilled),
            f"{self.parameters} bytes of parameters": self.parameters > _MOST_PARAMETERS,
            f"{self.blocks} blocks": self.blocks > _MOST_BLOCKS,
            f"{self.doubles} × float64": bool(self.doubles) and not self.is_double,
            f"{self.divisions} divisions of 64 bits": bool(self.divisions),
            f"{self.products} products of 128 bits": bool(self.products),
            f"calls {', '.join(self.calls)}": bool(self.calls),
        }
        return [fault for fault, is_so in found.items() if is_so]


def described(lowered: Any, capability: Capability = (9, 0), cores: int = machine_model.CUDA_CORES) -> str:
    """A table of the kernels of `functad.jit(f, backend="cuda").lower(*args)`."""
    rows = [("kernel", "blocks", "threads", "waves", "registers", "shared", "instructions", "memory", "slow")]
    for _, code in kernels_of(lowered, [capability], cores):
        waves = code.waves(capability, cores)
        numbers = (code.blocks, code.threads, "–" if waves is None else f"{waves:.2f}", code.registers, code.shared)
        shown = ["–" if n is None else str(n) for n in (*numbers, code.instructions)]
        rows.append((code.name, *shown, " ".join(code.moves), "; ".join(code.faults())))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip() for row in rows)


def kernels_of(
    lowered: Any, capabilities: Sequence[Capability], cores: int = machine_model.CUDA_CORES
) -> Iterator[tuple[Capability, MachineCode]]:
    """The machine code of each kernel of a lowered function for compute capabilities, of PTX for the first of them.

    Kernels come once for each number of their blocks.

    Raises:
        CompilationError: the compiler is missing.
    """
    compiler: Any = import_module("functad.backends.cuda.compile.compiler")
    texts: dict[Any, str] = {}
    shown: set[Any] = set()
    for launch in ProgramLaunches(lowered._lowered, cores, lambda: False).all():
        assert isinstance(launch, Launch)
        kernel = launch.kernel.text, launch.types
        if (kernel, launch.blocks) in shown:
            continue
        shown.add((kernel, launch.blocks))
        if kernel not in texts:
            texts[kernel] = compiler.ptx(launch.kernel.function, launch.types, capabilities[0], launch.kernel.fused)
        yield from ((capability, machine_code(launch, texts[kernel], capability)) for capability in capabilities)


def machine_code(launch: Launch, ptx: str, capability: Capability) -> MachineCode:
    """What PTX is for GPUs of a compute capability, which may be above that of the PTX."""
    body, said = ptx[ptx.index(".entry") :], assembler_report(ptx, capability)
    accesses = re.findall(r"\b(ld|st)\.(?:volatile\.)?global(\.nc)?(\.v\d)?(\.\w+)", body)
    dtypes = {dtype for _, dtype in launch.types}
    spilled = None if said is None else sum(_number(what, said) for what in _SPILLS)
    return MachineCode(
        launch.kernel.name,
        launch.blocks,
        launch.threads,
        None if said is None else _number(r"Used (\d+) registers", said),
        None if said is None else _number(r"(\d+) bytes smem", said),
        spilled,
        sum(56 if kind == "array" else 16 for kind, _ in launch.types),
        len(re.findall(r"^\t[^.\n/].*;$", body, re.MULTILINE)),
        tuple(sorted({"".join(access) for access in accesses})),
        len(re.findall(r"^\t(?!ld|st|mov)\S*\.f64\b", body, re.MULTILINE)),
        len(re.findall(r"\b(?:div|rem)\.[su]64", body)),
        len(re.findall(r"\bmul\.hi\.[su]64", body)),
        tuple(sorted({*re.findall(r"\bcall\S*\s+(?:\([^)]*\),\s*)?(\w+)", body)})),
        bool(dtypes & {"float64", "complex128"}),
    )


_SPILLS = (r"(\d+) bytes stack frame", r"(\d+) bytes spill stores")


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def assembler_report(ptx: str, capability: Capability) -> str | None:
    """What NVIDIA's assembler says of PTX; None where there is none.

    One that is older than the compiler is told that the text is as old.

    Raises:
        CompilationError: it finds a mistake.
    """
    program = import_module("functad.backends.cuda.compile.compiler").assembler()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        command = [program, "-v", f"-arch=sm_{capability[0]}{capability[1]}", "-o", f"{folder}/kernel.cubin", source]
        for _ in range(2):
            source.write_text(ptx, encoding="utf-8")
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode == 0:
                return done.stderr
            newest = re.search(r"Unsupported \.version .*current version is '([\d.]+)'", done.stderr)
            if newest is None:
                break
            ptx = re.sub(r"(?m)^\.version .*$", f".version {newest[1]}", ptx)
    if "is not defined for option 'gpu-name'" in done.stderr:
        return None
    raise CompilationError(f"NVIDIA's assembler {program} refused a kernel: {done.stderr}")


def lowered_step(make: Callable[[], Any]) -> Any:
    """A workload's step for a GPU, lowered."""
    task, api = make(), API._replace(jit=partial(functad.jit, backend="cuda"))
    form = task.forms["functad"]
    if isinstance(task, Training):
        training = FunctionalTraining(task, form, api)
        return training.step.lower(*training.arguments())
    return FunctionalCalling(task, form, api).step.lower(*form.batch(*task.arguments))


def main(arguments: Sequence[str]) -> int:
    """Print what the command line asks for; returns the exit code: 1 where the compiler is missing."""
    tasks = gpu_steps.tasks()
    parser = argparse.ArgumentParser(prog="python -m benchmarks machine-code", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="workload", choices=tasks, help=f"which: {', '.join(tasks)}")
    parser.add_argument("--capability", default="9.0", help="of the GPU (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=machine_model.CUDA_CORES, help="its multiprocessors")
    given = parser.parse_args(arguments)
    known = {f"{major}.{minor}": (major, minor) for major, minor in PROCESSORS}
    if given.capability not in known:
        parser.error(f"nothing is known of compute capability {given.capability}; of {', '.join(known)} it is")
    capability = known[given.capability]
    for name in given.names:
        try:
            print(f"{name}\n{described(lowered_step(tasks[name]), capability, given.cores)}\n", flush=True)
        except CompilationError as problem:
            print(f"{name}: {problem}")
            return 1
    return 0
