"""The memory plan: where temporaries lie in one arena.

Knows blocks by what they touch, and when; no text and no addresses.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from functad import machine_model
from functad.lowering.blocks import Block, ControlPlan, Instruction
from functad.lowering.memory.buffers import Storage
from functad.lowering.steps import LoopStep, Stack


@dataclass(eq=False)
class MemoryPlan:
    """Where temporaries lie in the arena.

    arena_bytes: its size. live_bytes: the largest sum of what is alive at one time. offsets: of each storage.
    lifetimes: of each storage, the first and last block that use it. stacks: memory outside of it that grows.
    """

    arena_bytes: int
    live_bytes: int
    unshared_bytes: int
    offsets: dict[Storage, int]
    lifetimes: dict[Storage, tuple[int, int]]
    stacks: list[Stack] = field(default_factory=list)
    donated: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"arena: {self.arena_bytes:,} bytes; alive at once at most {self.live_bytes:,}; "
            f"without sharing {self.unshared_bytes:,}"
        ]
        for storage, offset in sorted(self.offsets.items(), key=lambda item: (item[1], self.lifetimes[item[0]])):
            first, last = self.lifetimes[storage]
            lines.append(f"  {offset:>10,} .. {offset + storage.nbytes:>10,}  blocks {first}..{last}  {storage.name}")
        for stack in self.stacks:
            lines.append(f"  grows: {stack.memory.name}, {stack.pointer.nbytes:,} bytes a step of its loop")
        lines += [f"  {result} takes the memory of {argument}" for argument, result in self.donated]
        return "\n".join(lines)


def plan_memory(items: Sequence[Block | ControlPlan]) -> MemoryPlan:
    """Give each temporary a place in one arena; two whose lifetimes do not meet may share it."""
    lifetimes: dict[Storage, tuple[int, int]] = {}
    blocks = _timeline(items)
    for time, block in enumerate(blocks):
        for storage in dict.fromkeys([*block.touched, *(s for i in block.instructions for s in i.storages)]):
            for one in (storage, storage.whole):
                if one is not None and one.kind == "arena":
                    first, _ = lifetimes.get(one, (time, time))
                    lifetimes[one] = (first, time)
    leaders = _leaders(blocks, lifetimes)
    spans = {s: span for s, span in lifetimes.items() if s.whole is None}  # how long a place is taken
    for storage, leader in leaders.items():
        spans[leader] = spans[leader][0], max(spans[leader][1], spans.pop(storage)[1])
    births: dict[int, list[Storage]] = {}
    deaths: dict[int, list[Storage]] = {}
    for storage, (first, last) in spans.items():
        births.setdefault(first, []).append(storage)
        deaths.setdefault(last, []).append(storage)
    free: list[tuple[int, int]] = []  # (offset, size), ordered, never adjacent
    offsets: dict[Storage, int] = {}
    top = live = most = 0
    for time in range(len(blocks)):
        for storage in sorted(births.get(time, []), key=lambda s: -s.nbytes):
            size = _rounded(storage.nbytes)
            offset = _take(free, size)
            if offset is None:
                offset, top = _extend(free, top, size)
            offsets[storage] = offset
            live += size
        most = max(most, live)
        for storage in deaths.get(time, []):
            _release(free, offsets[storage], _rounded(storage.nbytes))
            live -= _rounded(storage.nbytes)
    offsets.update((storage, offsets[leader]) for storage, leader in leaders.items())
    offsets.update((s, offsets[s.whole] + s.start) for s in lifetimes if s.whole is not None)
    unshared = sum(_rounded(s.nbytes) for s in lifetimes if s.whole is None)
    return MemoryPlan(top, most, unshared, offsets, lifetimes, _stacks(items))


def _stacks(items: Sequence[Block | ControlPlan]) -> list[Stack]:
    """The stacks of all loops."""
    loops = [item for item in items if isinstance(item, ControlPlan)]
    inner = [stack for loop in loops for part in loop.parts for stack in _stacks(part)]
    return [stack for loop in loops if isinstance(loop.step, LoopStep) for stack in loop.step.stacks] + inner


def _timeline(items: Sequence[Block | ControlPlan]) -> list[Block]:
    """All blocks in the order of their text, and before and behind each loop or branch one for what it holds.

    A temporary of a loop's body is written before it is read in each step; and of branches only one runs.
    """
    found: list[Block] = []
    for item in items:
        if isinstance(item, Block):
            found.append(item)
            continue
        hold = Block(0, [], [], touched={s.memory: (set(), False) for s in item.step.holds})
        found += [hold, *(block for part in item.parts for block in _timeline(part)), hold]
    return found


def _leaders(blocks: Sequence[Block], lifetimes: dict[Storage, tuple[int, int]]) -> dict[Storage, Storage]:
    """Temporaries that take the place of one that died earlier in the same block, and the first that had the place.

    Within a block threads are at different instructions. But where the rows of both have as many bytes, a thread
    finds in its chunk only what it has written itself.
    """
    leaders: dict[Storage, Storage] = {}
    for time, block in enumerate(blocks):
        last = {s: number for number, i in enumerate(block.instructions) for s in i.storages}
        known: set[Storage] = set()
        free: dict[int, list[Storage]] = {}
        for number, instruction in enumerate(block.instructions):
            places = _places_by_rows(block, instruction)
            for storage in places:
                if storage not in known and lifetimes[storage][0] == time and free.get(storage.nbytes):
                    dead = free[storage.nbytes].pop()
                    leaders[storage] = leaders.get(dead, dead)
                known.add(storage)
            for storage in places:
                if last[storage] == number and lifetimes[storage][1] == time:
                    free.setdefault(storage.nbytes, []).append(storage)
    return leaders


def _places_by_rows(block: Block, instruction: Instruction) -> list[Storage]:
    """The temporaries of an instruction of which each row of the block has a piece for itself, and no byte is left."""
    found = []
    own = (b for _, b, _ in instruction.parameters if b.storage.kind == "arena" and b.storage.whole is None)
    for buffer in dict.fromkeys(own):
        pieces, _ = block.touched.get(buffer.storage, (set(), False))
        if len(pieces) == 1 and None not in pieces:
            (piece,) = pieces
            if piece is not None and piece * block.rows * buffer.dtype.itemsize == buffer.storage.nbytes:
                found.append(buffer.storage)
    return list(dict.fromkeys(found))


def _rounded(nbytes: int) -> int:
    return max(-(-nbytes // machine_model.CACHE_LINE) * machine_model.CACHE_LINE, machine_model.CACHE_LINE)


def _take(free: list[tuple[int, int]], size: int) -> int | None:
    """The place of the smallest gap that fits."""
    fitting = [(gap, i) for i, (_, gap) in enumerate(free) if gap >= size]
    if not fitting:
        return None
    gap, i = min(fitting)
    offset = free[i][0]
    if gap == size:
        del free[i]
    else:
        free[i] = (offset + size, gap - size)
    return offset


def _extend(free: list[tuple[int, int]], top: int, size: int) -> tuple[int, int]:
    """A place at the end of the arena, which grows; a gap that lies there is used."""
    if free and sum(free[-1]) == top:
        offset, _ = free.pop()
        return offset, offset + size
    return top, top + size


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    i = bisect.bisect(free, (offset, 0))
    if i < len(free) and free[i][0] == offset + size:
        size += free.pop(i)[1]
    if i > 0 and sum(free[i - 1]) == offset:
        before, gap = free.pop(i - 1)
        offset, size = before, gap + size
        i -= 1
    free.insert(i, (offset, size))
