"""Which loops are small enough for one function, and which of their memory becomes local variables.

Knows steps, and the pointers that loops move; no text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from functad import machine_model
from functad.lowering.blocks import ControlPlan
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import PRE, Nest
from functad.lowering.steps import (
    BranchStep,
    ControlStep,
    LoopStep,
    Move,
    NestStep,
    Step,
    UnlessSameStep,
    inner_steps,
    memory_touched,
)


class UnfitError(Exception):
    """The steps cannot, or should not, be one function."""


def is_unrolled(nest: Nest) -> bool:
    """Whether a nest is written out point by point."""
    few_results = nest.outer_points <= machine_model.MOST_UNROLLED_RESULTS
    return few_results and nest.points <= machine_model.MOST_UNROLLED_POINTS


def step_cost(step: LoopStep | BranchStep) -> float:
    """The estimated ns of a step of a loop, or of a branch; rows, which threads might share, weigh more."""
    repeated = [*step.condition, *step.body] if isinstance(step, LoopStep) else [step]
    by_rows = any(isinstance(s, NestStep) and not is_unrolled(s.nest) for s in inner_steps(repeated))
    return cost_of_steps(repeated)[2] * (machine_model.ROWS_WEIGH if by_rows else 1.0)


def cost_of_steps(steps: Sequence[Step]) -> tuple[float, float, float]:
    """Operations, bytes and estimated ns of loop nests, also within loops and branches; of other steps no end of ns."""
    flops = nbytes = ns = 0.0
    for step in steps:
        if isinstance(step, NestStep):
            costs, times = [cost_of_nest(step.nest)], [1]
        elif isinstance(step, ControlStep):
            costs, times = [cost_of_steps(part) for part in step.parts], ControlPlan(step, list(step.parts)).times
        else:
            return 0.0, 0.0, float("inf")
        flops += sum(cost[0] * count for cost, count in zip(costs, times))
        nbytes += sum(cost[1] * count for cost, count in zip(costs, times))
        ns += sum(cost[2] * count for cost, count in zip(costs, times))
    return flops, nbytes, ns


def cost_of_nest(nest: Nest) -> tuple[float, float, float]:
    """Operations, bytes and estimated ns."""
    work = work_of(nest)
    each = machine_model.OPERATION_NS * work.simple + machine_model.FUNCTION_NS * work.calls
    each *= machine_model.ONE_BY_ONE if work.one_by_one else 1.0
    ns = nest.points * each + work.bytes / machine_model.BYTES_PER_NS
    return work.flops, work.bytes, ns


def touched_by(steps: Iterable[Step]) -> Counter[Storage]:
    """How many places in these steps, and in all that they contain, use each piece of memory."""
    return Counter(s.memory for step in steps for s in _touched(step))


def _touched(step: Step) -> Iterator[Storage]:
    if isinstance(step, ControlStep):
        yield from step.holds
        if isinstance(step, LoopStep):
            yield from (s for m in (*step.starts, *step.moves) for s in (m.target, m.source))
            yield from [] if step.predicate is None else [step.predicate.storage]
        elif isinstance(step, BranchStep):
            yield step.index.storage
        for part in step.parts:
            for inner in part:
                yield from _touched(inner)
    else:
        yield from memory_touched(step)


class LoopLayout:
    """Where a small loop keeps its values.

    touched: how many places of the whole Program use each piece of memory.
    sliding: pointers that each step of their loop moves on by a stride. fixed: those that no step moves.
    memory: what cannot be variables. written: what nests write to. dtypes, sizes: of each storage, in elements.
    writes: for temporaries that no pointer ever points to, how many elements nests write in all.
    """

    def __init__(self, step: ControlStep, touched: Mapping[Storage, int]) -> None:
        steps = list(inner_steps([step]))
        loops = [s for s in steps if isinstance(s, LoopStep)]
        if any(loop.stacks or (loop.length is None and loop.predicate is None) for loop in loops):
            raise UnfitError
        self.starts = [m for loop in loops for m in loop.starts]
        self.moves = [m for loop in loops for m in loop.moves]
        moved = {m.target.memory for m in self.moves if m.target.memory is not m.source.memory}
        self.sliding = {m.target.memory for m in self.moves if m.target.memory is m.source.memory}
        self.fixed = {m.target.memory for m in self.starts} - moved - self.sliding
        pointers = moved | self.sliding | self.fixed
        if moved & self.sliding or any(m.offset for m in self.moves if m.target.memory in moved):
            raise UnfitError
        self.writes: Counter[Storage] = Counter()
        self.dtypes: dict[Storage, np.dtype] = {}
        self.sizes: dict[Storage, int] = {}
        self.written: set[Storage] = set()
        self.memory: set[Storage] = set()
        self._look_at(steps)
        self._spread_dtypes()
        for move in (*self.starts, *self.moves):
            self.writes[move.target.memory] = self.writes[move.source.memory] = 0
        here = touched_by([step])
        for storage in here:
            own = storage in pointers or (storage.kind == "arena" and here[storage] == touched[storage])
            if not own or storage in self.sliding or self.sizes.get(storage, 0) > machine_model.MOST_VARIABLES:
                self.memory.add(storage)
        self._spread_memory()
        if moved & self.memory:
            raise UnfitError  # buffers that change places

    def _look_at(self, steps: Sequence[Step]) -> None:
        statements = 0
        for step in steps:
            if isinstance(step, NestStep):
                nest = step.nest
                times = nest.points if is_unrolled(nest) else 1
                statements += times * (len(nest.statements) + len(nest.accumulators) + len(nest.stores))
                statements += times * (machine_model.STATEMENTS_OF_FUNCTION - 1) * work_of(nest).calls
                for store in nest.stores:
                    self.written.add(store.buffer.storage.memory)
                    self.writes[store.buffer.storage.memory] += nest.points if store.level == PRE else nest.outer_points
                for buffer, offset, _ in nest.accesses():
                    self._add(buffer)
                    if not _is_known(offset, nest):
                        self.memory.add(buffer.storage.memory)
            elif isinstance(step, LoopStep) and step.predicate is not None:
                self._add(step.predicate)
            elif isinstance(step, BranchStep):
                self._add(step.index)
            elif not isinstance(step, LoopStep | UnlessSameStep):
                raise UnfitError
        if statements > machine_model.MOST_STATEMENTS:
            raise UnfitError

    def _add(self, buffer: Buffer) -> None:
        storage = buffer.storage.memory
        if self.dtypes.setdefault(storage, buffer.dtype) != buffer.dtype:
            raise UnfitError
        self.sizes[storage] = max(self.sizes.get(storage, 0), buffer.size)

    def _spread_dtypes(self) -> None:
        """Pointers and what they point to hold elements of one dtype, and those that change places as many."""
        found = True
        while found:
            found = False
            for is_start, move in [*((True, m) for m in self.starts), *((False, m) for m in self.moves)]:
                target, source = move.target.memory, move.source.memory
                for one, other in ((target, source), (source, target)):
                    if one in self.dtypes and other not in self.dtypes:
                        self.dtypes[other], found = self.dtypes[one], True
                    if one in self.sizes and other not in self.sizes and not (is_start and other is target):
                        self.sizes[other], found = self.sizes[one], True
                    elif is_start and source in self.sizes and target not in self.sizes:
                        self.sizes[target] = target.nbytes // self.dtypes[source].itemsize
                        found = True

    def _spread_memory(self) -> None:
        """What a pointer that is no variable points to is none; what is written through a fixed pointer is written."""
        found = True
        while found:
            found = False
            for move in self.starts:
                target, source = move.target.memory, move.source.memory
                if target in self.memory and source not in self.memory:
                    self.memory.add(source)
                    found = True
                if target in self.fixed and target in self.written and source not in self.written:
                    self.written.add(source)
                    found = True

    def needed_moves(self, loop: LoopStep) -> list[Move]:
        """The moves after each step of a loop without those of pointers that nobody reads before they are written."""
        kept: list[Move] = []
        for move in reversed(loop.moves):
            target = move.target.memory
            is_spare = all(m.target.memory is not target for m in loop.starts)
            if is_spare and all(m.source.memory is not target for m in kept):
                continue
            if target in self.dtypes and not self.is_scratch(target, loop):
                kept.insert(0, move)
        return kept

    def is_scratch(self, storage: Storage, loop: LoopStep) -> bool:
        """Whether each step of a loop writes all of it before anything else, and nothing reads it after the loop."""
        if loop.predicate is not None and (storage is loop.predicate.storage.memory or storage in self.fixed):
            return False  # there may be no step, and what a fixed pointer points to is read after the loop
        if storage in touched_by([*loop.condition, *loop.after]):
            return False
        for step in loop.body:
            if storage not in touched_by([step]):
                continue
            if not isinstance(step, NestStep):
                return False
            modes = [writes for b, _, writes in step.nest.accesses() if b.storage.memory is storage]
            return all(modes) and len(modes) * step.nest.outer_points == self.sizes[storage]
        return False


def _is_known(offset: Affine, nest: Nest) -> bool:
    """Whether an access is to an element that is known where its nest is written out."""
    symbols = offset.symbols()
    if not is_unrolled(nest):
        return not symbols
    return all(s.base is not None or s in nest.loops for s in symbols)


def elements(move: Move, dtype: np.dtype) -> int:
    """How many elements a move goes on."""
    return move.offset // dtype.itemsize
