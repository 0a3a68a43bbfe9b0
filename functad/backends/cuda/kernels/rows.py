"""Which nests a block computes together, row by row: what one leaves for a row, the next one finds in the caches.

Knows nests and where they read and write; no text. So a softmax, or a layer norm, is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.kernels.mapping import in_any_order, shared_bytes
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.dtypes import compute_dtype
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, loop, symbols_of
from functad.lowering.nests.nest import POST, PRE, Load, Nest, Statement, Store, names_of, uses_of
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import NestStep, Step


def joined_rows(steps: Sequence[Step], threads: int) -> list[Step | list[NestStep]]:
    """The steps in order, where those that are one kernel of rows are a list of nests, all cut into these rows.

    There is a reduction of rows among them, and enough rows for all blocks, or short ones. All accumulators of a group
    fit into a block's shared memory, where each has an element for each thread. What is gathered of all rows the group
    gathers of each, and what those parts come to follows behind it.
    """
    found: list[Step | list[NestStep]] = []
    ahead = _reductions_ahead(steps)
    k = 0
    while k < len(steps):
        reduction = ahead[k]
        group = _RowGroup(threads)
        if reduction is not None:
            group.extend(steps[k:], reduction - k)
        found += [group.steps, *group.behind] if len(group.steps) > 1 else [steps[k]]
        k += len(group.steps) if len(group.steps) > 1 else 1
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
    return _are_for_blocks(nest, rows) and in_any_order(nest)


def _are_for_blocks(nest: Nest, rows: int) -> bool:
    """Whether rows keep a GPU busy with a block for each: there are many, or they are short."""
    return rows >= machine_model.CUDA_FEWEST_ROWS or nest.points // rows <= machine_model.CUDA_SHORT_ROW


class _RowGroup:
    """Steps that are one kernel, cut into rows, and what follows once they have done all rows."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._memory, self._shared = _RowMemory(), 0
        self.steps: list[NestStep] = []
        self.behind: list[NestStep] = []

    def extend(self, steps: Sequence[Step], reduction: int) -> None:
        """Take the first steps, as many as fit; none unless they reach the reduction of rows at that place."""
        rows = next(s.nest.loops[0].extent for s in steps[reduction : reduction + 1] if isinstance(s, NestStep))
        for step in steps:
            if not isinstance(step, NestStep) or not self._take(step, rows):
                break
        if len(self.steps) <= reduction:
            self.steps, self.behind = [], []

    def _take(self, step: NestStep, rows: int) -> bool:
        cut, whole = _cut(step.nest, rows), None
        if cut is None and (apart := rows_apart(step.nest, rows)) is not None:
            cut, whole = apart
        if cut is None or not _are_for_blocks(cut, rows) or not self._may_wait(step):
            return False
        shared = self._shared + shared_bytes(cut, self._threads)
        if shared > machine_model.CUDA_SHARED_BYTES or not self._memory.takes(cut):
            return False
        self._shared = shared
        self.steps.append(replace(step, nest=cut))
        if whole is not None:
            self.behind.append(replace(step, name=f"{step.name}_whole", nest=whole))
        return True

    def _may_wait(self, step: NestStep) -> bool:
        """Whether what is behind all rows may run after a step: neither needs what the other one writes."""
        read, written = touched(step)
        return all(
            written.isdisjoint(one_read | one_written) and read.isdisjoint(one_written)
            for one_read, one_written in map(touched, self.behind)
        )


def touched(step: NestStep) -> tuple[set[Storage], set[Storage]]:
    """The memory that a nest reads, and that it writes."""
    accesses = step.nest.accesses()
    read, written = ({b.storage.memory for b, _, is_write in accesses if is_write is kind} for kind in (False, True))
    return read, written


def rows_apart(nest: Nest, rows: int) -> tuple[Nest, Nest] | None:
    """What a nest that reduces all rows does of each, leaving what its row comes to, and what follows from that.

    None for any other nest, and where more follows than from what has been gathered.
    """
    if not nest.accumulators or not nest.loops or not all(nest.reduced) or not in_any_order(nest):
        return None
    if nest.update or nest.carries or nest.loops[0].extent != rows:
        return None
    before = {name for s in nest.statements if s.level == PRE for name in names_of(s)}
    after = [s for s in nest.statements if s.level == POST]
    if any(not before.isdisjoint(uses_of(s)) for s in after) or any(
        s.value in before for s in nest.stores if s.level == POST
    ):
        return None
    row, is_short = nest.loops[0], len(nest.loops) == 1
    place = Affine(0, [(row, 1)])
    buffers = {a: new_buffer(f"rows_{a.name}", (rows,), compute_dtype(a.dtype)) for a in nest.accumulators}
    parts = [Store(b, place, a.value if is_short else a.name, PRE if is_short else POST) for a, b in buffers.items()]
    each = replace(
        nest,
        reduced=[False, *nest.reduced[1:]],
        statements=[s for s in nest.statements if s.level == PRE],
        accumulators=[] if is_short else nest.accumulators,
        stores=[*(s for s in nest.stores if s.level == PRE), *parts],
    )
    loads: list[Statement] = [Load(f"row_{a.name}", b, place, PRE) for a, b in buffers.items()]
    whole = replace(
        nest,
        loops=[row],
        reduced=[True],
        statements=[*loads, *after],
        accumulators=[replace(a, value=f"row_{a.name}") for a in nest.accumulators],
        stores=[s for s in nest.stores if s.level == POST],
    )
    return each, whole


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
        loops=[*symbols_of(row, column), *nest.loops[1:]],
        reduced=[False, *nest.reduced],
        statements=[at_point(s, at, {}) for s in nest.statements],
        stores=[store_at(s, at, {}) for s in nest.stores],
    )


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
