"""How LLVM is set up for the processor at hand: what it compiles for, its passes, its object files.

It also loads those that `elf` leaves to it. This file must not import Numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.ffi import ObjectRef, OutputString, lib
from llvmlite.binding.newpassmanagers import NewPassManager

from functad.backends.cpu.compile.processor import is_x86
from functad.backends.cpu.compile.symbols import undefined_symbols
from functad.errors import CompilationError
from functad.system.once import hold_over_forks

# LLVM's own lock, which a thread also takes when it happens to collect what another one has compiled.
_lock: Any = getattr(lib, "_lock", None)
if _lock is not None:
    hold_over_forks(_lock.__enter__, lambda: _lock.__exit__(None, None, None), inner=True)

# LLVM's long calls, which take that lock for nothing: what lies in one LLVM context is one thread's alone.
_unlocked: Any = ctypes.CDLL(lib._name)
_unlocked.LLVMPY_RunNewModulePassManager.restype = None
_unlocked.LLVMPY_TargetMachineEmitToMemory.restype = lib.LLVMPY_TargetMachineEmitToMemory.restype

# What LLVM calls where a processor has no instruction for it, and expects of a library that may not be there. Kernels
# round float64 to float32, then to float16; where LLVM knows that the first is exact, it makes one step of them.
_CONVERSIONS = {
    "__truncdfhf2": """
define half @__truncdfhf2(double %x) {
  %single = fptrunc double %x to float
  %half = fptrunc float %single to half
  ret half %half
}
"""
}


class LlvmCode:
    """Machine code in LLVM's memory, there as long as this object is."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine

    def address(self, name: str) -> int:
        """Where a function begins; 0 if there is none of that name."""
        return int(self._engine.get_function_address(name))


def linked(members: Sequence[bytes]) -> LlvmCode:
    """Object files in memory, linked to one another and to this process.

    Raises:
        CompilationError: they need functions that this process does not have, or are damaged.
    """
    undefined = dict.fromkeys(name for member in members for name in undefined_symbols(member))
    own = [name for name in undefined if name in _CONVERSIONS]
    # The first engine makes LLVM look up the functions of this process, such as memset.
    module = llvm.parse_assembly("".join(_CONVERSIONS[name] for name in own))
    engine = llvm.create_mcjit_compiler(module, target_machine())
    missing = missing_symbols([name for name in undefined if name not in own])
    if missing:
        # LLVM would end the whole process on the first symbol that it cannot resolve.
        raise CompilationError(f"compiled code needs functions that this process does not have: {', '.join(missing)}")
    for member in members:
        engine.add_object_file(llvm.ObjectFileRef.from_data(member))
    engine.finalize_object()
    return LlvmCode(engine)


def missing_symbols(symbols: Sequence[str]) -> list[str]:
    """Those of `symbols` that no library of this process defines."""
    return [name for name in symbols if not llvm.address_of_symbol(name)]


def target_machine(effort: int = 3) -> llvm.TargetMachine:
    """A new description of the processor at hand for LLVM; an execution engine takes it over for itself.

    effort: from 0 to 3, what LLVM spends on choosing instructions and registers.
    """
    _initialize()
    name, features = host()
    if is_x86() and llvm.llvm_version_info[0] >= 17:
        # LLVM thinks too well of them: loops over short rows take up to three times as long with gathers.
        features += ",+prefer-no-gather,+prefer-no-scatter"
        if "+avx512vbmi2" in features.split(","):
            # It takes half of the widest vectors for Intel's, whose clocks these slowed down before Ice Lake.
            features += ",-prefer-256-bit"
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=name,
        features=features,
        opt=effort,
        # The memory manager may place code and data more than 2 GB apart.
        reloc="static" if is_x86() else "default",
        codemodel="jitdefault",
        jit=True,
    )


@contextmanager
def kept_machine(effort: int = 3) -> Iterator[llvm.TargetMachine]:
    """A target machine for one thread at a time: what LLVM finds out when it is first used serves many modules."""
    idle = _idle_machines.setdefault(effort, [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = target_machine(effort)
    try:
        yield machine
    finally:
        idle.append(machine)


_idle_machines: dict[int, list[llvm.TargetMachine]] = {}


def run_passes(passes: llvm.ModulePassManager, module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    """Run passes over a module, and give their memory back."""
    _unlocked.LLVMPY_RunNewModulePassManager(passes, module, builder)
    if type(passes)._dispose is ObjectRef._dispose:
        # The base class that does nothing hides the one that knows how: 100 kB would stay.
        NewPassManager._dispose(passes)
        passes.detach()
    else:
        passes.close()


def emitted(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """The object file that LLVM makes of a module for a machine."""
    with OutputString() as problem:
        buffer = _unlocked.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, problem)
        if not buffer:
            raise CompilationError(f"LLVM makes no object file: {problem}")
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def host() -> tuple[str, str]:
    """LLVM's name of the processor at hand and its features, such as `"+avx2,-sse4a"`."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def has_masked_vectors() -> bool:
    """Whether the processor loads and stores any elements of a vector, and not the others, at no cost."""
    return "+avx512f" in host()[1].split(",")


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
