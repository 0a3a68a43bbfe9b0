"""The CPU backend: `compile_program(program) -> executable`.

Knows how the parts fit together: schedule, kernels, memory plan, machine code, runtime. Numba is imported only where
a kernel is not found in the cache.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile import shared_kernels as kernels
from functad.backends.cpu.kernels.generate import CpuKernels, generate
from functad.backends.cpu.kernels.weights import with_plain_weights
from functad.backends.cpu.products.blas import named_handle
from functad.backends.cpu.products.gemm import Matrix, gemm_block
from functad.backends.cpu.products.gemm_table import place_columns
from functad.backends.cpu.runtime.assemble import Assembler, Slots
from functad.backends.cpu.runtime.plain import load_source, run_plain
from functad.backends.cpu.runtime.tape import BoundTape, Tape, release_stacks, settle
from functad.config import config
from functad.editing.dead_code import eliminate_dead_code
from functad.errors import TooLargeError
from functad.ir import Program
from functad.lowering import blocks as plan
from functad.lowering.blocks import make_blocks
from functad.lowering.contracts import check_schedule
from functad.lowering.memory.arena import MemoryPlan, plan_memory
from functad.lowering.schedule import Schedule, make_schedule
from functad.lowering.steps import CallStep, LoopStep


class NotStartedError(TooLargeError):
    """There was no memory before anything was computed: donated arguments still have their elements.

    It does not leave the call, so that one that ran as a callback is not taken for the call around it.
    """


def compile_program(program: Program, donated: Sequence[bool] = ()) -> CpuExecutable:
    """The executable of a Program; results may take the memory of the inputs marked as donated."""
    return CpuExecutable(program, donated)


def lower_program(program: Program, donated: Sequence[bool] = ()) -> CpuLowering:
    """Everything up to machine code."""
    return CpuLowering(program, donated)


class CpuLowering:
    """A Program as kernels and a memory plan, not compiled.

    kernels: the source of the kernels. memory_plan: where temporaries lie. cost: operations and bytes, by kernel.
    fused: whether any product may be added without being rounded first.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        self.fused: bool = config.fuse_multiply_add
        self.program = eliminate_dead_code(program)  # what is not used has no place to be written to
        self.schedule: Schedule = make_schedule(self.program, donated, place_columns=place_columns)
        self.schedule.steps = with_plain_weights(self.schedule.steps)
        if config.check_programs:
            check_schedule(self.schedule)
        self.generated: CpuKernels = generate(self.schedule)
        self.blocks: list[plan.Block | plan.ControlPlan] = make_blocks(self.generated.instructions)
        self.memory_plan: MemoryPlan = plan_memory(self.blocks)
        self.memory_plan.donated += [
            (self.schedule.inputs[result.storage.number].name, f"result {k}")
            for k, result in enumerate(self.schedule.outputs)
            if result.storage.kind == "input"
        ]

    @property
    def kernels(self) -> report.SourceText:
        return report.SourceText(self.generated.source)

    @property
    def cost(self) -> report.Cost:
        return report.cost_of(self.generated.instructions)


