"""Reductions of rows and of columns in one nest: what is read is read once for both.

Knows nests as data; no target. A row is reduced into accumulators. Each part of the rows has sums of columns of its own
in memory, to which its rows are added one after the other; the parts are put together in the end.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.dtypes import compute_dtype
from functad.lowering.memory.buffers import new_buffer
from functad.lowering.nests.affine import Affine, linear, new_loop, of_symbol, symbols_of
from functad.lowering.nests.nest import (
    ACROSS,
    POST,
    PRE,
    Accumulator,
    GatheringStore,
    Load,
    Nest,
    moved,
)
from functad.lowering.nests.split import parts_alone


def without_crossing(nest: Nest) -> list[tuple[str, Nest]]:
    """Nests that do the same in order, none with reductions along both axes, and what is added to the name for each.

    A loop of N rows becomes loops over parts q and positions r, and a rest of fewer rows than there are parts. Sums are
    cut into parts as they are elsewhere, so that none has more than `LONGEST_SUM` terms.
    """
    return _Crossed(nest).nests()


class _Crossed:
    """The nests for one whose kept loops are the rows: parts of them, the rest, and what the parts come to."""

    def __init__(self, nest: Nest) -> None:
        self._nest = nest
        self._columns = [s for s, r in zip(nest.loops, nest.reduced) if r]
        self._long = max((s for s, r in zip(nest.loops, nest.reduced) if not r), key=lambda s: s.extent)
        n = self._long.extent
        parts = max(machine_model.MOST_PARTS, -(-nest.outer_points // machine_model.LONGEST_SUM))
        self._parts = parts_alone(n, parts)
        self._rest = n % self._parts
        self._shape = [self._parts + (self._rest > 0), *(s.extent for s in self._columns)]
        self._taken = nest.names
        self._buffers = [new_buffer(f"parts_{a.name}", self._shape, compute_dtype(a.dtype)) for a in nest.across]

    def nests(self) -> list[tuple[str, Nest]]:
        n, length = self._long.extent, self._long.extent // self._parts
        part, row = new_loop("q", self._parts, self._taken), new_loop("r", length, self._taken)
        found = [("", self._gathering(part * length + row, part, part, row))]
        if self._rest:
            row = new_loop("r", self._rest, self._taken)
            place = row + (n - self._rest)
            found.append(("_rest", self._gathering(place, Affine(self._parts), Affine(0), row)))
        return [*found, ("_whole", self._whole())]

    def _gathering(self, place: Affine, part: Affine, q: Affine, r: Affine) -> Nest:
        """The nest at some places of the long loop, whose columns are gathered in a row of the parts."""
        nest, at = self._nest, {self._long: place}
        k = nest.loops.index(self._long)
        loops = [*symbols_of(q), *nest.loops[:k], *symbols_of(r), *nest.loops[k + 1 :]]
        statements = [moved(s, at) for s in nest.statements]
        position = linear([part, *map(of_symbol, self._columns)], self._shape)
        stores = [replace(s, offset=s.offset.substitute(at)) for s in nest.stores if s.level != ACROSS]
        stores += [GatheringStore(b, position, a.value, PRE, a) for a, b in zip(nest.across, self._buffers)]
        reduced = [s in self._columns for s in loops]
        return replace(nest, loops=loops, reduced=reduced, statements=statements, stores=stores, across=[])

    def _whole(self) -> Nest:
        """The parts of each column, put together."""
        nest, row = self._nest, new_loop("q", self._shape[0], self._taken)
        loops = [*symbols_of(row), *self._columns]
        position = linear([row, *map(of_symbol, self._columns)], self._shape)
        new = Nest(loops, [s not in self._columns for s in loops], eqns=[a.eqn for a in nest.across])
        for a, buffer in zip(nest.across, self._buffers):
            name = f"part_{a.name}"
            new.statements.append(Load(name, buffer, position, PRE))
            new.accumulators.append(Accumulator(a.name, a.kind, a.dtype, name, a.eqn))
        new.stores = [replace(s, level=POST) for s in nest.stores if s.level == ACROSS]
        return new
