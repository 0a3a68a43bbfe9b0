"""Blocks: which instructions run together, chunk by chunk of their rows, and which of them threads share.

Knows instructions by what they read and write; no text and no addresses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad import machine_model
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.steps import CallStep, ControlStep, LoopStep, Step, inner_steps
from functad.options import available_cores


@dataclass(eq=False)
class Instruction:
    """One call of a kernel over the range `0..n`.

    rows: for each storage how many elements belong to one step of the range, None where that is not one piece.
    cost: an estimate in ns on one thread. coarse: a call has a cost of its own, so that small chunks are slow.
    by_columns: threads had better share its columns, so it joins no block of rows, if waiting for each other is cheap.
    constants: the numbers that the kernel is given. offsets: with which element of its buffer each parameter begins.
    work: how many lines of the kernel's text run for a step of the range.
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
    by_columns: bool = False
    constants: tuple[np.generic, ...] = ()
    offsets: tuple[int, ...] = ()
    work: float = 0.0

    @property
    def arguments(self) -> list[tuple[Buffer, int]]:
        """The buffer of each parameter, and the element with which the parameter begins."""
        offsets = self.offsets or (0,) * len(self.parameters)
        return [(buffer, offset) for (_, buffer, _), offset in zip(self.parameters, offsets)]

    @property
    def storages(self) -> dict[Storage, bool]:
        """The storages it touches, and whether it writes to them."""
        touched: dict[Storage, bool] = {}
        for _, buffer, mode in self.parameters:
            if buffer.storage.is_data:
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
class ControlPlan:
    """A loop or branch: what the parts of its step have become, instructions or blocks."""

    step: ControlStep
    parts: list[list[Any]]
    by_rows: bool = False  # of a loop: each thread runs all steps over its chunk of the rows of the one block

    @property
    def times(self) -> list[int]:
        """How often each part runs, where that is known; else 1."""
        step = self.step
        if isinstance(step, LoopStep):
            return [step.length or 1, step.length or 1, 1]
        return [1] * len(self.parts)


def leaves(items: Sequence[Any]) -> Iterator[Any]:
    """The instructions, or blocks, in order, those of loops and branches included."""
    return (leaf for leaf, _ in with_repetitions(items))


def with_repetitions(items: Sequence[Any], times: int = 1) -> Iterator[tuple[Any, int]]:
    """The same, with how often each runs; every branch, and a loop of unknown length, once."""
    for item in items:
        if isinstance(item, ControlPlan):
            for part, count in zip(item.parts, item.times):
                yield from with_repetitions(part, times * count)
        else:
            yield item, times


def may_run_long(items: Sequence[Any]) -> bool:
    """Whether there is a loop of unknown length."""
    steps = [i.step for block in leaves(items) for i in block.instructions]
    steps += [item.step for item in items if isinstance(item, ControlPlan)]
    return any(isinstance(s, LoopStep) and s.predicate is not None for s in inner_steps(steps))


def make_blocks(
    instructions: Sequence[Instruction | ControlPlan], only_rows: bool = False
) -> list[Block | ControlPlan]:
    """Group consecutive instructions that work row by row on what they share; so, too, within loops and branches.

    only_rows: products are cut by rows, even where columns would be better for one of them.
    """
    blocks: list[Block | ControlPlan] = []
    for item in instructions:
        if isinstance(item, ControlPlan):
            blocks.append(_control_by_rows(item) or ControlPlan(item.step, [make_blocks(part) for part in item.parts]))
            continue
        last = blocks[-1] if blocks else None
        may_join = only_rows or not item.by_columns
        if not (may_join and isinstance(last, Block) and _join(last, item, only_rows)):
            blocks.append(block := Block(item.n, [], []))
            block.add(item, 1)
    for made in blocks:
        if isinstance(made, Block):
            _choose_chunks(made)
    return blocks