class CpuExecutable(CpuLowering):
    """A compiled Program: a function of the list of its inputs, ndarrays, to the list of its results.

    Inputs are not changed, except those marked as donated, whose memory results may be. Any number of threads may
    call it at the same time.
    """

    not_started = NotStartedError  # what `run` raises if donated arguments are as they were

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        super().__init__(program, donated)
        self._plain: dict[str, Any] | None = None
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            self._plain = load_source(self.generated.source, str(objects.keep_source(self.generated.source)))
        self.addresses: Mapping[str, int] = {} if self._plain is not None else _compiled(self.generated, self.fused)
        self._constants = [np.require(np.asarray(c), requirements=["C", "A"]) for c in self.schedule.values]
        self._slots = Slots(self.schedule, self.memory_plan.offsets, plan.leaves(self.generated.instructions))
        self.fresh, self.results = self._slots.fresh, self._slots.results
        if self._plain is not None:
            return
        cost = sum(block.cost * times for block, times in plan.repeated(self.blocks))
        assembler = Assembler(self._slots, self.addresses)
        assembler.add(self.blocks)
        self._calls, self._stacks = assembler.calls, assembler.stacks
        self.tape = Tape(
            assembler.finish(),
            release_gil=cost > machine_model.SHORT_CALL or plan.may_run_long(self.blocks),
            control=self._slots.control,
        )
        self._free: list[_CallState] = []

    # --- calling -----------------------------------------------------------------------------------------

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            given = [*args, *(np.empty(shape, dtype) for shape, dtype in self.fresh)]
        except (MemoryError, ValueError) as problem:
            raise self.too_large() from problem
        try:
            self.run(given)
        except NotStartedError as problem:
            raise self.too_large() from problem
        return [given[i] if shape is None else given[i].reshape(shape) for i, shape in self.results]

    def too_large(self) -> TooLargeError:
        """What to raise if there is no memory for results or temporaries."""
        results = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in self.fresh)
        sizes = [f"{nbytes / 2**30:,.1f} GiB" for nbytes in (results, self.memory_plan.arena_bytes)]
        return TooLargeError(
            f"{self.program.name or 'a jitted function'} needs {sizes[0]} for its results and {sizes[1]} for temporary "
            "arrays, for which there is no memory. `.lower(...).memory_plan` lists the temporaries. Check shapes: a "
            "broadcast of two vectors makes a matrix. lax.map or lax.scan goes through the parts of what is large"
        )

    def run(self, given: list[np.ndarray]) -> None:
        """Run on inputs followed by the memory of fresh results; then `results` tells where each result lies.

        An input whose memory cannot be used as it is (not contiguous, not aligned) is replaced by a copy.

        Raises:
            NotStartedError: there is no memory for temporaries or such copies. All inputs are as they were.
        """
        if self._plain is not None:
            self._run_plain(given, self._plain)
            return
        try:
            run, _, _ = context = self._free.pop()
        except IndexError:
            run, _, _ = context = self._new_context()
        status = run(given)  # if it raises, the context is of no use any more
        while status:
            if status > 0:
                given[status - 1] = self._usable(given[status - 1])
                status = run(given)
            else:
                settle(status)
                status = 0
        self._free.append(context)

    def _usable(self, given: np.ndarray) -> np.ndarray:
        try:
            return np.array(given, order="C", copy=True)
        except (MemoryError, ValueError) as problem:
            raise NotStartedError(str(self.too_large())) from problem

    def _new_context(self) -> _CallState:
        """Slots and an arena for one call at a time; stacks grow with the first ones, and stay as large."""
        try:
            arena = np.empty(self.memory_plan.arena_bytes + machine_model.CACHE_LINE, np.uint8)
        except (MemoryError, ValueError) as problem:
            raise NotStartedError(str(self.too_large())) from problem
        start = -(-arena.ctypes.data // machine_model.CACHE_LINE) * machine_model.CACHE_LINE
        slots = np.zeros(self._slots.count + self._slots.private, np.int64)
        for storage, slot in self._slots.numbers.items():
            if storage.kind == "arena":
                slots[slot] = start + self.memory_plan.offsets[storage]
            elif storage.kind == "const":
                slots[slot] = self._constants[storage.number].ctypes.data
        for name, slot in self._slots.handles.items():
            slots[slot] = named_handle(name)
        if self._stacks:
            weakref.finalize(arena, release_stacks, slots, self._stacks).atexit = False
        return _CallState(self.tape.bind(slots, self._slots.arrays), slots, arena)

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

    def measure(self, args: Sequence[np.ndarray], repeats: int = 20) -> list[tuple[plan.Instruction, int, float]]:
        """Each instruction, how often a call runs it, and its least time in ns on its own."""
        fresh = [np.empty(shape, dtype) for shape, dtype in self.fresh]
        arrays = [np.array(a, order="C", copy=True) for a in args] + fresh
        context = self._new_context()
        context.slots[: len(arrays)] = [a.ctypes.data for a in arrays]
        settle(self.tape.run(context.slots))  # so that what a kernel reads, such as an index, is what it will be
        measured = []
        slots = context.slots.copy()
        for block, times in self._started(self.blocks, slots, []):
            for instruction, scale in zip(block.instructions, block.scales):
                if isinstance(instruction.step, CallStep):
                    continue
                one = Assembler(self._slots, self.addresses)
                one.add([plan.Block(block.rows, [instruction], [scale], block.chunk, block.parallel)])
                run = Tape(one.entries, control=self._slots.control).bind(slots, 0)
                settle(run([]))
                measured.append((instruction, times, report.least_time(lambda: run([]), repeats)))  # noqa: B023
        return measured

    def _started(
        self,
        items: Sequence[plan.Block | plan.ControlPlan],
        slots: np.ndarray,
        scratch: list[np.ndarray],
        times: int = 1,
    ) -> Iterator[tuple[plan.Block, int]]:
        """All blocks and how often they run; the pointers of loops are set as for their first step."""
        for item in items:
            if isinstance(item, plan.Block):
                yield item, times
                continue
            for stack in item.step.stacks if isinstance(item.step, LoopStep) else ():
                scratch.append(np.zeros(2 * stack.pointer.nbytes, np.uint8))  # in the place of what grows
                slots[self._slots.of(stack.memory)] = scratch[-1].ctypes.data
                slots[self._slots.of(stack.pointer)] = scratch[-1].ctypes.data + stack.past
            for move in item.step.starts if isinstance(item.step, LoopStep) else ():
                slots[self._slots.of(move.target)] = slots[self._slots.of(move.source)] + move.offset
            for part, count in zip(item.parts, item.times):
                yield from self._started(part, slots, scratch, times * count)


class _CallState(NamedTuple):
    run: BoundTape
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


def _compiled(generated: CpuKernels, fused: bool) -> Mapping[str, int]:
    def make(path: str, exports: Mapping[str, str]) -> bytes:
        machine = import_module("functad.backends.cpu.compile.machine")  # takes the time that a warm cache saves
        signatures = {name: generated.signatures[name] for name in exports}
        compiled: bytes = machine.compile_kernels(generated.source, path, signatures, exports, fused=fused)
        return compiled

    texts = {name: f"fused\n{text}" for name, text in generated.keys.items()} if fused else generated.keys
    return kernels.get(generated.source, texts, make)
