"""A fused loop nest, as data: loops, scalar statements, accumulators, stores.

Knows no target: what prints a nest as a CPU loop or as a CUDA kernel is a backend's emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.ir import Eqn
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.names import words_in
from functad.primitives.loops.text import cast
from functad.records import NamedTuple

# Where a statement stands. In a nest that reduces rows, `for i: [for j: total += f(x[i, j])]; y[i] = g(total)`, PRE is
# at each point of all loops (f), and POST behind the reduction loops (g and y). A reduction of columns in that nest,
# over i, has ended only ACROSS all of it.
PRE, POST, ACROSS = 0, 1, 2


@dataclass(eq=False)
class Let:
    """`names = text`; `operands` are the names that the text uses."""

    names: tuple[str, ...]
    text: str
    operands: tuple[str, ...]
    level: int
    eqn: Eqn | None


@dataclass(eq=False)
class Load:
    """`name = buffer[offset]`."""

    name: str
    buffer: Buffer
    offset: Affine
    level: int


@dataclass(eq=False)
class IndexLet:
    """`name = value`, a whole number computed from loop variables."""

    name: str
    value: Affine
    level: int


@dataclass(eq=False)
class Store:
    """`buffer[offset] = value`."""

    buffer: Buffer
    offset: Affine
    value: str
    level: int


@dataclass(eq=False)
class Update(Store):
    """`buffer[offset]` combined by `kind` with `value`, if `guard` holds, a name or "": the place may be data.

    atomic: whether several threads may do so at one place at a time, so that no order is kept.
    """

    kind: str = "set"
    guard: str = ""
    atomic: bool = False


@dataclass(eq=False)
class Accumulator:
    """`name` gathers `value` over the reduction loops; a sum of `few` terms adds them in their order."""

    name: str
    kind: str
    dtype: np.dtype
    value: str
    eqn: Eqn
    few: bool = False


@dataclass(eq=False)
class GatheringStore(Store):
    """`buffer[offset]` gathers `value` as the accumulator does, over all points of the first loop's step.

    Its place depends on that step and on the reduced loops, so that it takes in a row's values one after the other.
    """

    accumulator: Accumulator


@dataclass(eq=False)
class Carried:
    """`name` is what lies before this point along the carried loop, combined with `value`; at its start `value`."""

    name: str
    kind: str
    dtype: np.dtype
    value: str
    eqn: Eqn
    level: int = PRE


Statement = Let | Load | IndexLet | Carried


def moved(s: Statement, at: dict[Symbol, Affine]) -> Statement:
    """The statement with indices in place of some loops."""
    if isinstance(s, Load):
        return replace(s, offset=s.offset.substitute(at))
    return replace(s, value=s.value.substitute(at)) if isinstance(s, IndexLet) else s


def loads_of(nest: Nest) -> list[Load]:
    return [s for s in nest.statements if isinstance(s, Load)]


def names_of(s: Statement) -> tuple[str, ...]:
    """The names that a statement sets."""
    return s.names if isinstance(s, Let) else (s.name,)


def uses_of(s: Statement) -> set[str]:
    """The names that a statement needs."""
    if isinstance(s, Let):
        return set(s.operands)
    if isinstance(s, Carried):
        return {s.value}
    return {x.name for x in (s.offset if isinstance(s, Load) else s.value).symbols()}


def fresh(wanted: str, taken: set[str]) -> str:
    """A name that is not taken, and is from now on."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


class Owners(NamedTuple):
    """Who owns the element that an update goes to: the name of a number, below `shares`."""

    name: str
    shares: int


class OwnedRows(NamedTuple):
    """Which row of the result an update goes to, where blocks own rows, and look for the updates that go there.

    The nest's first loop has a step for each update, whose number is `update` in the nest, and the others run over the
    `length` elements of a row, in their order. row: the name of the row's number; from `end` on it is no row.
    """

    update: Symbol
    row: str
    end: int
    length: int


class Segments(NamedTuple):
    """The updates of a nest in the order of the places that they go to: those of one place lie side by side.

    For each step of the nest's first loop, of which there are as many as updates: `rows` has the number of the place,
    `updates` which update it is, called `name` in the nest. Numbers from `end` on are no places. The step at which the
    updates of a place begin does all of them.
    """

    rows: Buffer
    updates: Buffer
    name: str
    end: int


class CarriedAxis(NamedTuple):
    """The axis of a domain along which values are carried, and whether from its end."""

    axis: int
    reverse: bool


Place = Callable[[Affine], Affine]  # a position in a buffer, given that in a variable


