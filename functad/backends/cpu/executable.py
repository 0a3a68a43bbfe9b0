"""The CPU backend: `compile_program(program) -> executable`.

Knows how the parts fit together: schedule, kernels, memory plan, machine code, runtime. Numba is imported only where
a kernel is not found in the cache.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from functad.backends.cpu import objects, report
from functad.backends.cpu.blas import handle
from functad.backends.cpu.gemm import Matrix, gemm_block, gemm_instruction
from functad.backends.cpu.generate import Generated, generate
from functad.backends.cpu.plain import load_source, run_plain
from functad.backends.cpu.runtime import Block, Call, Instruction, Tape, settle
from functad.config import config
from functad.ir import Program
from functad.lowering import plan
from functad.lowering.buffers import Buffer, Storage
from functad.lowering.plan import MemoryPlan, make_blocks, plan_memory
from functad.lowering.schedule import GemmStep, Schedule, make_schedule
from functad.transforms.dead_code import eliminate_dead_code

SHORT = 20_000.0  # ns: below, the interpreter's lock is kept, because getting it back takes longer


def compile_program(program: Program, donated: Sequence[bool] = ()) -> Executable:
    """The executable of a Program; results may take the memory of the inputs marked as donated."""
    return Executable(program, donated)


def lower_program(program: Program, donated: Sequence[bool] = ()) -> Lowered:
    """Everything up to machine code."""
    return Lowered(program, donated)


class Lowered:
    """A Program as kernels and a memory plan, not compiled.

    kernels: the source of the kernels. memory_plan: where temporaries lie. cost: operations and bytes, by kernel.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        self.program = eliminate_dead_code(program)  # what is not used has no place to be written to
        self.schedule: Schedule = make_schedule(self.program, donated)
        self.generated: Generated = generate(self.schedule)
        self.blocks: list[plan.Block] = make_blocks(self.generated.instructions)
        self.memory_plan: MemoryPlan = plan_memory(self.blocks)
        self.memory_plan.donated += [
            (self.schedule.inputs[result.storage.number].name, f"result {k}")
            for k, result in enumerate(self.schedule.outputs)
            if result.storage.kind == "input"
        ]

    @property
    def kernels(self) -> report.Source:
        return report.Source(self.generated.source)

    @property
    def cost(self) -> report.Cost:
        return report.cost_of(self.generated.instructions)


