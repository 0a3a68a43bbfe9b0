"""From an optimised Program to kernels, a memory plan and a tape: everything up to machine code.

Knows how the parts fit together: schedule, kernels, blocks, arena, tape. A process that finds on disk what it needs
never imports this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.compile import shared_kernels as kernels
from functad.backends.cpu.kernels.generate import CpuKernels, generate
from functad.backends.cpu.kernels.weights import with_plain_weights, with_weights_of_loops
from functad.backends.cpu.products.blas import columns_of_places, has_routine, lanes_of_windows
from functad.backends.cpu.report import ShownKernels
from functad.backends.cpu.runtime.assemble import Assembler, Slots
from functad.backends.cpu.runtime.linking import Plan
from functad.config import config
from functad.editing.dead_code import eliminate_dead_code
from functad.ir import Program, Var
from functad.lowering import blocks as plan
from functad.lowering.contracts import check_schedule
from functad.lowering.memory.arena import MemoryPlan, plan_memory
from functad.lowering.schedule import Schedule, make_schedule
from functad.lowering.target import Machine
from functad.records import NamedTuple
from functad.system.numpy_sort import is_fast
from functad.system.once import imported


class Assembled(NamedTuple):
    """A plan, and the slots that it numbers."""

    plan: Plan
    slots: Slots


class CpuLowering(ShownKernels):
    """A Program as kernels and a memory plan, not compiled.

    kernels: the source of the kernels. memory_plan: where temporaries lie. cost: operations and bytes, by kernel.
    fused: whether any product may be added without being rounded first. names: what some variables are called.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = (), names: Mapping[Var, str] | None = None) -> None:
        self.fused: bool = config.fuse_multiply_add
        self.program = eliminate_dead_code(program)  # what is not used has no place to be written to
        machine = Machine(
            place_columns=columns_of_places, window_lanes=lanes_of_windows, has_routine=has_routine, has_sort=is_fast
        )
        self.schedule: Schedule = make_schedule(self.program, donated, machine, names)
        self.schedule.steps = with_weights_of_loops(with_plain_weights(self.schedule.steps))
        if config.check_programs:
            check_schedule(self.schedule)
        self.generated: CpuKernels = generate(self.schedule)
        self.blocks: list[plan.Block | plan.ControlPlan] = self.generated.blocks
        self.memory_plan: MemoryPlan = plan_memory(self.blocks)
        self.memory_plan.donated += [
            (self.schedule.inputs[result.storage.number].name, f"result {k}")
            for k, result in enumerate(self.schedule.outputs)
            if result.storage.kind == "input"
        ]

    def assembled(self) -> Assembled:
        """The tape, and the plan that it is a part of."""
        slots = self.slots()
        assembler = Assembler(slots)
        assembler.add(self.blocks)
        entries = assembler.finish()
        cost = sum(block.cost * times for block, times in plan.with_repetitions(self.blocks))
        arena, constants = [], []
        for storage, slot in slots.numbers.items():
            if storage.kind == "arena":
                arena.append((slot, self.memory_plan.offsets[storage]))
            elif storage.kind == "const":
                value = np.asarray(self.schedule.values[storage.number])
                constants.append((slot, np.require(value, requirements=["C", "A"])))
        made = Plan(
            name=self.program.name,
            kernels=kernels.kernel_keys(self._texts),
            entries=entries,
            release_gil=cost > machine_model.SHORT_CALL or plan.may_run_long(self.blocks),
            token=slots.token,
            fresh=slots.fresh,
            results=slots.results,
            arrays=slots.arrays,
            slots=slots.count + slots.private,
            arena=arena,
            arena_bytes=self.memory_plan.arena_bytes,
            constants=constants,
            handles=[(slot, name) for name, slot in slots.handles.items()],
            stacks=assembler.stacks,
        )
        return Assembled(made, slots)

    def slots(self) -> Slots:
        """A slot for each piece of memory."""
        return Slots(self.schedule, self.memory_plan.offsets, plan.leaves(self.generated.instructions))

    def compiled(self, meanwhile: Callable[[], object] = lambda: None) -> Mapping[str, int]:
        """The addresses of the kernels, which are compiled now if they have not been before: then calls `meanwhile`."""
        generated = self.generated

        def make(path: str, exports: Mapping[str, str]) -> bytes:
            machine = imported("functad.backends.cpu.compile.machine")  # takes the time that a warm cache saves
            signatures = {name: generated.signatures[name] for name in exports}
            made: bytes = machine.compile_kernels(
                generated.source, path, signatures, exports, fused=self.fused, meanwhile=meanwhile
            )
            return made

        return kernels.kernels_of(generated.source, self._texts, make)

    def machine_code(self) -> Any:
        """The kernels in LLVM IR and in assembly: compiled anew, so that each line knows its line of the source."""
        machine = imported("functad.backends.cpu.compile.machine")
        return machine.machine_code(self.generated.source, self.generated.signatures, fused=self.fused)

    @property
    def _texts(self) -> Mapping[str, str]:
        """Of each kernel a text that is equal for all that do the same."""
        texts = self.generated.keys
        return {name: f"fused\n{text}" for name, text in texts.items()} if self.fused else texts
