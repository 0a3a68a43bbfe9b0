"""Prints a loop nest as the text of one Python function on flat pointers.

Knows the forms that LLVM turns into fast code; nothing of Programs, of memory or of Numba.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

from functad import machine_model
from functad.backends.cpu.kernels.carried_forms import CarriedColumns, CarriedRows
from functad.backends.cpu.kernels.columns_form import Columns
from functad.backends.cpu.kernels.form import CpuKernel, KernelForm
from functad.backends.cpu.kernels.streaming import LineStore, streamed
from functad.backends.cpu.kernels.tile import StreamedStore, tiled
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.affine import Symbol
from functad.lowering.nests.nest import POST, PRE, GatheringStore, Let, Load, Nest, Update, fresh, names_of
from functad.lowering.nests.printing import accumulated, depths, start_of_accumulator, updated
from functad.lowering.nests.reductions import (
    by_whole_numbers,
    columns_written_out,
    interchanged,
    names_in_nest,
    ones_counted,
    rows_written_out,
    unrolled,
)


def emit(nest: Nest, unread: Container[Storage] = ()) -> CpuKernel:
    """The kernel of a nest whose loops have been merged.

    unread: the results that no kernel reads.
    """
    for arranged in (
        columns_written_out,
        by_whole_numbers,
        ones_counted,
        unrolled,
        rows_written_out,
        tiled,
        interchanged,
        _reading_first,
    ):
        nest = arranged(nest)
    return _form_of(streamed(nest, unread)).kernel()


def _form_of(nest: Nest) -> KernelForm:
    """Which loops run within which others."""
    if nest.update is not None:
        return _UpdateForm(nest, nest.update)
    if nest.carried is not None:
        by_rows = nest.loops[-1] is nest.carried
        return CarriedRows(nest, nest.carried) if by_rows else CarriedColumns(nest, nest.carried)
    if any(nest.reduced) and not nest.reduced[-1] and nest.stores_totals and not _has_few_columns(nest):
        if all(kind_of(a.dtype) in "iufbc" and not is_narrow_float(a.dtype) for a in nest.accumulators):
            return Columns(nest)
    return _RowForm(nest)


class _RowForm(KernelForm):
    """Outer loops, within them accumulators, the reduction loops, and what follows from their results."""

    def _write(self) -> tuple[int, Symbol | None]:
        loops = [*self.outer, *self.inner]
        self._place(loops)
        base = len(self.outer)
        gathers = [s for s in self.nest.stores if isinstance(s, GatheringStore)]
        in_parts = bool(self.outer) and all(self.outer[0] in s.offset.symbols() for s in gathers)
        if not in_parts:
            self._start_gathered(gathers, 0)
        for depth, symbol in enumerate(self.outer):
            self._open(symbol, depth, parallel=depth == 0 and in_parts)
            if depth == 0 and in_parts:
                self._start_gathered(gathers, 1)
            self._statements(depth + 1, depth + 1)
        if not self.outer:
            self._statements(0, 0)
        if self.inner or self.nest.accumulators:
            for a in self.nest.accumulators:
                self._line(base, f"{a.name} = {start_of_accumulator(a)}")
            for depth, symbol in enumerate(self.inner, base):
                self._open(symbol, depth)
                self._statements(depth + 1, depth + 1)
            depth = len(loops)
            self._stores(PRE, depth)
            for a in self.nest.accumulators:
                self._line(depth, f"{a.name} = {accumulated(a, a.name, a.value)}")
            for s in self.nest.statements:
                if s.level == POST:
                    self._line(base, self._text(s))
            self._stores(POST, base)
        else:
            self._stores(PRE, base)
            self._stream(base)
        return (self.outer[0].extent, self.outer[0]) if in_parts else (1, None)

    def _stream(self, base: int) -> None:
        """Squares and lines of results go to memory as soon as they are complete; all are there when it ends."""
        for s in self.nest.stores:
            if isinstance(s, LineStore):
                self._line(base - 1, f"stream({s.room}, {self._place_of(s, {})}, {s.count})")
            elif isinstance(s, StreamedStore):
                place = f"{self._place_of(s, {})}, {s.pitch}, {s.count}"
                self._line(base - s.depth, f"stream_{s.side}({s.room}, {place})")
        if any(isinstance(s, (LineStore, StreamedStore)) for s in self.nest.stores):
            self._line(0, "store_fence()")

    def _start_gathered(self, gathers: list[GatheringStore], base: int) -> None:
        """What is gathered in memory, where that begins: a row of it."""
        for depth, symbol in enumerate(self.inner if gathers else [], base):
            self._open(symbol, depth)
        for s in gathers:
            self._line(base + len(self.inner), f"{self._element(s)} = {start_of_accumulator(s.accumulator)}")


class _UpdateForm(KernelForm):
    """Loops in their order around an update; what only those need that count stands under the condition for it."""

    def __init__(self, nest: Nest, update: Update) -> None:
        super().__init__(nest)
        self._update = update

    def _write(self) -> tuple[int, Symbol | None]:
        update, loops, owners = self._update, self.nest.loops, self.nest.owners
        self._place(loops)
        parallel = loops[0] if loops and loops[0] not in self.nest.ordered else None
        level = 0
        for depth in range(len(loops) + 1):
            if depth:
                self._open(loops[depth - 1], level, parallel=loops[depth - 1] is parallel)
                level += 1
            for s in self.nest.statements:
                if self._printed_depth(s) != depth:
                    continue
                if isinstance(s, Let) and s.names == (update.guard,):
                    self._line(level, f"if {s.text}:")
                    level += 1
                    continue
                self._line(level, self._text(s))
                if owners is not None and owners.name in names_of(s):
                    self._line(level, f"if ({owners.name} >= start) & ({owners.name} < stop):")
                    level += 1
        element = self._element(update)
        self._line(level, f"{element} = {updated(update, element)}")
        return owners.shares if owners else parallel.extent if parallel else 1, parallel


def _has_few_columns(nest: Nest) -> bool:
    """Whether the loops behind the reduced ones are too short for a vector."""
    last = max(d for d, r in enumerate(nest.reduced) if r)
    return math.prod(s.extent for s in nest.loops[last + 1 :]) < machine_model.FEWEST_COLUMNS


def _reading_first(nest: Nest) -> Nest:
    """The nest that reads what it updates as soon as it knows where: that takes longest, as it may lie anywhere."""
    update = nest.update
    if update is None or update.kind == "set":
        return nest
    known = {update.guard, nest.owners.name if nest.owners else "", *(s.name for s in update.offset.symbols())}
    at = 1 + max((k for k, s in enumerate(nest.statements) if not known.isdisjoint(names_of(s))), default=-1)
    before = Load(fresh("before", names_in_nest(nest)), update.buffer, update.offset, PRE)
    after = replace(update, value=updated(update, before.name), kind="set")
    reading = replace(nest, statements=[*nest.statements[:at], before, *nest.statements[at:]], stores=[after])
    within = max((d for d, s in enumerate(nest.loops, 1) if s in nest.ordered), default=0)
    is_known_before = depths(reading, {s: d for d, s in enumerate(nest.loops, 1)})[before] < within
    return nest if is_known_before else reading  # what a step updates is not what the one before has read
