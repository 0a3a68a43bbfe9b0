"""Runs the kernels of a Program with all stages in sight: compiled, or as plain Python, in memory filled with noise.

Knows the parts of the CPU backend; no program.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from functad.backends.cpu.executable import CpuExecutable
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.runtime.plain import load_source, run_plain
from functad.ir import Program
from functad.lowering import blocks as plan


class OpenExecutable(CpuLowering):
    """A Program lowered and compiled, never found on disk."""

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        super().__init__(program, donated)
        made = self.assembled()
        self.executable = CpuExecutable(made.plan, self.compiled(), lambda: self)

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self.executable(args)


def run_kernels(
    program: Program,
    args: Sequence[np.ndarray],
    donated: Sequence[bool],
    choose: random.Random,
    lowered: CpuLowering | None = None,
) -> tuple[list[np.ndarray], CpuLowering]:
    """The results, and what was run: the Program, lowered now if it has not been.

    Raises:
        AssertionError: an argument that was not donated was written to, or is a result.
    """
    lowered = lowered or CpuLowering(program, donated)
    source = lowered.generated.source
    functions = load_source(source, "random_program.py")
    outputs = lowered.schedule.outputs
    first = {b.storage: b for b in reversed(outputs) if b.storage.kind == "output"}
    storages = list(dict.fromkeys(b.storage for b in outputs if b.storage.kind == "output"))
    fresh = [np.frombuffer(b"Z" * first[s].nbytes, np.uint8).copy().view(first[s].dtype) for s in storages]
    given = [np.array(a, order="C") for a in args]

    def chunks(block: plan.Block) -> list[tuple[int, int]]:
        if block.chunk >= block.rows and any(f"in range({i.n}):" in source for i in block.instructions):
            return [(0, block.rows)]  # perhaps a range that is known, as it is never cut
        size = choose.choice([1, 1, 2, 3])
        pieces = [(start, min(start + size, block.rows)) for start in range(0, block.rows, size)]
        choose.shuffle(pieces)
        return pieces

    run_plain(
        lowered.schedule, lowered.blocks, lowered.memory_plan, functions, given,
        [x.reshape(first[s].shape) for x, s in zip(fresh, storages)], chunks,
    )  # fmt: skip
    memory = dict(zip(storages, fresh))
    results = []
    for k, buffer in enumerate(outputs):
        taken = buffer.storage.kind == "input"
        assert not taken or donated[buffer.storage.number], f"result {k} lies in an argument"
        got = given[buffer.storage.number] if taken else memory[buffer.storage]
        results.append(got.reshape(buffer.shape))
    for k, (now, before) in enumerate(zip(given, args)):
        same = np.array_equal(now, before, equal_nan=before.dtype.kind in "fc")
        assert same or donated[k], f"argument {k} was written to"
    return results, lowered