@dataclass(eq=False)
class Nest:
    """Loops over a domain; `reduced[d]` tells which of them are reduced.

    For each point of the loops that are not reduced: the accumulators start at their identities, the PRE statements
    run at every point of the reduced loops, then the POST statements once.

    across: accumulators over the loops that are not reduced, for each point of those that are; they are stored at the
    level ACROSS. Schedules have none: `crossed.py` makes nests of such a nest.
    carried: the loop whose steps must run in their order, as each goes on from what the one before has come to.
    ordered: the loops whose steps must run in their order, as updates of several may meet at one place. Such a nest has
    one update and no other stores.
    owners: if threads shall share such a nest by what they write to, each looking at all updates.
    owned_rows: if blocks shall share such a nest so, in any order of the updates of a row.
    segments: if such a nest's updates have been sorted by what they write to.
    constants: numbers that the nest is given under names, so that nests which differ in them alone have one text.
    """

    loops: list[Symbol]
    reduced: list[bool]
    statements: list[Statement] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    eqns: list[Eqn] = field(default_factory=list)
    constants: dict[str, np.generic] = field(default_factory=dict)
    carried: Symbol | None = None
    ordered: set[Symbol] = field(default_factory=set)
    owners: Owners | None = None
    owned_rows: OwnedRows | None = None
    segments: Segments | None = None
    across: list[Accumulator] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of its loops, and those that its statements set."""
        return {s.name for s in self.loops} | {name for s in self.statements for name in names_of(s)}

    @property
    def update(self) -> Update | None:
        """The update of a nest that has one."""
        return next((s for s in self.stores if isinstance(s, Update)), None)

    @property
    def stores_totals(self) -> bool:
        """Whether its accumulators are its results, each stored at one place: they may be gathered there."""
        stored = sorted(s.value for s in self.stores if s.level == POST)
        return stored == sorted(a.name for a in self.accumulators) and all(s.level == PRE for s in self.statements)

    @property
    def carries(self) -> list[Carried]:
        """The statements that carry a value along."""
        return [s for s in self.statements if isinstance(s, Carried)]

    def used_constants(self) -> dict[str, np.generic]:
        """The constants that a statement needs, in order."""
        used = {word for s in self.stores for word in words_in(s.value)}  # an update's may be an expression
        used |= {a.value for a in (*self.accumulators, *self.across)} | {c.value for c in self.carries}
        used.update(name for s in self.statements if isinstance(s, Let) for name in s.operands)
        return {name: value for name, value in self.constants.items() if name in used}

    def accesses(self) -> list[tuple[Buffer, Affine, bool]]:
        """Every buffer with the position at which it is accessed, and whether it is written."""
        loads = [(s.buffer, s.offset, False) for s in self.statements if isinstance(s, Load)]
        loads += [(s.buffer, s.offset, False) for s in self.stores if isinstance(s, Update)]  # some elements stay
        if self.segments is not None:
            loads += [(buffer, Affine(0), False) for buffer in (self.segments.rows, self.segments.updates)]
        return loads + [(s.buffer, s.offset, True) for s in self.stores]

    def drop_unused(self) -> None:
        """Forget statements and accumulators that no store needs, and stores of what lies there already."""
        loads = {s.name: (s.buffer.storage, s.offset) for s in self.statements if isinstance(s, Load)}
        self.stores = [s for s in self.stores if loads.get(s.value) != (s.buffer.storage, s.offset)]
        needed = {s.value for s in self.stores} | {x.name for s in self.stores for x in s.offset.symbols()}
        needed.update(s.guard for s in self.stores if isinstance(s, Update))
        kept: set[Statement] = set()
        later = [s for s in self.statements if s.level == POST]
        before = [s for s in self.statements if s.level == PRE]
        needed.update(a.value for a in self.across if a.name in needed)
        for statements in (later, before):
            for s in reversed(statements):
                if needed.isdisjoint(names_of(s)):
                    continue
                kept.add(s)
                needed |= uses_of(s)
            if statements is later:
                needed.update(a.value for a in self.accumulators if a.name in needed)
        self.statements = [s for s in self.statements if s in kept]
        self.accumulators = [a for a in self.accumulators if a.name in needed]
        self.across = [a for a in self.across if a.name in needed]
        if not self.carries:
            self.carried = None
        if (
            not self.accumulators
            and not self.across
            and (not any(self.reduced) or all(s.level == POST for s in self.stores))
        ):
            self._drop_reduced_loops()

    def _drop_reduced_loops(self) -> None:
        self.loops = [s for s, is_reduced in zip(self.loops, self.reduced) if not is_reduced]
        self.reduced = [False] * len(self.loops)
        for s in (*self.statements, *self.stores):
            s.level = PRE

    @property
    def points(self) -> int:
        total = 1
        for symbol in self.loops:
            total *= symbol.extent
        return total

    @property
    def outer_points(self) -> int:
        total = 1
        for symbol, is_reduced in zip(self.loops, self.reduced):
            total *= 1 if is_reduced else symbol.extent
        return total


def goes_across(axes: Collection[int], reduced: Collection[int]) -> bool:
    """Whether a reduction of some axes is one of the axes that a nest keeps; that of none is an element, as it is."""
    return bool(axes) and {*axes}.isdisjoint(reduced)


def typed_literal(value: Any, dtype: np.dtype) -> str:
    """A typed constant of the kernel vocabulary, such as `f32(0.5)`."""
    if kind_of(dtype) == "b":
        return str(bool(value))
    if kind_of(dtype) == "c":
        number = complex(value)
        return f"{cast(dtype)}(complex({number.real!r}, {number.imag!r}))"
    number = float(value) if kind_of(dtype) == "f" else int(value)
    return f"{cast(dtype)}({number!r})"
