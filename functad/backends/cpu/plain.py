"""Runs the kernels of a Program as plain Python on NumPy arrays: slow, with the same results, open to any debugger.

Knows schedules and generated source; no compiler. `NUMBA_DISABLE_JIT=1` makes every compiled function run this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.cpu import gemm_scalars
from functad.lowering.buffers import Buffer, Storage
from functad.lowering.plan import Block, Instruction, MemoryPlan
from functad.lowering.schedule import GemmStep, Schedule

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
    blocks: Sequence[Block],
    memory: MemoryPlan,
    functions: Mapping[str, Callable[..., None]],
    args: Sequence[np.ndarray],
    fresh: Sequence[np.ndarray],
    chunks: Callable[[Block], Iterable[tuple[int, int]]] | None = None,
) -> None:
    """Run all blocks in order; results are left in `fresh`, and in the arguments whose memory they take.

    chunks: the pieces of a block's rows, in the order in which they run; threads may run them in any order.
    """
    arena = np.empty(memory.arena_bytes, np.uint8)
    constants = [np.ascontiguousarray(c) for c in schedule.program.consts]
    outputs = [b.storage for b in dict.fromkeys(b for b in schedule.outputs if b.storage.kind == "output")]
    of_output = dict(zip(dict.fromkeys(outputs), fresh))

    def flat(buffer: Buffer) -> np.ndarray:
        storage: Storage = buffer.storage
        if storage.kind == "input":
            return args[storage.number].reshape(-1)
        if storage.kind == "output":
            return of_output[storage].reshape(-1)
        if storage.kind == "const":
            return constants[storage.number].reshape(-1)
        if storage.kind == "blas":
            return np.zeros(1, np.int64)
        offset = memory.offsets[storage]
        return arena[offset : offset + storage.nbytes].view(buffer.dtype)

    with np.errstate(all="ignore"):
        for block in blocks:
            for start, stop in (chunks or chunks_of)(block):
                for instruction, scale in zip(block.instructions, block.scales):
                    _run(instruction, flat, functions, start * scale, stop * scale)


def chunks_of(block: Block) -> list[tuple[int, int]]:
    """The pieces of a block that threads take in turn."""
    step = block.chunk if block.parallel else max(block.rows, 1)
    return [(start, min(start + step, block.rows)) for start in range(0, block.rows, step)]


class _Halves:
    """A pointer to float16, of which kernels read float32 and to which they write it, rounded."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __getitem__(self, i: int) -> np.float32:
        return np.float32(self._array[i])

    def __setitem__(self, i: int, value: np.float32) -> None:
        self._array[i] = value


def _pointer(array: np.ndarray) -> Any:
    return _Halves(array) if array.dtype == np.float16 else array


def _run(
    instruction: Instruction,
    flat: Callable[[Buffer], np.ndarray],
    functions: Mapping[str, Callable[..., None]],
    start: int,
    stop: int,
) -> None:
    step = instruction.step
    if not isinstance(step, GemmStep):
        pointers = [_pointer(flat(b)) for _, b, _ in instruction.parameters]
        functions[instruction.function](*pointers, start, stop)
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