class Executable(Lowered):
    """A compiled Program: a function of the list of its inputs, ndarrays, to the list of its results.

    Inputs are not changed, except those marked as donated, whose memory results may be. Any number of threads may
    call it at the same time.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        super().__init__(program, donated)
        self._plain: dict[str, Any] | None = None
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            self._plain = load_source(self.generated.source, str(objects.keep_source(self.generated.source)))
        self.addresses: Mapping[str, int] = {} if self._plain is not None else _compiled(self.generated)
        self._constants = [np.require(np.asarray(c), requirements=["C", "A"]) for c in self.program.consts]
        self._layout()
        if self._plain is not None:
            return
        cost = sum(block.cost for block in self.blocks)
        self.tape = Tape([self._tape_block(b) for b in self.blocks], release_gil=cost > SHORT)
        self._free: list[_Context] = []

    # --- calling -----------------------------------------------------------------------------------------

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [*args, *(np.empty(shape, dtype) for shape, dtype in self.fresh)]
        self.run(given)
        return [given[i] if shape is None else given[i].reshape(shape) for i, shape in self.results]

    def run(self, given: list[np.ndarray]) -> None:
        """Run on inputs followed by the memory of fresh results; then `results` tells where each result lies.

        An input whose memory cannot be used as it is (not contiguous, not aligned) is replaced by a copy.
        """
        if self._plain is not None:
            self._run_plain(given, self._plain)
            return
        try:
            run, _, _ = context = self._free.pop()
        except IndexError:
            run, _, _ = context = self._new_context()
        status = run(given)
        while status:
            if status > 0:
                given[status - 1] = np.array(given[status - 1], order="C", copy=True)
                status = run(given)
            else:
                settle(status)
                status = 0
        self._free.append(context)

    def _new_context(self) -> _Context:
        """Slots and an arena for one call at a time."""
        arena = np.empty(self.memory_plan.arena_bytes + plan.ALIGNMENT, np.uint8)
        start = -(-arena.ctypes.data // plan.ALIGNMENT) * plan.ALIGNMENT
        slots = np.zeros(self._slot_count, np.int64)
        for storage, slot in self._slots.items():
            if storage.kind == "arena":
                slots[slot] = start + self.memory_plan.offsets[storage]
            elif storage.kind == "const":
                slots[slot] = self._constants[storage.number].ctypes.data
        for dtype, slot in self._handles.items():
            slots[slot] = handle(dtype)
        return _Context(self.tape.bind(slots, self._array_count), slots, arena)

    # --- layout ------------------------------------------------------------------------------------------

    def _layout(self) -> None:
        """Number the slots: inputs, fresh outputs, constants, temporaries, addresses of matrix products."""
        self._slots: dict[Storage, int] = {b.storage: i for i, b in enumerate(self.schedule.inputs)}
        self.fresh: list[tuple[tuple[int, ...], np.dtype]] = []
        shapes = [buffer.shape for buffer in self.schedule.inputs]
        self.results: list[tuple[int, tuple[int, ...] | None]] = []
        for buffer in self.schedule.outputs:
            storage = buffer.storage
            if storage not in self._slots:
                self._slots[storage] = len(self._slots)
                self.fresh.append((buffer.shape, buffer.dtype))
                shapes.append(buffer.shape)
                self.results.append((self._slots[storage], None))
            else:
                # A reshaped view would hide from the next call that it may take over the memory.
                slot = self._slots[storage]
                same = shapes[slot] == buffer.shape
                self.results.append((slot, None if same else buffer.shape))
        self._array_count = len(self._slots)
        for buffer in self.schedule.constants:
            self._slots[buffer.storage] = len(self._slots)
        for storage in self.memory_plan.offsets:
            self._slots[storage] = len(self._slots)
        self._slot_count = len(self._slots)
        self._handles: dict[str, int] = {}  # by the name of the elements' dtype
        for instruction in self.generated.instructions:
            for _, buffer, _ in instruction.parameters:
                if buffer.storage.kind == "blas" and buffer.name not in self._handles:
                    self._handles[buffer.name] = self._slot_count
                    self._slot_count += 1

    def _slot(self, buffer: Buffer) -> int:
        if buffer.storage.kind == "blas":
            return self._handles[buffer.name]
        return self._slots[buffer.storage]

    def _tape_block(self, block: plan.Block) -> Block:
        if len(block.instructions) == 1 and isinstance(block.instructions[0].step, GemmStep):
            step = block.instructions[0].step
            a, b, c = self._matrices(step)
            return gemm_block(step.a.dtype, a, b, c, batch=step.batch, **_sizes(step))
        instructions = [self._tape_instruction(i, s) for i, s in zip(block.instructions, block.scales)]
        return Block(block.rows, instructions, block.chunk if block.parallel else 0)

    def _tape_instruction(self, instruction: plan.Instruction, scale: int) -> Instruction:
        if isinstance(instruction.step, GemmStep):
            split = "rows" if instruction.step.batch == 1 else "batch"
            made = gemm_instruction(
                instruction.step.a.dtype, *self._matrices(instruction.step), split=split, **_sizes(instruction.step)
            )
            return made._replace(scale=scale)
        params = np.array([self._slot(b) for _, b, _ in instruction.parameters], np.int64)
        blas = any(b.storage.kind == "blas" for _, b, _ in instruction.parameters)
        return Instruction(self.addresses[instruction.function], params, scale, blas)

    def _matrices(self, step: GemmStep) -> tuple[Matrix, Matrix, Matrix]:
        return (
            Matrix(self._slot(step.a), step.lda, step.a_offset, step.a_batch),
            Matrix(self._slot(step.b), step.ldb, step.b_offset, step.b_batch),
            Matrix(self._slot(step.c), step.ldc, step.c_offset, step.c_batch),
        )

    def _run_plain(self, given: list[np.ndarray], functions: dict[str, Any]) -> None:
        count = len(self.schedule.inputs)
        given[:count] = [np.array(a, order="C", copy=True) for a in given[:count]]  # donated ones are read-only
        run_plain(self.schedule, self.blocks, self.memory_plan, functions, given[:count], given[count:])

    # --- looking inside ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[np.ndarray], repeats: int = 20) -> report.Profile:
        """The least time of each kernel on its own, over all of its range and on all threads, beside its floor."""
        measured = self.measure(args, repeats)
        copies = [np.array(a, order="C", copy=True) for a in args]
        step = report.least_time(lambda: self(copies), repeats)
        return report.profile_of(measured, step, _product_speed(), config.num_threads)

    def measure(self, args: Sequence[np.ndarray], repeats: int = 20) -> list[tuple[plan.Instruction, float]]:
        """The least time in ns of each instruction on its own."""
        fresh = [np.empty(shape, dtype) for shape, dtype in self.fresh]
        arrays = [np.array(a, order="C", copy=True) for a in args] + fresh
        context = self._new_context()
        context.slots[: len(arrays)] = [a.ctypes.data for a in arrays]
        measured = []
        for block in self.blocks:
            for instruction, scale in zip(block.instructions, block.scales):
                one = plan.Block(block.rows, [instruction], [scale], block.chunk, block.parallel)
                run = Tape([self._tape_block(one)]).bind(context.slots, 0)
                settle(run([]))
                measured.append((instruction, report.least_time(lambda: run([]), repeats)))  # noqa: B023
        return measured


class _Context(NamedTuple):
    run: Call
    slots: np.ndarray
    arena: np.ndarray


@cache
def _product_speed() -> float:
    """Floating-point operations a ns in a large float32 product on all threads."""
    n = 768
    arrays = [np.ones((n, n), np.float32) for _ in range(3)]
    slots = np.array([a.ctypes.data for a in arrays], np.int64)
    a, b, c = (Matrix(slot, n) for slot in range(3))
    run = Tape([gemm_block(np.float32, a, b, c, m=n, n=n, k=n)]).bind(slots, 0)
    settle(run([]))
    return 2.0 * n**3 / report.least_time(lambda: run([]), 5)


def _sizes(step: GemmStep) -> dict[str, Any]:
    return {
        "m": step.m,
        "n": step.n,
        "k": step.k,
        "ta": bool(step.ta),
        "tb": bool(step.tb),
        "alpha": step.alpha,
        "beta": step.beta,
    }


def _compiled(generated: Generated) -> Mapping[str, int]:
    signatures = generated.signatures
    if not signatures:
        return {}

    def make(path: str) -> bytes:
        machine = import_module("functad.backends.cpu.machine")  # takes the time that a warm cache saves
        compiled: bytes = machine.compile_kernels(generated.source, path, signatures)
        return compiled

    identity = repr([(name, [d.str for d in dtypes]) for name, dtypes in signatures.items()])
    return objects.get(generated.source, identity, list(signatures), make).addresses
