"""From a schedule to the source file of its CUDA kernels and the launches that call them.

Knows how kernels are written as Python for `numba.cuda`; no compiler and no addresses.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from functad.backends.cuda.emit import CudaKernel, emit
from functad.backends.cuda.scalars import INTRINSICS
from functad.lowering.blocks import Instruction
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.printing import comments, own_names_apart
from functad.lowering.schedule import Schedule
from functad.lowering.steps import GemmStep, KernelStep, NestStep
from functad.pretty import escaped
from functad.primitives.user_kernels import PREFIX

NUMBA_NAMES = {
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(eq=False)
class CudaKernels:
    """The kernels of a Program.

    source: the Python file. instructions: the calls, in order. kernels: by name; a "gemm" instruction has none.
    """

    source: str
    instructions: list[Instruction]
    kernels: dict[str, CudaKernel]


def generate(schedule: Schedule, threads: int) -> CudaKernels:
    """Write the kernels of a schedule for blocks of `threads`; steps with the same text share a function."""
    functions: dict[str, str] = {}
    kernels: dict[str, CudaKernel] = {}
    known: dict[tuple[str, tuple[str, ...]], str] = {}
    instructions = []
    for step in schedule.steps:
        if isinstance(step, GemmStep):
            instructions.append(_product(step))
            continue
        assert isinstance(step, NestStep), f"{step.name}: operations with kernels of their own are refused before"
        kernel = emit(step.nest, threads)
        body, names = own_names_apart(
            kernel.body, [p for p, _, _ in kernel.parameters], {*INTRINSICS, *NUMBA_NAMES, "cuda"}
        )
        parameters = tuple([(name, buffer, mode) for name, (_, buffer, mode) in zip(names, kernel.parameters)])
        kernel = replace(kernel, body=body, parameters=parameters)
        key = (kernel.body, tuple(f"{p}:{b.dtype.name}" for p, b, _ in kernel.parameters))
        if key not in known:
            known[key] = _unique(step.name, functions)
            functions[known[key]] = _function_text(known[key], kernel, step, schedule)
            kernels[known[key]] = kernel
        work = work_of(step.nest)
        instructions.append(
            Instruction(known[key], kernel.parameters, kernel.work, {}, 0.0, work.flops, work.bytes, step)
        )
    return CudaKernels(_file(schedule.program.name, functions, threads), instructions, kernels)


def _product(step: GemmStep) -> Instruction:
    parameters = (("a", step.a, "r"), ("b", step.b, "r"), ("c", step.c, "rw" if step.beta else "w"))
    flops = 2.0 * step.m * step.n * step.k * step.batch
    elements = step.batch * (step.m * step.k + step.k * step.n + step.m * step.n)
    nbytes = float(step.a.dtype.itemsize * elements)
    return Instruction("gemm", parameters, step.m, {}, 0.0, flops, nbytes, step)


def _unique(name: str, taken: dict[str, str]) -> str:
    unique, number = name, 2
    while unique in taken or unique in INTRINSICS or unique in NUMBA_NAMES:
        unique, number = f"{name}_{number}", number + 1
    return unique


def _function_text(name: str, kernel: CudaKernel, step: NestStep | KernelStep, schedule: Schedule) -> str:
    head = f"def {name}({', '.join(p for p, _, _ in kernel.parameters)}):\n"
    return head + textwrap.indent(comments(step.eqns, schedule.names) + kernel.body.strip("\n"), "    ")


def _file(name: str, functions: dict[str, str], threads: int) -> str:
    text = "\n\n\n".join(functions.values())
    names = set(_NAME.findall(text))
    lines = [
        f'"""CUDA kernels of `{escaped(name)}`, written by functad. Shapes are fixed, the size of the grid is not."""',
        "",
    ]
    if names & {"inf", "nan"}:
        lines.append(f"from math import {', '.join(sorted(names & {'inf', 'nan'}))}")
    lines.append(f"from numba import {', '.join(['cuda', *sorted(names & NUMBA_NAMES)])}")
    if names & INTRINSICS.keys():
        lines.append(f"from functad.backends.cuda.scalars import {', '.join(sorted(names & INTRINSICS.keys()))}")
    of_users = sorted(w for w in names if w.startswith(PREFIX))
    if of_users:
        lines.append(f"from functad.backends.cuda.user_functions import {', '.join(of_users)}")
    lines += ["", f"THREADS = {threads}  # in a block"]
    return "\n".join(lines) + "\n\n\n" + text + "\n"
