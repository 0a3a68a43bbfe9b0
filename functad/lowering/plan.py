"""The plan: which instructions run chunk by chunk together, which threads may share, and where temporaries lie.

Knows instructions by what they read and write; no text and no addresses.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from functad.lowering.buffers import Buffer, Storage
from functad.lowering.schedule import Step

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
SMALLEST_SHARE = 12_000.0  # ns of work below which a block is not worth a second thread
CHUNK = 8_000.0  # ns of work in a chunk, at least
COARSE_CHUNK = 200_000.0  # ns of work above which a chunk with matrix products is cut once more
MOST_CHUNKS = 16
FEWEST_ROWS = 4


@dataclass(eq=False)
class Instruction:
    """One call of a kernel over the range `0..n`.

    rows: for each storage how many elements belong to one step of the range, None where that is not one piece.
    cost: an estimate in ns on one thread. coarse: a call has a cost of its own, so that small chunks are slow.
    """

    function: str
    parameters: tuple[tuple[str, Buffer, str], ...]
    n: int
    rows: dict[Storage, int | None]
    cost: float
    flops: float
    bytes: float
    step: Step
    coarse: bool = False

    @property
    def storages(self) -> dict[Storage, bool]:
        """The storages it touches, and whether it writes to them."""
        touched: dict[Storage, bool] = {}
        for _, buffer, mode in self.parameters:
            if buffer.storage.kind != "blas":
                touched[buffer.storage] = touched.get(buffer.storage, False) or mode != "r"
        return touched


@dataclass(eq=False)
class Block:
    """Instructions that run together over chunks of `rows`: each over `start·scale .. stop·scale` of its own range."""

    rows: int
    instructions: list[Instruction]
    scales: list[int]
    chunk: int = 0  # rows
    parallel: bool = False
    # How many elements of each storage belong to a row, by those who touch it (None: not one piece); whether written.
    touched: dict[Storage, tuple[set[float | None], bool]] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        return sum(i.cost for i in self.instructions)

    def add(self, instruction: Instruction, scale: int) -> None:
        """Put an instruction at the end."""
        self.instructions.append(instruction)
        self.scales.append(scale)
        for storage, writes in instruction.storages.items():
            pieces, written = self.touched.get(storage, (set(), False))
            mine = instruction.rows.get(storage)
            self.touched[storage] = (pieces | {None if mine is None else mine * scale}, written or writes)


@dataclass(eq=False)
class MemoryPlan:
    """Where temporaries lie in the arena.

    arena_bytes: its size. live_bytes: the largest sum of what is alive at one time. offsets: of each storage.
    lifetimes: of each storage, the first and last block that use it.
    """

    arena_bytes: int
    live_bytes: int
    unshared_bytes: int
    offsets: dict[Storage, int]
    lifetimes: dict[Storage, tuple[int, int]]
    donated: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"arena: {self.arena_bytes:,} bytes; alive at once at most {self.live_bytes:,}; "
            f"without sharing {self.unshared_bytes:,}"
        ]
        for storage, offset in sorted(self.offsets.items(), key=lambda item: (item[1], self.lifetimes[item[0]])):
            first, last = self.lifetimes[storage]
            lines.append(f"  {offset:>10,} .. {offset + storage.nbytes:>10,}  blocks {first}..{last}  {storage.name}")
        lines += [f"  {result} takes the memory of {argument}" for argument, result in self.donated]
        return "\n".join(lines)


def make_blocks(instructions: Sequence[Instruction]) -> list[Block]:
    """Group consecutive instructions that work row by row on what they share."""
    blocks: list[Block] = []
    for instruction in instructions:
        if not (blocks and _join(blocks[-1], instruction)):
            blocks.append(Block(instruction.n, [], []))
            blocks[-1].add(instruction, 1)
    for block in blocks:
        _choose_chunks(block)
    return blocks


def _join(block: Block, new: Instruction) -> bool:
    rows = block.rows
    if rows < FEWEST_ROWS or new.n < FEWEST_ROWS:
        return False
    if new.n % rows == 0:
        refine, scale = 1, new.n // rows
    elif rows % new.n == 0:
        refine, scale = rows // new.n, 1
    else:
        return False
    for storage, writes in new.storages.items():
        pieces, written = block.touched.get(storage, (set(), False))
        mine = new.rows.get(storage)
        if pieces and (writes or written) and (mine is None or pieces != {mine * scale / refine}):
            return False
    if refine > 1:
        block.rows //= refine
        block.scales = [s * refine for s in block.scales]
        block.touched = {s: (_refined(pieces, refine), written) for s, (pieces, written) in block.touched.items()}
    block.add(new, scale)
    return True


def _refined(pieces: set[float | None], refine: int) -> set[float | None]:
    return {None if p is None else p * refine for p in pieces}


def _choose_chunks(block: Block) -> None:
    """Chunks of equal numbers of rows: enough for all threads to share, large enough to be worth it."""
    cost = block.cost
    if cost < SMALLEST_SHARE or block.rows < 2:
        block.chunk = max(block.rows, 1)
        return
    block.parallel = True
    pieces = 2
    if any(i.coarse for i in block.instructions):
        while pieces < MOST_CHUNKS and cost / pieces > COARSE_CHUNK:
            pieces *= 2
    else:
        pieces = max(2, min(int(cost / CHUNK), MOST_CHUNKS))
    block.chunk = -(-block.rows // min(pieces, block.rows))


def plan_memory(blocks: Sequence[Block]) -> MemoryPlan:
    """Give each temporary a place in one arena; two whose lifetimes do not meet may share it."""
    lifetimes: dict[Storage, tuple[int, int]] = {}
    for time, block in enumerate(blocks):
        for instruction in block.instructions:
            for storage in instruction.storages:
                if storage.kind == "arena":
                    first, _ = lifetimes.get(storage, (time, time))
                    lifetimes[storage] = (first, time)
    births: dict[int, list[Storage]] = {}
    deaths: dict[int, list[Storage]] = {}
    for storage, (first, last) in lifetimes.items():
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
    return MemoryPlan(top, most, sum(_rounded(s.nbytes) for s in lifetimes), offsets, lifetimes)


def _rounded(nbytes: int) -> int:
    return max(-(-nbytes // ALIGNMENT) * ALIGNMENT, ALIGNMENT)


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
