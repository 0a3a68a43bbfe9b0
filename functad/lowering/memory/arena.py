"""The memory plan: where temporaries lie in one arena.

Knows blocks by what they touch, and when; no text and no addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from functad import machine_model
from functad.lowering.blocks import Block, ControlPlan, Instruction
from functad.lowering.memory.buffers import Storage
from functad.lowering.steps import LoopStep, Stack


@dataclass(eq=False)
class MemoryPlan:
    """Where temporaries lie in the arena.

    arena_bytes: its size. live_bytes: the largest sum of what is alive at one time. offsets: of each storage.
    lifetimes: of each storage, the first and last block that use it. stacks: memory outside of it that grows.
    by_rows: the blocks of which each thread runs all steps of their loop over rows of its own.
    """

    arena_bytes: int
    live_bytes: int
    unshared_bytes: int
    offsets: dict[Storage, int]
    lifetimes: dict[Storage, tuple[int, int]]
    stacks: list[Stack] = field(default_factory=list)
    donated: list[tuple[str, str]] = field(default_factory=list)
    by_rows: list[int] = field(default_factory=list)

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
        lines += [f"  block {n}: each thread runs all steps of the loop over rows of its own" for n in self.by_rows]
        lines += [f"  {result} takes the memory of {argument}" for argument, result in self.donated]
        return "\n".join(lines)


def plan_memory(items: Sequence[Block | ControlPlan], least_shared: int = 0) -> MemoryPlan:
    """Give each temporary a place in one arena; two whose lifetimes do not meet may share it.

    least_shared: temporaries of fewer bytes in all share nothing, so that blocks that have no values in common may run
    at one time.
    """
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
    unshared = sum(_rounded(s.nbytes) for s in lifetimes if s.whole is None)
    offsets = _places(spans if unshared >= least_shared else dict.fromkeys(spans, (0, len(blocks))))
    top = max((offset + _rounded(s.nbytes) for s, offset in offsets.items()), default=0)
    most = _most_alive(spans, len(blocks))
    offsets.update((storage, offsets[leader]) for storage, leader in leaders.items())
    offsets.update((s, offsets[s.whole] + s.start) for s in lifetimes if s.whole is not None)
    plan = MemoryPlan(top, most, unshared, offsets, lifetimes, _stacks(items))
    by_rows = {*_run_by_rows(items)}
    plan.by_rows += [n for n, block in enumerate(blocks) if block in by_rows]
    return plan


def _run_by_rows(items: Sequence[Block | ControlPlan]) -> list[Block]:
    """The blocks that are bodies of loops in which threads do not wait for each other."""
    loops = [item for item in items if isinstance(item, ControlPlan)]
    inner = [block for loop in loops for part in loop.parts for block in _run_by_rows(part)]
    return [block for loop in loops if loop.by_rows for block in loop.parts[1]] + inner


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


def _places(spans: Mapping[Storage, tuple[int, int]]) -> dict[Storage, int]:
    """Offsets, lowest first, at which nothing lies that is alive at the same time; large ones choose before small ones.

    So small ones fill the gaps between large ones, and never keep a large one from the place of another.
    """
    order = sorted(spans, key=lambda s: (-_rounded(s.nbytes), spans[s]))
    first, last = np.array([spans[s] for s in order], np.int64).reshape(-1, 2).T
    starts, ends = np.zeros(len(order), object), np.zeros(len(order), object)  # Python's integers, of any size
    for k, storage in enumerate(order):
        (meeting,) = np.nonzero((first[:k] <= last[k]) & (last[:k] >= first[k]))
        size, place = _rounded(storage.nbytes), 0
        for other in meeting[np.argsort(starts[meeting], kind="stable")].tolist():
            if place + size <= starts[other]:
                break
            place = max(place, int(ends[other]))
        starts[k], ends[k] = place, place + size
    return dict(zip(order, starts.tolist()))


def _most_alive(spans: Mapping[Storage, tuple[int, int]], times: int) -> int:
    """The largest number of bytes that are alive at one time."""
    changes = [0] * (times + 1)
    for storage, (first, last) in spans.items():
        changes[first] += _rounded(storage.nbytes)
        changes[last + 1] -= _rounded(storage.nbytes)
    return max(accumulate(changes))
