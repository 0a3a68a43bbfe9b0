"""Runs the kernels of a Program as plain Python on NumPy arrays: slow, with the same results, open to any debugger.

Knows schedules and generated source; no compiler. `NUMBA_DISABLE_JIT=1` makes every compiled function run this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.backends.walking import Address, Walker
from functad.dtypes import is_narrow_float
from functad.lowering.blocks import Block, ControlPlan, Instruction
from functad.lowering.memory.arena import MemoryPlan
from functad.lowering.memory.buffers import Buffer
from functad.lowering.python_functions import call_into
from functad.lowering.schedule import Schedule
from functad.lowering.steps import CallStep, GemmStep, LoopStep

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
        runner.places[buffer.storage] = Address(_bytes(array))
    for buffer, value in zip(schedule.constants, schedule.values):
        runner.places[buffer.storage] = Address(_bytes(np.ascontiguousarray(value)))
    outputs = dict.fromkeys(b.storage for b in schedule.outputs if b.storage.kind == "output")
    for storage, array in zip(outputs, fresh):
        runner.places[storage] = Address(_bytes(array))
    arena = np.empty(memory.arena_bytes, np.uint8)
    for storage, offset in memory.offsets.items():
        runner.places[storage] = Address(arena, offset)
    with np.errstate(all="ignore"):
        runner.run(blocks)


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


class _Runner(Walker):
    """Runs blocks, loops and branches on NumPy arrays of bytes."""

    def __init__(
        self, functions: Mapping[str, Callable[..., None]], chunks: Callable[[Block], Iterable[tuple[int, int]]]
    ) -> None:
        super().__init__()
        self.functions = functions
        self.chunks = chunks

    def run_leaf(self, item: Block) -> None:
        for start, stop in self.chunks(item):
            for instruction, scale in zip(item.instructions, item.scales):
                _run(instruction, self.flat, self.functions, start * scale, stop * scale)

    def run_control(self, plan: ControlPlan) -> None:
        if isinstance(plan.step, LoopStep) and plan.by_rows:
            self._loop_by_rows(plan.step, *plan.parts)
        else:
            super().run_control(plan)

    def _loop_by_rows(self, step: LoopStep, condition: list[Any], body: list[Any], after: list[Any]) -> None:
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

    def number(self, buffer: Buffer) -> Any:
        return self.flat(buffer)[0]

    def enlarged(self, memory: Any, nbytes: int) -> np.ndarray:
        kept = np.empty(0, np.uint8) if memory is None else memory
        return np.concatenate([kept, np.empty(nbytes - kept.size, np.uint8)])

    def size(self, memory: Any) -> int:
        return 0 if memory is None else int(memory.size)

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
    if step.panel:
        panels = b[: step.n * step.k].reshape(-1, step.k, step.panel)
        b = panels.swapaxes(1, 2).reshape(-1)  # transposed, as `tb` and `ldb` say
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
