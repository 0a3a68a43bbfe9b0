"""Prints a loop nest as the text of one Python function on flat pointers.

Knows the forms that LLVM turns into fast code; nothing of Programs, of memory or of Numba.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from functad import machine_model
from functad.backends.cpu.kernels.streaming import LineStore, streamed
from functad.backends.cpu.kernels.tile import LineStart, PackedTile, Square, StreamedStore, TransposedStore, tiled
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, linear, loop
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import (
    POST,
    PRE,
    Carried,
    GatheringStore,
    IndexLet,
    Let,
    Load,
    Nest,
    Statement,
    Store,
    Update,
    fresh,
    names_of,
)
from functad.lowering.nests.phases import Phase, phases_of
from functad.lowering.nests.printing import (
    accumulated,
    carried_on,
    depths,
    kernel_parameters,
    start_of,
    start_of_accumulator,
    updated,
)
from functad.lowering.nests.reductions import (
    at_point,
    by_whole_numbers,
    columns_written_out,
    interchanged,
    names_in_nest,
    names_that_change,
    ones_counted,
    rows_written_out,
    store_at,
    unrolled,
)
from functad.primitives.loops.text import cast


@dataclass(frozen=True)
class CpuKernel:
    """The text of a kernel below its name, and what it runs over.

    parameters: (name, buffer, "r" | "w" | "rw"). n: the extent of the parallel range. row: how many elements of each
    buffer belong to one step of the range, or None where that is not one contiguous piece. constants: the numbers that
    it is given, by name. offsets: of each parameter, how many elements behind the start of its buffer it begins.
    """

    body: str
    parameters: tuple[tuple[str, Buffer, str], ...]
    n: int
    rows: dict[Storage, int | None]
    constants: Mapping[str, np.generic] = field(default_factory=dict)
    offsets: tuple[int, ...] = ()


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
    return _CpuEmitter(streamed(nest, unread)).kernel()


class _CpuEmitter:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.lines: list[str] = []
        self.parameters = kernel_parameters(nest)
        self.first = first_elements(nest)
        self.depth_of: dict[str, int] = {}  # of every name: how many loops it lies in
        self.inner = [s for s, r in zip(nest.loops, nest.reduced) if r or s is nest.carried]
        self.outer = [s for s in nest.loops if s not in self.inner]
        self.totals: dict[Carried, Store] = {}  # where each value lies that is carried in memory
        self.shared: Symbol | None = None  # the loop that threads share where values are carried in memory
        self.together = 1  # how many of its steps are one step of the parallel range

    def kernel(self) -> CpuKernel:
        if self.nest.update is not None:
            return self._finished(*self._updates(self.nest.update))
        if self.nest.carried is not None:
            by_rows = self.nest.loops[-1] is self.nest.carried
            return self._finished(*(self._rows() if by_rows else self._carried_columns()))
        by_columns = bool(self.inner) and bool(self.outer) and self.nest.loops[-1] is self.outer[-1]
        by_columns = by_columns and self.nest.stores_totals and not self._has_few_columns()
        if by_columns and all(
            kind_of(a.dtype) in "iufbc" and not is_narrow_float(a.dtype) for a in self.nest.accumulators
        ):
            return self._finished(*self._columns())
        return self._finished(*self._rows())

    def _finished(self, n: int, first: Symbol | None) -> CpuKernel:
        body = "\n".join(self.lines) + "\n"
        offsets = tuple(self.first[storage] for storage in self.parameters)
        return CpuKernel(
            body, tuple(self.parameters.values()), n, self._row_sizes(first), self.nest.used_constants(), offsets
        )

    def _has_few_columns(self) -> bool:
        """Whether the loops behind the reduced ones are too short for a vector."""
        last = max(d for d, r in enumerate(self.nest.reduced) if r)
        return math.prod(s.extent for s in self.nest.loops[last + 1 :]) < machine_model.FEWEST_COLUMNS

    # --- forms -------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[int, Symbol | None]:
        """Outer loops, within them accumulators, the reduction loops, and what follows from their results."""
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
        if self.nest.carried is not None:
            self._carry_along(self.nest.carried, base)
        elif self.inner or self.nest.accumulators:
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

    def _updates(self, update: Update) -> tuple[int, Symbol | None]:
        """Loops in their order around an update; what only those need that count stands under the condition for it."""
        loops, owners = self.nest.loops, self.nest.owners
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

    def _carry_along(self, carried: Symbol, base: int) -> None:
        """The totals in registers: blocks of a row in phases, or, of short rows, one step after another."""
        phases, are_real = None, all(kind_of(c.dtype) != "c" for c in self.nest.carries)
        if are_real and carried.extent >= machine_model.FLOATS_OF_VECTOR:
            moving = {name for name, depth in self.depth_of.items() if depth == base + 1}
            phases = phases_of(self.nest, carried, moving)
        if phases is not None:
            self._in_blocks(phases, carried, base)
            return
        self._step({carried: Affine(0)}, [], base)
        if carried.extent > 1:
            self._line(base, f"for {carried.name} in range(1, {carried.extent}):")
            self._step({}, [], base + 1)

    def _in_blocks(self, phases: list[Phase], carried: Symbol, base: int) -> None:
        """Blocks of a row; between its phases what is carried lies in a room of its own, or where it is stored."""
        taken = names_in_nest(self.nest)
        size, chains = min(machine_model.RUNNING_BLOCK, carried.extent), [c for p in phases for c in p.chains]
        block = loop(fresh(f"{carried.name}_block", taken), -(-carried.extent // size))
        within, count = loop(fresh(f"{carried.name}_in_block", taken), size), str(size)
        so_far = [fresh(f"{chain.carried.name}_so_far", taken) for chain in chains]
        rooms = {c.carried: fresh(f"room_of_{c.carried.name}", taken) for c in chains if not (c.source and c.target)}
        for chain, name in zip(chains, so_far):
            if chain.carried in rooms:
                self._line(base, f"{rooms[chain.carried]} = room_{cast(chain.carried.dtype)}()")
            self._line(base, f"{name} = {start_of(chain.carried)}")
        if block.terms:
            count = fresh(f"{carried.name}_count", taken)
            self._line(base, f"for {block.text()} in range({block.high + 1}):")
            base += 1
            self._line(base, f"{count} = minimum({size}, {carried.extent} - {(block * size).text()})")
        for phase in phases:
            self._phase(phase, rooms, {carried: block * size + within}, within.text(), count, base)
            for chain in phase.chains:
                ways = [
                    self._place_of(at, {carried: block * size}) if at else f"{rooms[chain.carried]}, 0"
                    for at in (chain.source, chain.target)
                ]
                name = so_far[chains.index(chain)]
                self._line(base, f"{name} = running_{chain.carried.kind}({', '.join(ways)}, {count}, {name})")

    def _phase(
        self, phase: Phase, rooms: dict[Carried, str], at: dict[Symbol, Affine], within: str, count: str, base: int
    ) -> None:
        """One phase of a block: a loop, unless there is nothing to do."""
        lines = [
            f"{s.name} = {rooms[s]}[{within}]" if isinstance(s, Carried) else self._text(at_point(s, at, {}))
            for s in phase.statements
        ]
        lines += [f"{rooms[c]}[{within}] = {c.value}" for c, source, _ in phase.chains if source is None]
        if lines or phase.stores:
            self._line(base, f"for {within} in range({count}):")
        for line in lines:
            self._line(base + 1, line)
        for store in phase.stores:
            self._store(store_at(store, at, {}), base + 1)

    def _place_of(self, access: Load | Store, at: dict[Symbol, Affine]) -> str:
        """The array of an access, and which element of it."""
        storage = access.buffer.storage
        return f"{self.parameters[storage][0]}, {(access.offset.substitute(at) - self.first[storage]).text()}"

    def _carried_columns(self) -> tuple[int, Symbol | None]:
        """Totals in memory: trailing loops run within the carried loop, along elements that lie side by side."""
        nest, carried = self.nest, self.inner[0]
        at = nest.loops.index(carried)
        leading, trailing = nest.loops[:at], nest.loops[at + 1 :]
        if leading and leading[0].extent >= machine_model.FEW_ROWS:
            self.shared = leading[0]
        elif len(trailing) > 1:
            self.shared = trailing[0]
        elif trailing[0].extent > machine_model.COLUMNS_TOGETHER:
            self.shared, self.together = trailing[0], machine_model.COLUMNS_TOGETHER
        self._place(nest.loops)
        for c in nest.carries:
            self.totals[c] = self._total_in_memory(c, carried)
        for depth, symbol in enumerate(leading):
            self._open(symbol, depth, parallel=symbol is self.shared)
            self._statements(depth + 1, depth + 1)
        self._step({carried: Affine(0)}, trailing, at)
        self._line(at, f"for {carried.name} in range(1, {carried.extent}):")
        self._step({}, trailing, at + 1)
        if self.shared is None:
            return 1, None
        return -(-self.shared.extent // self.together), self.shared if self.together == 1 else None

    def _step(self, first: dict[Symbol, Affine], trailing: list[Symbol], base: int) -> None:
        """What is done at a step of the carried loop; `first` gives its variable at the first one."""
        depth = len(self.nest.loops) - len(trailing)
        for k in range(len(trailing) + 1):
            if k:
                self._open(trailing[k - 1], base + k - 1, parallel=trailing[k - 1] is self.shared)
            for s in self.nest.statements:
                if self._printed_depth(s) == depth + k:
                    self._line(base + k, self._text_at(s, first))
        for store in (*self._kept_totals(), *self.nest.stores):
            self._store(store_at(store, first, {}), base + len(trailing))

    def _text_at(self, s: Statement, first: dict[Symbol, Affine]) -> str:
        if not isinstance(s, Carried):
            return self._text(at_point(s, first, {}))
        if first:
            return f"{s.name} = {s.value}"
        before = self._element(self.totals[s]) if s in self.totals else s.name
        return f"{s.name} = {carried_on(s, before, s.value)}"

    def _total_in_memory(self, c: Carried, carried: Symbol) -> Store:
        """Where a total lies that the step before has left: in the result, if that is the total, or in a scratch."""
        for store in self.nest.stores:
            pace = store.offset.coefficient(carried)
            if store.value == c.name and pace and store.buffer.dtype == c.dtype and store.offset.is_plain():
                return Store(store.buffer, store.offset - pace, c.name, PRE)
        others = [s for s in self.nest.loops if s is not carried]
        shape = [s.extent for s in others]
        taken = names_in_nest(self.nest)
        buffer = new_buffer(fresh(f"totals_{c.name}", taken), shape, c.dtype)
        self.parameters[buffer.storage] = (buffer.name, buffer, "w")
        self.first[buffer.storage] = 0
        return Store(buffer, linear([Affine(0, [(s, 1)]) for s in others], shape), c.name, PRE)

    def _kept_totals(self) -> list[Store]:
        """The totals that lie in no result."""
        results = {s.buffer.storage for s in self.nest.stores}
        return [s for s in self.totals.values() if s.buffer.storage not in results]

    def _columns(self) -> tuple[int, Symbol | None]:
        """Accumulators in memory: trailing loops run within the reduction loops, along contiguous elements."""
        last = max(d for d, r in enumerate(self.nest.reduced) if r)
        trailing = self.nest.loops[last + 1 :]
        leading = [s for s in self.outer if s not in trailing]
        stores = {s.value: s for s in self.nest.stores if s.level == POST}
        at = len(leading)
        for depth, symbol in enumerate(leading):
            self._open(symbol, depth, parallel=depth == 0)
        for depth, symbol in enumerate(trailing, at):
            self._open(symbol, depth, parallel=depth == 0)
        for a in self.nest.accumulators:
            self._line(at + len(trailing), f"{self._element(stores[a.name])} = {start_of_accumulator(a)}")
        self._place([*leading, *self.inner, *trailing])
        if self._gathers_several(leading, trailing[-1]):
            self._gather_together(leading, trailing)
        else:
            self._gather(leading, trailing)
        first = leading[0] if leading else trailing[0]
        return first.extent, first

    def _gather(self, leading: list[Symbol], trailing: list[Symbol]) -> None:
        """Each step of the reduction loops goes through all columns."""
        at, total = len(leading), len(self.nest.loops)
        for depth in range(at + 1):
            self._statements(depth, at)
        for depth, symbol in enumerate([*self.inner, *trailing], at):
            self._open(symbol, depth, parallel=depth == len(self.inner) and not leading)
            self._statements(depth + 1, depth + 1)
        self._stores(PRE, total)
        stores = {s.value: s for s in self.nest.stores if s.level == POST}
        for a in self.nest.accumulators:
            element = self._element(stores[a.name])
            self._line(total, f"{element} = {accumulated(a, element, a.value)}")

    def _gathers_several(self, leading: list[Symbol], columns: Symbol) -> bool:
        """Whether several steps at once are faster: each is short, and what is read comes in the order of memory.

        Extrema of floats take several instructions, each of which waits for the one before.
        """
        nest, work = self.nest, work_of(self.nest)
        if not nest.points or any(s.level == PRE for s in nest.stores):
            return False
        if self._gathers_integers:
            return True
        if work.calls or any(a.kind != "sum" for a in nest.accumulators if kind_of(a.dtype) not in "iub"):
            return False
        if work.bytes <= machine_model.SECOND_CACHE or self._is_read_again(leading, columns):
            return True
        least, most = machine_model.ROWS_READ_ALONE
        read = [s.buffer for s in nest.statements if isinstance(s, Load) and columns in s.offset.symbols()]
        return not any(least <= columns.extent * b.dtype.itemsize < most for b in read)

    @property
    def _gathers_integers(self) -> bool:
        return all(kind_of(a.dtype) in "iub" for a in self.nest.accumulators)

    def _is_read_again(self, leading: list[Symbol], columns: Symbol) -> bool:
        """Whether each step of the loop before the reduction reads some of the same columns."""
        read = [s.offset.symbols() for s in self.nest.statements if isinstance(s, Load)]
        return bool(leading) and any(columns in symbols and leading[-1] not in symbols for symbols in read)

    def _gather_together(self, leading: list[Symbol], trailing: list[Symbol]) -> None:
        """Several steps of the last reduction loop at once: results are read and written seldom.

        What is read again for each row of a thread goes through a cache some columns at a time.
        """
        taken = names_in_nest(self.nest)
        reduced, columns, size = self.inner[-1], trailing[-1], machine_model.COLUMNS_READ_AGAIN
        at: dict[Symbol, Affine] = {}
        depth, count = 0, str(columns.extent)
        in_blocks = columns.extent > size and self._is_read_again(leading, columns)
        for symbol in leading:
            if symbol is leading[-1] and in_blocks:
                block = loop(fresh(f"{columns.name}_block", taken), -(-columns.extent // size))
                at = {columns: block * size + Affine(0, [(columns, 1)])}
                self._line(depth, f"for {block.text()} in range({block.high + 1}):")
                count = fresh(f"{columns.name}_count", taken)
                self._line(depth + 1, f"{count} = minimum({size}, {columns.extent} - {(block * size).text()})")
                depth += 1
            self._open(symbol, depth, parallel=symbol is leading[0])
            depth += 1
        for d in range(len(leading) + 1):
            self._statements(d, depth)
        for symbol in self.inner[:-1]:
            self._open(symbol, depth)
            depth += 1
            self._statements(depth - bool(at), depth)
        step = machine_model.REDUCED_TOGETHER if self._gathers_integers else machine_model.SUMMED_TOGETHER
        groups = loop(fresh(f"{reduced.name}_group", taken), max(reduced.extent // step, 1))
        if groups.terms:
            self._line(depth, f"for {groups.text()} in range({groups.high + 1}):")
        if reduced.extent >= step:
            places = [groups * step + k for k in range(step)]
            self._gather_points(places, at, trailing, count, depth + bool(groups.terms))
        if reduced.extent % step:
            self._line(depth, f"for {reduced.name} in range({reduced.extent // step * step}, {reduced.extent}):")
            self._gather_points([Affine(0, [(reduced, 1)])], at, trailing, count, depth + 1)

    def _gather_points(
        self, places: list[Affine], at: dict[Symbol, Affine], trailing: list[Symbol], count: str, depth: int
    ) -> None:
        """What some steps of the last reduction loop add to the columns."""
        reduced, level = self.inner[-1], len(self.nest.loops) - len(trailing)
        taken = names_in_nest(self.nest)
        changing = sorted(names_that_change(self.nest, [reduced]))
        names = [{n: fresh(f"{n}_{k}", taken) for n in changing} if len(places) > 1 else {} for k in range(len(places))]
        for printed in range(level, len(self.nest.loops) + 1):
            if printed > level:
                symbol = trailing[printed - level - 1]
                if symbol is trailing[-1] and at:
                    self._line(depth, f"for {symbol.name} in range({count}):")
                else:
                    self._open(symbol, depth, parallel=level == len(self.inner) and symbol is trailing[0])
                depth += 1
            for s in self.nest.statements:
                if s.level == PRE and self._printed_depth(s) == printed:
                    points = list(zip(places, names)) if not {*changing}.isdisjoint(names_of(s)) else [(places[0], {})]
                    for place, own in points:
                        self._line(depth, self._text(at_point(s, {**at, reduced: place}, own)))
        for store in self.nest.stores:
            a = next(a for a in self.nest.accumulators if a.name == store.value)
            element, values = self._element(store_at(store, at, {})), [own.get(a.value, a.value) for own in names]
            if kind_of(a.dtype) in "iub":  # LLVM orders those, and would compute sums of two in fewer bits
                self._line(depth, f"{a.name} = {element}")
                for value in values:
                    self._line(depth, f"{a.name} = {accumulated(a, a.name, value)}")
                self._line(depth, f"{element} = {a.name}")
                continue
            while len(values) > 1:  # by pairs: fewer of them wait for each other
                values = [accumulated(a, x, y) for x, y in zip(values[::2], values[1::2])] + values[len(values) & ~1 :]
            self._line(depth, f"{element} = {accumulated(a, element, values[0])}")

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _open(self, symbol: Symbol, depth: int, parallel: bool = False) -> None:
        bounds = "start, stop" if parallel else str(symbol.extent)
        if parallel and self.together > 1:
            bounds = f"{self.together} * start, min({self.together} * stop, {symbol.extent})"
        self._line(depth, f"for {symbol.name} in range({bounds}):")

    def _place(self, loops: list[Symbol]) -> None:
        """For every name the number of loops it must lie in."""
        self.loops_before = {s: d + 1 for d, s in enumerate(loops)}
        for s in self.nest.statements:
            depth = self._depth(s)
            for name in names_of(s):
                self.depth_of[name] = depth

    def _depth(self, s: Statement) -> int:
        if isinstance(s, Let):
            return max((self.depth_of.get(name, 0) for name in s.operands), default=0)
        if isinstance(s, Carried):
            return len(self.loops_before)
        value = s.offset if isinstance(s, Load) else s.value
        return max((self._depth_of_symbol(x) for x in value.symbols()), default=0)

    def _depth_of_symbol(self, symbol: Symbol) -> int:
        if symbol in self.loops_before:
            return self.loops_before[symbol]
        return self.depth_of.get(symbol.name, 0)

    def _statements(self, depth: int, at: int) -> None:
        """Print the statements before the reduction's end that lie in exactly `depth` loops."""
        for s in self.nest.statements:
            if s.level == PRE and self._printed_depth(s) == depth:
                self._line(at, self._text(s))

    def _printed_depth(self, s: Statement) -> int:
        depth = self._depth(s)
        return 1 if depth == 0 and self.outer else depth  # constants, too, lie inside of the parallel loop

    def _text(self, s: Statement) -> str:
        if isinstance(s, Let):
            return f"{', '.join(s.names)} = {s.text}"
        if isinstance(s, LineStart):
            storage = s.buffer.storage
            place = f"{self.parameters[storage][0]}, {(s.offset - self.first[storage]).text()}"
            return f"{s.name} = line_start({place}, {s.value.text()}, {s.last})"
        if isinstance(s, IndexLet):
            return f"{s.name} = {s.value.text()}"
        assert not isinstance(s, Carried)
        if isinstance(s, PackedTile):
            return f"{s.name} = packed_tile({self._place_of(s, {})}, {s.pitch}, {s.rows}, {s.columns})"
        if isinstance(s, Square):
            squares = [(s.buffer, s.offset, s.pitch), *([s.result] if s.result else [])]
            places = [
                f"{self.parameters[b.storage][0]}, {(offset - self.first[b.storage]).text()}, {pitch}"
                for b, offset, pitch in squares
            ]
            if s.count > 1:
                return f"{s.name} = transposed_band_{s.side}({places[0]}, {s.count})"
            return f"{s.name} = transposed_{s.side}({', '.join(places)})"
        return f"{s.name} = {self._element(s)}"

    def _element(self, access: Load | Store) -> str:
        storage = access.buffer.storage
        return f"{self.parameters[storage][0]}[{(access.offset - self.first[storage]).text()}]"

    def _stores(self, level: int, depth: int) -> None:
        for store in self.nest.stores:
            if store.level == level:
                self._store(store, depth)

    def _store(self, store: Store, depth: int) -> None:
        if isinstance(store, (LineStore, StreamedStore)):
            if store.place:
                self._line(depth, f"{store.room}[{store.place}] = {store.value}")
            return
        if isinstance(store, TransposedStore):
            place = f"{self._place_of(store, {})}, {store.pitch}, {store.rows}, {store.columns}"
            self._line(depth, f"write_transposed({store.value}, {place})")
            return
        element = self._element(store)
        value = (
            accumulated(store.accumulator, element, store.value) if isinstance(store, GatheringStore) else store.value
        )
        self._line(depth, f"{element} = {value}")

    # --- which part of each buffer a step of the range touches ---------------------------------------------

    def _row_sizes(self, first: Symbol | None) -> dict[Storage, int | None]:
        sizes: dict[Storage, int | None] = {}
        accesses = [(s.buffer, s.offset) for s in self.nest.statements if isinstance(s, Load)]
        accesses += [(s.buffer, s.offset) for s in (*self.nest.stores, *self._kept_totals())]
        sizes.update((s.buffer.storage, None) for s in self.nest.statements if isinstance(s, (Square, PackedTile)))
        for buffer, offset in accesses:
            size = _row_size(offset, first)
            known = sizes.get(buffer.storage, size)
            sizes[buffer.storage] = size if known == size else None
        return sizes


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


def first_elements(nest: Nest) -> dict[Storage, int]:
    """The least position at which each storage may be accessed: kernels of several slices of an array have one text."""
    first: dict[Storage, int] = {}
    for buffer, offset, _ in nest.accesses():
        first[buffer.storage] = min(first.get(buffer.storage, offset.low), offset.low)
    return {storage: max(low, 0) for storage, low in first.items()}


def _row_size(offset: Affine, first: Symbol | None) -> int | None:
    """The number of elements by which an access moves with the range, if it stays within that many."""
    if first is None:
        return None
    step = offset.coefficient(first)
    rest = offset - Affine(0, [(first, step)]) if step else offset
    if step <= 0 or first in rest.symbols() or rest.low < 0 or rest.high >= step:
        return None
    return step
