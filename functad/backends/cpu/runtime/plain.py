"""Runs the kernels of a Program as plain Python on NumPy arrays: slow, with the same results, open to any debugger.

Knows schedules and generated source; no compiler. `NUMBA_DISABLE_JIT=1` makes every compiled function run this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import Block, ControlPlan, Instruction
from functad.lowering.memory.arena import MemoryPlan
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.python_functions import call_into
from functad.lowering.schedule import Schedule
from functad.lowering.steps import BranchStep, CallStep, GemmStep, LoopStep, Move, Stack

_GEMM: dict[str, Callable[..., None]] = {
    "float32": gemm_scalars.gemm_f32,
    "float64": gemm_scalars.gemm_f64,
    "complex64": gemm_scalars.gemm_c64,
    "complex128": gemm_scalars.gemm_c128,
}


def load_source(source: str, path: str) -> dict[str, Any]:
    """The functions of a source file, under its path, so that tracebacks and debuggers show its lines."""
    namespace: dict[str, Any] = {}
    exec(compile(source, path, "exec"), namespace)
    return namespace


def run_plain(
    schedule: Schedule,
    blocks: Sequence[Block | ControlPlan],
    memory: MemoryPlan,
    functions: Mapping[str, Callable[..., None]],
    args: Sequence[np.ndarray],
    fresh: Sequence[np.ndarray],
    chunks: Callable[[Block], Iterable[tuple[int, int]]] | None = None,
) -> None:
    """Run all blocks in order; results are left in `fresh`, and in the arguments whose memory they take.

    chunks: the pieces of a block's rows, in the order in which they run; threads may run them in any order.
    """
    runner = _Runner(functions, chunks or chunks_of)
    for buffer, array in zip(schedule.inputs, args):
        runner.places[buffer.storage] = _Address(_bytes(array))
    for buffer, value in zip(schedule.constants, schedule.values):
        runner.places[buffer.storage] = _Address(_bytes(np.ascontiguousarray(value)))
    outputs = dict.fromkeys(b.storage for b in schedule.outputs if b.storage.kind == "output")
    for storage, array in zip(outputs, fresh):
        runner.places[storage] = _Address(_bytes(array))
    arena = np.empty(memory.arena_bytes, np.uint8)
    for storage, offset in memory.offsets.items():
        runner.places[storage] = _Address(arena, offset)
    with np.errstate(all="ignore"):
        runner.run(blocks)


class _Address(NamedTuple):
    """An address: a piece of memory, as bytes, and where in it."""

    memory: np.ndarray
    offset: int = 0


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


class _Runner:
    """Runs blocks, loops and branches. places: the address of each storage; those of pointers change."""

    def __init__(
        self, functions: Mapping[str, Callable[..., None]], chunks: Callable[[Block], Iterable[tuple[int, int]]]
    ) -> None:
        self.functions = functions
        self.chunks = chunks
        self.places: dict[Storage, _Address] = {}
        self.counts: dict[Storage, int] = {}  # how many steps a loop had whose stacks are in use

    def run(self, items: Sequence[Block | ControlPlan]) -> None:
        for item in items:
            if isinstance(item, Block):
                for start, stop in self.chunks(item):
                    for instruction, scale in zip(item.instructions, item.scales):
                        _run(instruction, self.flat, self.functions, start * scale, stop * scale)
            elif isinstance(item.step, LoopStep) and item.by_rows:
                self.loop_by_rows(item.step, *item.parts)
            elif isinstance(item.step, LoopStep):
                self.loop(item.step, *item.parts)
            elif isinstance(item.step, BranchStep):
                index = int(self.flat(item.step.index)[0])
                self.run(item.parts[min(max(index, 0), len(item.parts) - 1)])
            else:
                one, other = (self.places[s.memory] for s in (item.step.one, item.step.other))
                if one.memory is not other.memory or one.offset != other.offset:
                    self.run(item.parts[0])

    def loop_by_rows(self, step: LoopStep, condition: list[Any], body: list[Any], after: list[Any]) -> None:
        """Each chunk goes through all steps before the next one begins."""
        self.move(step.starts)
        before, chunks = self.places, self.chunks
        for chunk in list(chunks(body[0])):
            self.places, self.chunks = dict(before), lambda block, only=chunk: [only]  # type: ignore[misc]
            for _ in range(step.length or 0):
                self.run(body)
                self.move(step.moves)
        self.chunks = chunks
        self.run(after)

    def loop(self, step: LoopStep, condition: list[Any], body: list[Any], after: list[Any]) -> None:
        for stack in step.stacks:
            self.places[stack.memory] = self.places[stack.pointer] = _Address(np.empty(0, np.uint8))
        self.move(step.starts)
        if step.predicate is None:
            length = self.counts[step.count] if step.length is None and step.count is not None else step.length or 0
            for k in range(length):
                self.grow(step.stacks, k)
                self.run(body)
                self.move(step.moves)
        else:
            count = 0
            while self.holds(step, condition):
                self.grow(step.stacks, count)
                self.run(body)
                self.move(step.moves)
                count += 1
            if step.count is not None:
                self.counts[step.count] = count
        self.run(after)

    def holds(self, step: LoopStep, condition: list[Any]) -> bool:
        assert step.predicate is not None
        self.run(condition)
        return bool(self.flat(step.predicate)[0])

    def grow(self, stacks: Sequence[Stack], count: int) -> None:
        """Point to the slices of one more step, with room for them."""
        for memory, pointer, *_ in stacks:
            whole = self.places[memory].memory
            if whole.size < (count + 1) * pointer.nbytes:
                whole = np.concatenate([whole, np.empty(max(whole.size, 16 * pointer.nbytes), np.uint8)])
                self.places[memory] = _Address(whole)
            self.places[pointer] = _Address(whole, count * pointer.nbytes)

    def move(self, moves: Sequence[Move]) -> None:
        for target, source, offset in moves:
            memory, start = self.places[source.memory]
            self.places[target.memory] = _Address(memory, start + offset)

    def flat(self, buffer: Buffer) -> np.ndarray:
        """The elements of a buffer."""
        if not buffer.storage.is_data:
            return np.zeros(1, np.int64)
        memory, offset = self.places[buffer.storage.memory]
        return memory[offset : offset + buffer.storage.nbytes].view(buffer.dtype)


def chunks_of(block: Block) -> list[tuple[int, int]]:
    """The pieces of a block that threads take in turn."""
    step = block.chunk if block.parallel else max(block.rows, 1)
    return [(start, min(start + step, block.rows)) for start in range(0, block.rows, step)]


class _Narrow:
    """A pointer to floats of 16 bits, of which kernels read float32, and to which they write it, rounded."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __getitem__(self, i: int) -> np.float32:
        return np.float32(self._array[i])

    def __setitem__(self, i: int, value: np.float32) -> None:
        self._array[i] = value


