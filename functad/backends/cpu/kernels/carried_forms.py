"""Kernels of values that are carried along a loop, as cumulative sums are.

Knows where the totals lie, in registers or in memory; not what they are totals of.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cpu.kernels.form import KernelForm
from functad.dtypes import kind_of
from functad.lowering.memory.buffers import new_buffer
from functad.lowering.nests.affine import Affine, Symbol, linear, loop
from functad.lowering.nests.nest import PRE, Carried, Nest, Statement, Store, fresh
from functad.lowering.nests.phases import Phase, phases_of
from functad.lowering.nests.printing import carried_on, start_of
from functad.lowering.nests.reductions import at_point, names_in_nest, store_at
from functad.primitives.loops.text import cast


class _CarriedForm(KernelForm):
    """What both have: a step of the loop along which values are carried."""

    def __init__(self, nest: Nest, carried: Symbol) -> None:
        super().__init__(nest)
        self.carried = carried

    def _steps(self, trailing: list[Symbol], base: int) -> None:
        """The first step of the carried loop, and the loop over all others. trailing: the loops within each step."""
        self._step({self.carried: Affine(0)}, trailing, base)
        if self.carried.extent > 1:
            self._line(base, f"for {self.carried.name} in range(1, {self.carried.extent}):")
            self._step({}, trailing, base + 1)

    def _step(self, first: dict[Symbol, Affine], trailing: list[Symbol], base: int) -> None:
        """What is done at a step; `first` gives the variable of the carried loop at the first one."""
        depth = len(self.nest.loops) - len(trailing)
        for k in range(len(trailing) + 1):
            if k:
                self._open(trailing[k - 1], base + k - 1)
            for s in self.nest.statements:
                if self._printed_depth(s) == depth + k:
                    self._line(base + k, self._text_at(s, first))
        for store in self._all_stores():
            self._store(store_at(store, first, {}), base + len(trailing))

    def _text_at(self, s: Statement, first: dict[Symbol, Affine]) -> str:
        if not isinstance(s, Carried):
            return self._text(at_point(s, first, {}))
        if first:
            return f"{s.name} = {s.value}"
        return f"{s.name} = {carried_on(s, self._before(s), s.value)}"

    def _before(self, c: Carried) -> str:
        """What the step before has left."""
        return c.name


class CarriedRows(_CarriedForm):
    """Totals in registers: the loop along which values are carried is the last one."""

    def _write(self) -> tuple[int, Symbol | None]:
        """Blocks of a row in phases, or, of short rows, one step after another."""
        self._place([*self.outer, self.carried])
        for depth, symbol in enumerate(self.outer):
            self._open(symbol, depth, parallel=depth == 0)
            self._statements(depth + 1, depth + 1)
        if not self.outer:
            self._statements(0, 0)
        base = len(self.outer)
        phases = self._phases(base)
        if phases is None:
            self._steps([], base)
        else:
            self._in_blocks(phases, base)
        return (self.outer[0].extent, self.outer[0]) if self.outer else (1, None)

    def _phases(self, base: int) -> list[Phase] | None:
        if self.carried.extent < machine_model.FLOATS_OF_VECTOR or any(
            kind_of(c.dtype) == "c" for c in self.nest.carries
        ):
            return None
        moving = {name for name, depth in self.depth_of.items() if depth == base + 1}
        return phases_of(self.nest, self.carried, moving)

    def _in_blocks(self, phases: list[Phase], base: int) -> None:
        """Blocks of a row; between its phases what is carried lies in a room of its own, or where it is stored."""
        carried, taken = self.carried, names_in_nest(self.nest)
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


class CarriedColumns(_CarriedForm):
    """Totals in memory: trailing loops run within the carried loop, along elements that lie side by side."""

    def __init__(self, nest: Nest, carried: Symbol) -> None:
        super().__init__(nest, carried)
        self.totals: dict[Carried, Store] = {}  # where each value lies
        self.shared: Symbol | None = None  # the loop that threads share
        self.together = 1  # how many of its steps are one step of the parallel range

    def _write(self) -> tuple[int, Symbol | None]:
        nest = self.nest
        at = nest.loops.index(self.carried)
        leading, trailing = nest.loops[:at], nest.loops[at + 1 :]
        if leading and leading[0].extent >= machine_model.FEW_ROWS:
            self.shared = leading[0]
        elif len(trailing) > 1:
            self.shared = trailing[0]
        elif trailing[0].extent > machine_model.COLUMNS_TOGETHER:
            self.shared, self.together = trailing[0], machine_model.COLUMNS_TOGETHER
        self._place(nest.loops)
        for c in nest.carries:
            self.totals[c] = self._total_in_memory(c)
        for depth, symbol in enumerate(leading):
            self._open(symbol, depth)
            self._statements(depth + 1, depth + 1)
        self._steps(trailing, at)
        if self.shared is None:
            return 1, None
        return -(-self.shared.extent // self.together), self.shared if self.together == 1 else None

    def _total_in_memory(self, c: Carried) -> Store:
        """Where a total lies that the step before has left: in the result, if that is the total, or in a scratch."""
        for store in self.nest.stores:
            pace = store.offset.coefficient(self.carried)
            if store.value == c.name and pace and store.buffer.dtype == c.dtype and store.offset.is_plain():
                return Store(store.buffer, store.offset - pace, c.name, PRE)
        others = [s for s in self.nest.loops if s is not self.carried]
        shape = [s.extent for s in others]
        taken = names_in_nest(self.nest)
        buffer = new_buffer(fresh(f"totals_{c.name}", taken), shape, c.dtype)
        self.parameters[buffer.storage] = (buffer.name, buffer, "w")
        self.first[buffer.storage] = 0
        return Store(buffer, linear([Affine(0, [(s, 1)]) for s in others], shape), c.name, PRE)

    def _before(self, c: Carried) -> str:
        return self._element(self.totals[c])

    def _all_stores(self) -> Sequence[Store]:
        """Before those of the nest, those of totals that lie in no result."""
        results = {s.buffer.storage for s in self.nest.stores}
        return [*(s for s in self.totals.values() if s.buffer.storage not in results), *self.nest.stores]

    def _open(self, symbol: Symbol, depth: int, parallel: bool = False) -> None:
        if symbol is self.shared and self.together > 1:
            bounds = f"{self.together} * start, min({self.together} * stop, {symbol.extent})"
            self._line(depth, f"for {symbol.name} in range({bounds}):")
        else:
            super()._open(symbol, depth, parallel or symbol is self.shared)
