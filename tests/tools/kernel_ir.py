"""Kernels as optimised LLVM IR in one module: what tests of the code that is made look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import llvmlite.binding as llvm

from functad.backends.cpu.compile import machine
from functad.backends.cpu.compile.frontend import Specialization
from functad.backends.cpu.compile.target import kept_machine
from functad.backends.cpu.kernels.arguments import Argument


def optimized_kernels(source: str, filename: str, signatures: Mapping[str, Sequence[Argument]]) -> llvm.ModuleRef:
    """What `compile_kernels` makes of its arguments, before it is machine code (`str` gives the text)."""
    return optimized_ir(machine._kernels(source, filename, signatures, {}, fused=False))


def optimized_ir(parts: Iterable[Specialization]) -> llvm.ModuleRef:
    """All the parts and everything that they call."""
    context = llvm.create_context()
    with kept_machine() as processor:
        return machine._joined([machine._optimized(b, context, processor) for b in machine._batches(parts)])
