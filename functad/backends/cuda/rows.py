"""Which nests a block computes together, row by row: what one leaves for a row, the next one finds in the caches.

Knows nests and where they read and write; no text. So a softmax, or a layer norm, is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.mapping import in_any_order, shared_bytes
from functad.backends.cuda.vectors import PLAIN_MEMORY
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.nest import Nest, names_of
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import NestStep, Step


def joined_rows(steps: Sequence[Step], threads: int) -> list[Step | list[NestStep]]:
    """The steps in order, where those that are one kernel of rows are a list of nests, all cut into these rows.

    There is a reduction of rows among them, and enough rows for all blocks, or short ones. All accumulators of a group
    fit into a block's shared memory, where each has an element for each thread.
    """
    found: list[Step | list[NestStep]] = []
    ahead = _reductions_ahead(steps)
    k = 0
    while k < len(steps):
        reduction = ahead[k]
        group = _group(steps[k:], reduction - k, threads) if reduction is not None else []
        found.append(group if len(group) > 1 else steps[k])
        k += max(len(group), 1)
    return found


def _reductions_ahead(steps: Sequence[Step]) -> list[int | None]:
    """For each step the first reduction of rows from there on that only nests come before."""
    found: list[int | None] = []
    ahead: int | None = None
    for k in reversed(range(len(steps))):
        step = steps[k]
        if not isinstance(step, NestStep):
            ahead = None
        elif _reduces_rows(step.nest):
            ahead = k
        found.append(ahead)
    return found[::-1]


def _reduces_rows(nest: Nest) -> bool:
    """Whether a nest reduces rows that blocks may do one after another, with all else of them."""
    rows = nest.loops[0].extent if nest.loops else 0
    if not rows or not nest.accumulators or nest.reduced[0] or not all(nest.reduced[1:]):
        return False
    short = nest.points // rows <= machine_model.CUDA_SHORT_ROW
    return (short or rows >= machine_model.CUDA_FEWEST_ROWS) and in_any_order(nest)


def _group(steps: Sequence[Step], reduction: int, threads: int) -> list[NestStep]:
    """The longest group that begins with the first step; none unless it reaches the reduction at that place."""
    (rows,) = (step.nest.loops[0].extent for step in steps[reduction : reduction + 1] if isinstance(step, NestStep))
    group: list[NestStep] = []
    memory, shared = _RowMemory(), 0
    for step in steps:
        cut = _cut(step.nest, rows) if isinstance(step, NestStep) else None
        shared += 0 if cut is None else shared_bytes(cut, threads)
        if cut is None or shared > machine_model.CUDA_SHARED_BYTES or not memory.takes(cut):
            break
        assert isinstance(step, NestStep)
        group.append(replace(step, nest=cut))
    return group if len(group) > reduction else []


def _cut(nest: Nest, rows: int) -> Nest | None:
    """The nest with a loop over so many rows as its first one; None if it has none, or a row is not a block's work."""
    if nest.update or nest.carries or not nest.loops or nest.reduced[0] or not in_any_order(nest):
        return None
    if nest.accumulators and not all(nest.reduced[1:]):
        return None
    first = nest.loops[0]
    if first.extent == rows:
        return nest
    if first.extent % rows or nest.accumulators:
        return None
    taken = {s.name for s in nest.loops} | {name for s in nest.statements for name in names_of(s)}
    name = "row"
    while name in taken:
        name += "_"
    row, column = loop(name, rows), loop(first.name, first.extent // rows)
    at = {first: row * (first.extent // rows) + column}
    return replace(
        nest,
        loops=[_symbol(row), _symbol(column), *nest.loops[1:]],
        reduced=[False, *nest.reduced],
        statements=[at_point(s, at, {}) for s in nest.statements],
        stores=[store_at(s, at, {}) for s in nest.stores],
    )


def _symbol(index: Affine) -> Symbol:
    ((symbol, _),) = index.terms
    return symbol


class _RowMemory:
    """What the nests of a group read and write: what is written lies in rows apart, for all who touch it."""

    def __init__(self) -> None:
        self._touched: dict[Storage, list[tuple[Buffer, int | None, bool]]] = {}

    def takes(self, nest: Nest) -> bool:
        """Whether one more nest fits to those before; it is one of the group then."""
        touched = {storage: list(found) for storage, found in self._touched.items()}
        for buffer, offset, is_written in nest.accesses():
            storage = buffer.storage
            if storage.kind not in PLAIN_MEMORY or storage.whole is not None:
                return False
            touched.setdefault(storage, []).append((buffer, _row_length(offset, nest.loops[0]), is_written))
        for found in touched.values():
            kinds = {(buffer.dtype, length) for buffer, length, _ in found}
            shared = len(found) > 1 and any(is_written for _, _, is_written in found)
            if len({dtype for dtype, _ in kinds}) > 1 or shared and (len(kinds) > 1 or None in {n for _, n in kinds}):
                return False
        self._touched = touched
        return True


def _row_length(offset: Affine, row: Symbol) -> int | None:
    """How many elements apart rows lie, if positions of a row are among those of no other one."""
    length = offset.coefficient(row)
    within = offset - Affine(0, [(row, length)] if length else [])
    apart = length > 0 and row not in within.symbols() and 0 <= within.low and within.high < length
    return length if apart else None
