"""Executables whose kernels run as plain Python (`NUMBA_DISABLE_JIT=1`), for debuggers.

Knows that they take the place of compiled ones; how kernels run that way, `runtime.plain` knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.backends.cpu.compile import objects
from functad.backends.cpu.executable import CallableProgram
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.runtime.plain import load_source, run_plain
from functad.ir import Program


class PlainExecutable(CallableProgram):
    """As `CpuExecutable`, slowly."""

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        self._lowering = lowering = CpuLowering(program, donated)
        slots, source = lowering.slots(), lowering.generated.source
        super().__init__(program.name, slots.fresh, slots.results, lowering.memory_plan.arena_bytes)
        self._functions = load_source(source, str(objects.keep_source(source)))

    def run(self, given: list[np.ndarray]) -> bool:
        lowering = self._lowering
        count = len(lowering.schedule.inputs)
        given[:count] = [np.array(a, order="C", copy=True) for a in given[:count]]  # donated ones are read-only
        run_plain(
            lowering.schedule,
            lowering.blocks,
            lowering.memory_plan,
            self._functions,
            given[:count],
            given[count:],
        )
        return False