def _pointer(array: np.ndarray) -> Any:
    return _Narrow(array) if is_narrow_float(array.dtype) else array


def _run(
    instruction: Instruction,
    flat: Callable[[Buffer], np.ndarray],
    functions: Mapping[str, Callable[..., None]],
    start: int,
    stop: int,
) -> None:
    step = instruction.step
    if isinstance(step, CallStep):
        ins, outs = ([flat(b).reshape(b.shape) for b in side] for side in (step.ins, step.outs))
        call_into(step.callback, ins, outs)
        return
    if not isinstance(step, GemmStep):
        pointers = [_pointer(flat(buffer)[offset:]) for buffer, offset in instruction.arguments]
        functions[instruction.function](*pointers, *instruction.constants, start, stop)
        return
    gemm = _GEMM[step.a.dtype.name]
    a, b, c = flat(step.a), flat(step.b), flat(step.c)
    by_rows = step.batch == 1
    for q in range(1) if by_rows else range(start, stop):
        first, m = (start, stop - start) if by_rows else (0, step.m)
        a_row = step.lda if not step.ta else 1
        a_at, b_at, c_at = step.a_offset + q * step.a_batch, step.b_offset + q * step.b_batch, step.c_offset
        c_at += q * step.c_batch
        gemm(
            None, step.ta, step.tb, m, step.n, step.k, step.alpha, a, a_at + first * a_row, step.lda, b, b_at,
            step.ldb, step.beta, c, c_at + first * step.ldc, step.ldc,
        )  # fmt: skip