def _join(block: Block, new: Instruction, only_rows: bool) -> bool:
    rows = block.rows
    if block.instructions[0].by_columns and not only_rows:
        return False
    if rows < machine_model.FEWEST_ROWS or new.n < machine_model.FEWEST_ROWS:
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
    if cost < machine_model.SMALLEST_SHARE or block.rows < 2:
        block.chunk = max(block.rows, 1)
        return
    block.parallel = True
    pieces = 2
    if any(i.coarse for i in block.instructions):
        rows = min(block.rows * scale for i, scale in zip(block.instructions, block.scales) if i.coarse)
        most = max(available_cores()[0], rows // machine_model.PRODUCT_CHUNK_EXTENT)
        while 2 * pieces <= min(most, machine_model.MOST_PARTS) and cost / pieces > machine_model.COARSE_CHUNK:
            pieces *= 2
    else:
        pieces = max(2, min(int(cost / machine_model.SMALLEST_CHUNK), machine_model.MOST_PARTS))
        pieces = max(pieces, _bytes_read_again(block) // machine_model.SECOND_CACHE)
    block.chunk = _shared_evenly(block.rows, min(pieces, block.rows))


def _bytes_read_again(block: Block) -> int:
    """The size of what several instructions of a block touch row by row: rows of it had better stay in a cache."""
    times = Counter(storage for instruction in block.instructions for storage in instruction.storages)
    return sum(s.nbytes for s, count in times.items() if count > 1 and None not in block.touched[s][0])


def _shared_evenly(rows: int, pieces: int) -> int:
    """The rows of a chunk, of about so many chunks or up to twice as many if no core shall do more than the others.

    Of 28 rows in chunks of 4 the first of two cores does 16, in chunks of 2 both do 14.
    """
    cores = available_cores()[0]

    def most(chunk: int) -> int:
        full, rest = divmod(rows, chunk)
        return full // cores * chunk + (chunk if full % cores else rest)

    chunks = [-(-rows // n) for n in range(pieces, 2 * pieces + 1)]
    least = min(map(most, chunks))
    return next(chunk for chunk in chunks if most(chunk) <= machine_model.LITTLE_EXTRA_WORK * least)


# --- loops that run row by row --------------------------------------------------------------------------------


def _control_by_rows(loop: ControlPlan) -> ControlPlan | None:
    """A loop of which threads run all steps over rows of their own, without waiting for each other, if that can be.

    So it is if the body is one block, and what a step leaves in memory for the next one is left there row by row, too.
    If it is worth it, the block's chunks are chosen for the whole loop.
    """
    step = loop.step
    if not isinstance(step, LoopStep) or step.length is None:
        return None
    condition, body, after = loop.parts
    if any(isinstance(item, ControlPlan) for item in body):
        return None
    blocks = make_blocks(body, only_rows=True)
    block = blocks[0] if len(blocks) == 1 else None
    if not isinstance(block, Block) or any(isinstance(i.step, CallStep) for i in block.instructions):
        return None
    cost = block.cost * step.length
    pays = cost >= machine_model.SMALLEST_SHARE and block.cost <= machine_model.LONGEST_STEP
    if not pays or not _carried_by_rows(step, block):
        return None
    operands = {b.storage: b.nbytes for i in block.instructions for _, b, _ in i.parameters}
    shared = {s for i in block.instructions for s in i.storages if i.rows.get(s) is None}
    # As many chunks as there are cores, because small products are slow: chunks do not depend on the threads in use.
    fewest = machine_model.FEWEST_ROWS_OF_PRODUCTS if any(i.coarse for i in block.instructions) else 1
    pieces = min(available_cores()[0], int(cost / machine_model.SMALLEST_CHUNK), block.rows // fewest)
    if pieces < 2 or sum(operands[s] for s in shared) > machine_model.LARGEST_SHARED:
        return None
    block.parallel, block.chunk = True, -(-block.rows // pieces)
    return ControlPlan(step, [make_blocks(condition), blocks, make_blocks(after)], by_rows=True)


def _carried_by_rows(step: LoopStep, block: Block) -> bool:
    """Whether all memory that pointers move over, and that steps write to, is cut by rows in one way."""
    groups: dict[Storage, set[Storage]] = {}  # pointers that come to point to the same memory
    for move in (*step.starts, *step.moves):
        one, other = (groups.setdefault(s.memory, {s.memory}) for s in (move.target, move.source))
        if one is not other:
            one |= other
            groups.update((s, one) for s in other)
    for storage in block.touched:
        group = groups.get(storage.memory, {storage.memory})
        touched = [found for other, found in block.touched.items() if other.memory in group]
        pieces = {piece for found, _ in touched for piece in found}
        if any(written for _, written in touched) and (len(pieces) > 1 or None in pieces):
            return False
    return True
