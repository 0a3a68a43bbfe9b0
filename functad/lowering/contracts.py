"""What holds of a schedule: memory is written before it is read, every position lies within its buffer.

Knows steps, not how they came about. With `config.check_programs` every schedule is held to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad.errors import ProgramError
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.nest import POST
from functad.lowering.schedule import Schedule
from functad.lowering.steps import BranchStep, GemmStep, LoopStep, NestStep, PlainStep, Step, accesses


def check_schedule(schedule: Schedule) -> None:
    """Raise ProgramError unless all that is read was written before, and each result has memory of its own."""
    memory = _Memory()
    for buffer in (*schedule.inputs, *schedule.constants):
        memory.write(buffer.storage)
    memory.run(schedule.steps)
    for k, result in enumerate(schedule.outputs):
        if result.size:
            memory.read(result.storage, f"result {k}")
        for j, other in enumerate(schedule.outputs[:k]):
            if result.storage.memory is other.storage.memory:
                raise ProgramError(f"result {k} lies in the memory of result {j}: one of them must be a copy")


class _Memory:
    """Which memory has been written, at least in part. aliases: where a pointer may point."""

    def __init__(self) -> None:
        self.written: set[Storage] = set()
        self.aliases: dict[Storage, set[Storage]] = {}

    def places(self, storage: Storage) -> set[Storage]:
        """The memory that a storage is, or that it points to."""
        found: set[Storage] = set()
        waiting = [storage]
        while waiting:
            place = waiting.pop().memory
            if place not in found:
                found.add(place)
                waiting += [*self.aliases.get(place, ()), *([place.whole] if place.whole is not None else ())]
        return found

    def write(self, storage: Storage) -> None:
        self.written |= self.places(storage)

    def read(self, storage: Storage, who: str) -> None:
        if self.written.isdisjoint(self.places(storage)):
            raise ProgramError(f"{who} reads `{storage.name}`, which nothing has written")

    def point(self, pointer: Storage, at: Storage) -> None:
        self.aliases.setdefault(pointer.memory, set()).add(at)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, PlainStep):
                self._plain(step)
            elif isinstance(step, LoopStep):
                self._loop(step)
            elif isinstance(step, BranchStep):
                self.read(step.index.storage, step.name)
                for branch in step.branches:
                    self.run(branch)
            else:
                self.run(step.steps)

    def _plain(self, step: PlainStep) -> None:
        reads: list[Storage] = []
        writes: list[Storage] = []
        _check(step)
        for buffer, is_written in accesses(step):
            if buffer.size and buffer.storage.is_data:
                (writes if is_written else reads).append(buffer.storage)
        updates = isinstance(step, NestStep) and step.nest.update is not None
        own = set() if updates else set(writes)  # partial sums, which a nest starts itself
        for storage in reads:
            if storage not in own:
                self.read(storage, step.name)
        for storage in writes:
            self.write(storage)

    def _loop(self, step: LoopStep) -> None:
        for move in (*step.starts, *step.moves):
            self.point(move.target, move.source)
        for stack in step.stacks:
            self.point(stack.pointer, stack.memory)
        self.run(step.condition)
        if step.predicate is not None:
            self.read(step.predicate.storage, step.name)
        self.run(step.body)
        self.run(step.after)


def _check(step: PlainStep) -> None:
    """That a step alone is as it must be."""
    if isinstance(step, NestStep):
        nest = step.nest
        if not (nest.accumulators or any(nest.reduced)) and any(s.level == POST for s in nest.stores):
            raise ProgramError(f"{step.name} stores something after a reduction, and reduces nothing")
        if nest.carried not in nest.loops and nest.carries:
            raise ProgramError(f"{step.name} carries `{nest.carries[0].name}` along none of its loops")
        if nest.ordered and (nest.update is None or len(nest.stores) > 1):
            raise ProgramError(f"{step.name} has an order of its steps, but not one update and nothing else")
        for buffer, offset, _ in nest.accesses():
            if nest.points and not (0 <= offset.low and offset.high < buffer.size):
                reach = f"{offset.low} to {offset.high} of `{buffer.name}`"
                raise ProgramError(f"{step.name} reaches {reach}, which has {buffer.size} elements")
    elif isinstance(step, GemmStep):
        _check_matrices(step)


def _check_matrices(step: GemmStep) -> None:
    """That all matrices are of one dtype, and the last element of each lies within its buffer."""
    if len(dtypes := {b.dtype.name for b in (step.a, step.b, step.c)}) > 1:
        raise ProgramError(f"{step.name} multiplies matrices of the dtypes {', '.join(sorted(dtypes))}")
    a_rows, a_columns = (step.k, step.m) if step.ta else (step.m, step.k)
    b_rows, b_columns = (step.n, step.k) if step.tb else (step.k, step.n)
    for buffer, start, apart, rows, columns, ld in (
        (step.a, step.a_offset, step.a_batch, a_rows, a_columns, step.lda),
        (step.b, step.b_offset, step.b_batch, b_rows, b_columns, step.ldb),
        (step.c, step.c_offset, step.c_batch, step.m, step.n, step.ldc),
    ):
        if rows and columns and step.batch:
            last = start + (step.batch - 1) * apart + (rows - 1) * ld + columns - 1
            if not 0 <= last < buffer.size:
                raise ProgramError(f"{step.name} reaches {last} of `{buffer.name}`, which has {buffer.size} elements")
