"""Sums and extrema of columns: loops along contiguous elements run within those that are reduced.

Knows how accumulators in memory are read and written seldom; not which nests take this form.
"""

from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.kernels.form import KernelForm
from functad.dtypes import kind_of
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import POST, PRE, Load, fresh, names_of
from functad.lowering.nests.printing import accumulated, start_of_accumulator
from functad.lowering.nests.reductions import at_point, names_in_nest, names_that_change, store_at


class Columns(KernelForm):
    """Accumulators in memory: trailing loops run within the reduction loops, along contiguous elements."""

    def _write(self) -> tuple[int, Symbol | None]:
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
