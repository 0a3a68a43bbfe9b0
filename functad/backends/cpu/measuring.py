"""How long each kernel of a compiled Program takes on its own.

Knows executables and what they were lowered from; what is made of the times, `report` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from functad.backends.cpu import report
from functad.backends.cpu.executable import CpuExecutable
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.products.gemm import Matrix, gemm_block
from functad.backends.cpu.runtime.assemble import Assembler
from functad.backends.cpu.runtime.linking import with_addresses
from functad.backends.cpu.runtime.tape import Tape, settle
from functad.config import config
from functad.lowering import blocks as plan
from functad.lowering.steps import CallStep, LoopStep


class Measurer:
    """Runs the kernels of an executable one by one; `lowering` is what its plan was made from."""

    def __init__(self, executable: CpuExecutable, lowering: CpuLowering) -> None:
        self._executable, self._blocks = executable, lowering.blocks
        self._slots = lowering.assembled().slots

    def profile(self, args: Sequence[np.ndarray], repeats: int) -> report.Profile:
        """The least time of each kernel on its own, over all of its range and on all threads, beside its floor."""
        measured = self.measure(args, repeats)
        copies = [np.array(a, order="C", copy=True) for a in args]
        step = report.least_time(lambda: self._executable(copies), repeats)
        return report.profile_of(measured, step, _product_speed(), config.num_threads)

    def measure(self, args: Sequence[np.ndarray], repeats: int) -> list[tuple[plan.Instruction, int, float]]:
        """Each instruction, how often a call runs it, and its least time in ns on its own."""
        executable = self._executable
        fresh = [np.empty(shape, dtype) for shape, dtype in executable.fresh]
        arrays = [np.array(a, order="C", copy=True) for a in args] + fresh
        context = executable.new_context()
        context.slots[: len(arrays)] = [a.ctypes.data for a in arrays]
        settle(executable.tape.run(context.slots))  # so that what a kernel reads, such as an index, is what it will be
        measured = []
        slots = context.slots.copy()
        for block, times in self._started(self._blocks, slots, []):
            for instruction, scale in zip(block.instructions, block.scales):
                if isinstance(instruction.step, CallStep):
                    continue
                one = Assembler(self._slots)
                one.add([plan.Block(block.rows, [instruction], [scale], block.chunk, block.parallel)])
                entries = with_addresses(one.entries, executable.addresses)
                run = Tape(entries, token=self._slots.token).bind(slots, 0)
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
