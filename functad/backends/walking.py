"""Loops and branches of a plan, run from Python: pointers move over memory, and what stands between them is run.

Knows steps and storages; what memory is, and how a kernel runs, a backend says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.lowering.blocks import ControlPlan
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.steps import BranchStep, LoopStep, Move, Stack
from functad.records import NamedTuple


class Address(NamedTuple):
    """A piece of memory, and how many bytes behind its start."""

    memory: Any
    offset: int = 0


class Walker:
    """Runs a plan. places: the address of each storage; those of pointers change.

    A backend says how the items between loops and branches run, and what it takes to read and to get memory.
    """

    def __init__(self) -> None:
        self.places: dict[Storage, Address] = {}
        self.counts: dict[Storage, int] = {}  # how many steps a loop had whose stacks are in use

    def run_leaf(self, item: Any) -> None:
        """Run an instruction, or a block of them."""
        raise NotImplementedError

    def number(self, buffer: Buffer) -> Any:
        """The first element of a buffer."""
        raise NotImplementedError

    def enlarged(self, memory: Any, nbytes: int) -> Any:
        """Memory of so many bytes that begins with what there is; None is no memory."""
        raise NotImplementedError

    def size(self, memory: Any) -> int:
        """The bytes of memory, 0 for None."""
        raise NotImplementedError

    def run(self, items: Sequence[Any]) -> None:
        for item in items:
            if isinstance(item, ControlPlan):
                self.run_control(item)
            else:
                self.run_leaf(item)

    def run_control(self, plan: ControlPlan) -> None:
        step = plan.step
        if isinstance(step, LoopStep):
            self._loop(step, *plan.parts)
        elif isinstance(step, BranchStep):
            index = int(self.number(step.index))
            self.run(plan.parts[min(max(index, 0), len(plan.parts) - 1)])
        else:
            one, other = (self.places[s.memory] for s in (step.one, step.other))
            if one.memory is not other.memory or one.offset != other.offset:
                self.run(plan.parts[0])

    def move(self, moves: Sequence[Move]) -> None:
        for target, source, offset in moves:
            memory, start = self.places[source.memory]
            self.places[target.memory] = Address(memory, start + offset)

    def _loop(self, step: LoopStep, condition: list[Any], body: list[Any], after: list[Any]) -> None:
        for stack in step.stacks:
            self.places[stack.memory] = self.places[stack.pointer] = Address(None)
        self.move(step.starts)
        length = self.counts[step.count] if step.length is None and step.count in self.counts else step.length
        count = 0
        while self._holds(step.predicate, condition) if step.predicate is not None else count < (length or 0):
            self._grow(step.stacks, count)
            self.run(body)
            self.move(step.moves)
            count += 1
        if step.count is not None and step.predicate is not None:
            self.counts[step.count] = count
        self.run(after)

    def _holds(self, predicate: Buffer, condition: list[Any]) -> bool:
        self.run(condition)
        return bool(self.number(predicate))

    def _grow(self, stacks: Sequence[Stack], count: int) -> None:
        """Point to the slices of one more step, with room for them."""
        for memory, pointer, *_ in stacks:
            whole = self.places[memory].memory
            had = self.size(whole)
            if had < (count + 1) * pointer.nbytes:
                whole = self.enlarged(whole, had + max(had, 16 * pointer.nbytes))
                self.places[memory] = Address(whole)
            self.places[pointer] = Address(whole, count * pointer.nbytes)
