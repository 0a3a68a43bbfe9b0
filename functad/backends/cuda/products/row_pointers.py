"""Where loops of steps move their pointers, as positions in memory: what a step reads and writes, without pointers.

Knows loops and their moves of pointers; nothing of products, nor of what threads share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine
from functad.lowering.nests.nest import Load, Nest, Store
from functad.lowering.steps import ControlStep, LoopStep, Step, UnlessSameStep

LoadOrStore = TypeVar("LoadOrStore", Load, Store)
MemoryPlace = Callable[[Buffer, Affine], tuple[Buffer, Affine]]


class NoRowsError(Exception):
    """A loop is not one of rows."""


def pointers_set_in(steps: Sequence[Step]) -> Iterator[Storage]:
    """The pointers that loops among steps set and move."""
    for step in steps:
        if isinstance(step, LoopStep):
            yield from (move.target.memory for move in (*step.starts, *step.moves))
        if isinstance(step, ControlStep):
            for part in step.parts:
                yield from pointers_set_in(part)


def descends(step: LoopStep) -> bool:
    """Whether a loop goes through memory from the end on."""
    return any(move.offset < 0 for move in step.moves)


def position_in_memory(step: LoopStep, index: Affine) -> Affine:
    """Which step of a loop it is, if `index` counts the places in memory that its steps go through."""
    return (step.length or 1) - 1 - index if descends(step) else index


class LoopPointers:
    """Where pointers are: in which memory, and how many bytes behind its begin."""

    def __init__(self) -> None:
        self._places: dict[Storage, tuple[Storage, Affine]] = {}

    def enter(self, step: LoopStep, index: Affine) -> dict[Storage, tuple[Storage, Affine]]:
        """Go into a loop; gives where pointers are at its first step."""
        if step.predicate is not None or step.condition or step.stacks or step.count or step.counters:
            raise NoRowsError
        for move in step.starts:
            storage, offset = self._of(move.source)
            self._places[move.target.memory] = storage, offset + move.offset
        before = dict(self._places)
        for move in step.moves:
            if move.target is not move.source:
                raise NoRowsError
            storage, offset = self._of(move.target)
            self._places[move.target.memory] = storage, offset + index * move.offset
        return before

    def leave(self, step: LoopStep, before: Mapping[Storage, tuple[Storage, Affine]]) -> None:
        """Go on behind a loop, where nobody uses the pointers that it moved."""
        for move in step.moves:
            self._places[move.target.memory] = _NOWHERE, before[move.target.memory][1]

    def _of(self, storage: Storage) -> tuple[Storage, Affine]:
        storage = storage.memory
        found = self._places.get(storage)
        if found is None:
            start = 0
            while storage.whole is not None:
                storage, start = storage.whole.memory, start + storage.start
            found = storage, Affine(start)
        if found[0] is _NOWHERE:
            raise NoRowsError
        return found

    def is_same(self, step: UnlessSameStep) -> bool:
        one, other = self._of(step.one), self._of(step.other)
        if one[0] is other[0] and one[1] != other[1]:
            raise NoRowsError
        return one[0] is other[0]

    def place(self, buffer: Buffer, offset: Affine) -> tuple[Buffer, Affine]:
        """The memory, and the position there, of an element of a buffer."""
        storage, begin = self._of(buffer.storage)
        size = buffer.dtype.itemsize
        if begin.constant % size or any(c % size for _, c in begin.terms):
            raise NoRowsError
        begin = Affine(begin.constant // size, [(s, c // size) for s, c in begin.terms])
        return Buffer(storage, (storage.nbytes // size,), buffer.dtype), offset + begin


_NOWHERE = Storage("nowhere", 0, "pointer", -1)


def on_memory(nest: Nest, place: MemoryPlace) -> Nest:
    """The nest with its accesses at other places."""

    def moved(s: LoadOrStore) -> LoadOrStore:
        buffer, offset = place(s.buffer, s.offset)
        return replace(s, buffer=buffer, offset=offset)

    statements = [moved(s) if isinstance(s, Load) else s for s in nest.statements]
    return replace(nest, statements=statements, stores=[moved(s) for s in nest.stores])
