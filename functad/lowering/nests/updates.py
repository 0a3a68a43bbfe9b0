"""How threads share updates of which several may meet at one place: schedules of the same nest.

Knows nests as data; no target. Updates of one element are put to it in their order, whatever the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from functad import machine_model
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, data, delinear, linear, loop, new_loop, symbols_of
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import (
    PRE,
    IndexLet,
    Let,
    Load,
    Nest,
    OwnedRows,
    Owners,
    Segments,
    Statement,
    Store,
    Update,
    fresh,
    moved,
    names_of,
    typed_literal,
    uses_of,
)
from functad.lowering.nests.split import parts_alone
from functad.primitives.loops.text import cast, put_to
from functad.records import NamedTuple

AtomicUpdates = Callable[[str, np.dtype], bool]
"""Which updates, by kind and dtype, several threads may do at one place at a time."""


def shared_updates(nest: Nest, threads: int, on_device: bool, atomic: AtomicUpdates) -> list[tuple[str, Nest]]:
    """Nests, with suffixes of their names, that do the same in order, as many threads as there are can share them.

    Threads share the first loop if its steps write to places of their own. If not, but rows are long, each owns a part
    of the result, and looks at all updates. Where many updates meet, and their order does not matter, each of several
    parts of them goes to a copy of the result; then the copies are put together. What remains is one thread's.

    On a device, where threads are many and slow, each owns parts of the result, however short rows are.

    atomic: of which kinds of updates, of which dtypes, several at one place may be done at a time. No order is kept of
    these, and all threads share them.
    """
    update = nest.update
    if update is None or not nest.loops or nest.loops[0] not in nest.ordered:
        return [("", nest)]
    if atomic(update.kind, update.buffer.dtype):
        return [("", replace(nest, stores=[replace(update, atomic=True)], ordered=set()))]
    row = _row(nest)
    is_large = nest.points >= machine_model.ELEMENTS_WORTH_THREADS
    if on_device:
        owners = _next_power_of_two(threads // max(row, 1))
        return [("", _owned(nest, update, owners, row, apart=0) if is_large and owners > 1 else nest)]
    if is_large and row * update.buffer.dtype.itemsize >= machine_model.SHARED_ROW_BYTES:
        return [("", _owned(nest, update, _next_power_of_two(max(2, threads)), row, machine_model.APART_BYTES))]
    parts = _parts(nest, update, row) if is_large else 1
    return _Parts(nest, update, parts).nests() if parts > 1 else [("", nest)]


def _row(nest: Nest) -> int:
    """How many elements that lie side by side an update has, in the loops that are not ordered."""
    return math.prod(s.extent for s in nest.loops if s not in nest.ordered)


def _next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _owned(nest: Nest, update: Update, owners: int, row: int, apart: int) -> Nest:
    """The nest with the owner of each row of the result: every so many-th block of rows, of so many bytes at least.

    The rows of a table are seldom used equally, and often sorted by use: contiguous shares would be unequal.
    """
    first = update.offset.substitute({s: Affine(0) for s in nest.loops if s not in nest.ordered})
    rows = _next_power_of_two(max(-(-apart // (row * update.buffer.dtype.itemsize)), 1))
    text = f"(row_of_result >> {rows.bit_length() - 1}) & {owners - 1}"
    owner = Let(("owner",), text, ("row_of_result",), PRE, None)
    known = {update.guard, *(s.name for s in first.symbols())}
    at = 1 + max((k for k, s in enumerate(nest.statements) if not known.isdisjoint(names_of(s))), default=-1)
    statements: list[Statement] = [*nest.statements]
    statements[at:at] = [IndexLet("row_of_result", first // row, PRE), owner]
    return replace(nest, statements=statements, owners=Owners("owner", owners))


# --- sorted by what they write to --------------------------------------------------------------------------


class SortedUpdates(NamedTuple):
    """Nests that do the same as one: `numbers` writes of each update to which row of the result it goes, into `rows`.

    Then these are sorted, into `segments.rows`, with the places where they were, and `sums` does the updates.
    """

    numbers: Nest
    rows: Buffer
    segments: Segments
    sums: Nest


class _RowUpdates:
    """What is known of a nest of updates of which the ordered loops alone tell to which row of the result each goes.

    first: where an update begins. number, key: names of its row, without and with those that are no rows.
    """

    def __init__(self, nest: Nest, update: Update) -> None:
        self.nest, self.update = nest, update
        self.ordered, self.others = ([s for s in nest.loops if (s in nest.ordered) is w] for w in (True, False))
        self.count, self.length = math.prod(s.extent for s in self.ordered), _row(nest)
        self.first = update.offset.substitute({s: Affine(0) for s in self.others})
        self.taken = nest.names | {*nest.constants}
        needed = needed_for(nest.statements, {update.guard, *(s.name for s in self.first.symbols())})
        self.is_known = {s.name for s in self.others}.isdisjoint(name for s in needed for name in uses_of(s))
        self.end = -(-update.buffer.size // self.length)
        number, self.key = fresh("row_of_result", self.taken), fresh("key", self.taken)
        text, operands = f"i32({number})", [number]
        if update.guard:
            text, operands = f"where({update.guard}, {text}, i32({self.end}))", [update.guard, number]
        let = Let((self.key,), text, tuple(operands), PRE, None)
        self.keys: list[Statement] = [*needed, IndexLet(number, self.first // self.length, PRE), let]

    def numbered(self) -> tuple[Symbol, dict[Symbol, Affine], Symbol]:
        """The number of an update, where the ordered loops are then, and a loop over all updates."""
        number = data(fresh("update", self.taken), 0, self.count - 1)
        which, step = symbols_of(number, loop(fresh("step", self.taken), self.count))
        index = delinear(number, [s.extent for s in self.ordered])
        return which, dict(zip(self.ordered, index)), step

    @property
    def is_whole(self) -> bool:
        """Whether an update is a row of the result, in its order."""
        within = self.update.offset - self.first
        row = linear([Affine(0, [(s, 1)]) for s in self.others], [s.extent for s in self.others])
        return within == row and (self.first // self.length) * self.length == self.first


def _rows_updated(nest: Nest, atomic: AtomicUpdates) -> _RowUpdates | None:
    """What is known of a nest of updates whose order matters; None where it is not known where one goes."""
    update = nest.update
    if (
        update is None
        or not nest.loops
        or nest.loops[0] not in nest.ordered
        or atomic(update.kind, update.buffer.dtype)
    ):
        return None
    found = _RowUpdates(nest, update)
    fits = found.count > 1 and max(found.count, update.buffer.size) < 1 << 31
    return found if fits and found.is_known else None


def owned_updates(nest: Nest, atomic: AtomicUpdates) -> Nest | None:
    """A nest whose updates blocks look for, each for those that go to its own rows of the result.

    None for other nests, where too many blocks would look at too many updates, and where the order of those of a row
    matters beyond rounding.
    """
    found = _rows_updated(nest, atomic)
    if found is None or not found.is_whole:
        return None
    kind, dtype = found.update.kind, found.update.buffer.dtype
    row_bytes = found.length * dtype.itemsize
    blocks = -(-found.end * row_bytes // machine_model.CUDA_OWNED_BYTES)
    fits = row_bytes <= machine_model.CUDA_OWNED_BYTES and blocks * found.count <= machine_model.CUDA_OWNED_LOOKS
    if not may_be_parted(kind, dtype) or not fits:
        return None
    which, at, step = found.numbered()
    wanted = words_in(found.update.value)
    statements = [*found.keys, *(s for s in needed_for(nest.statements, wanted) if s not in found.keys)]
    return replace(
        nest,
        loops=[step, *found.others],
        reduced=[False] * (1 + len(found.others)),
        statements=[moved(s, at) for s in statements],
        stores=[replace(found.update, offset=found.update.offset.substitute(at))],
        ordered=set(),
        owned_rows=OwnedRows(which, found.key, found.end, found.length),
    )


def updates_in_turn(nest: Nest) -> Nest:
    """The nest as one thread does it, where blocks would look for their updates: one after another."""
    if nest.owned_rows is None:
        return nest
    step = nest.loops[0]
    at = {nest.owned_rows.update: Affine(0, [(step, 1)])}
    stores = [replace(store, offset=store.offset.substitute(at)) for store in nest.stores]
    statements = [moved(s, at) for s in nest.statements]
    found = replace(nest, statements=statements, stores=stores, ordered={step}, owned_rows=None)
    found.drop_unused()
    return found


def sorted_updates(nest: Nest, atomic: AtomicUpdates) -> SortedUpdates | None:
    """A nest of many updates whose order matters, by sorting, which keeps the order of those of one row.

    None for other nests, and where it is not the ordered loops alone that tell where an update goes.
    """
    found = _rows_updated(nest, atomic)
    if found is None or found.count < machine_model.CUDA_SORTED_UPDATES:
        return None
    kind, ordered, buffer = np.dtype(np.int32), found.ordered, found.update.buffer
    rows, in_order, places = (
        new_buffer(f"{n}_{buffer.name}", (found.count,), kind) for n in ("rows", "sorted", "updates")
    )
    position = linear([Affine(0, [(s, 1)]) for s in ordered], [s.extent for s in ordered])
    numbers = Nest(
        ordered,
        [False] * len(ordered),
        statements=found.keys,
        stores=[Store(rows, position, found.key, PRE)],
        eqns=nest.eqns,
        constants=nest.constants,
    )
    which, at, step = found.numbered()
    segments = Segments(in_order, places, which.name, found.end)
    sums = replace(
        nest,
        loops=[step, *found.others],
        reduced=[False] * (1 + len(found.others)),
        statements=[moved(s, at) for s in nest.statements],
        stores=[replace(found.update, offset=found.update.offset.substitute(at))],
        ordered=set(),
        segments=segments,
    )
    return SortedUpdates(numbers, rows, segments, sums)


def may_be_parted(kind: str, dtype: np.dtype) -> bool:
    """Whether parts of the updates of an element may be put together first: their order matters for rounding alone."""
    return _is_gathered(kind, dtype) and not is_narrow_float(dtype)


def _is_gathered(kind: str, dtype: np.dtype) -> bool:
    return kind == "add" and kind_of(dtype) in "iufc" or kind in ("max", "min") and kind_of(dtype) in "iuf"


def needed_for(statements: Sequence[Statement], wanted: Set[str]) -> list[Statement]:
    """The statements that values depend on."""
    found: list[Statement] = []
    needed = set(wanted)
    for s in reversed(statements):
        if needed.isdisjoint(names_of(s)):
            continue
        found.append(s)
        needed |= uses_of(s)
    return found[::-1]


# --- parts ------------------------------------------------------------------------------------------------


def _parts(nest: Nest, update: Update, row: int) -> int:
    """Into how many parts the updates fall, each with a copy of the result."""
    if not _is_gathered(update.kind, update.buffer.dtype):
        return 1
    work = nest.points // row * max(row, machine_model.FLOATS_OF_VECTOR)
    most: int = work // (machine_model.UPDATES_OF_PART * update.buffer.size)
    return min(most, machine_model.MOST_SCATTER_PARTS, nest.loops[0].extent)


class _Parts:
    """The nests for one whose first loop is cut: each part into a copy, all of them together, and what is left over."""

    def __init__(self, nest: Nest, update: Update, parts: int) -> None:
        self._nest, self._update = nest, update
        self._long, self._eqns = nest.loops[0], nest.eqns[-1:]
        self._taken = nest.names - {self._long.name}
        self._parts = parts_alone(self._long.extent, parts)
        apart = machine_model.APART_BYTES // update.buffer.dtype.itemsize
        self._size = -(-update.buffer.size // apart) * apart
        name = f"copies_{update.buffer.name}"
        self._copies = new_buffer(name, (self._parts, self._size), update.buffer.dtype)

    def nests(self) -> list[tuple[str, Nest]]:
        length, rest = divmod(self._long.extent, self._parts)
        part, inner = new_loop("part", self._parts, self._taken), new_loop(self._long.name, length, self._taken)
        offset = part * self._size + self._update.offset
        scattered = self._at(part * length + inner, [part, inner], self._copies, offset)
        nests = [("_fill", self._filled()), ("_parts", scattered), ("_together", self._together())]
        if rest:
            inner = new_loop(self._long.name, rest, self._taken)
            place = inner + (self._long.extent - rest)
            nests.append(("_rest", self._at(place, [inner], self._update.buffer, self._update.offset)))
        return nests

    def _at(self, place: Affine, loops: list[Affine], buffer: Buffer, offset: Affine) -> Nest:
        """The nest at some places of its first loop, into a buffer."""
        nest, at = self._nest, {self._long: place}
        statements = [moved(s, at) for s in nest.statements]
        symbols = [s for index in loops for s, _ in index.terms]
        update = replace(self._update, buffer=buffer, offset=offset.substitute(at))
        return replace(
            nest,
            loops=[*symbols, *nest.loops[1:]],
            reduced=[False] * (len(symbols) + len(nest.loops) - 1),
            statements=statements,
            stores=[update],
            ordered={*symbols[-1:], *nest.ordered} - {self._long},
        )

    def _filled(self) -> Nest:
        """All copies as nothing was put to them."""
        part, i = loop("part", self._parts), loop("i", self._size)
        value = identity_element(self._update.kind, self._copies.dtype)
        store = Store(self._copies, part * self._size + i, value, PRE)
        return Nest(symbols_of(part, i), [False] * 2, stores=[store], eqns=self._eqns)

    def _together(self) -> Nest:
        """What lies in the result, and to each element of it those of the copies."""
        buffer, kind, i = self._update.buffer, self._update.kind, loop("i", self._update.buffer.size)
        nest = Nest(symbols_of(i), [False] * len(i.terms), eqns=self._eqns)
        total = "before"
        nest.statements.append(Load(total, buffer, i, PRE))
        for k in range(self._parts):
            nest.statements.append(Load(f"of_part_{k}", self._copies, i + k * self._size, PRE))
            text = put_to(kind, buffer.dtype, total, f"of_part_{k}")
            nest.statements.append(Let((f"total_{k}",), text, (total, f"of_part_{k}"), PRE, None))
            total = f"total_{k}"
        nest.stores.append(Store(buffer, i, total, PRE))
        return nest


def identity_element(kind: str, dtype: np.dtype) -> str:
    """What changes nothing that is put to it: −0 + x is x, for x = −0, too."""
    if kind == "add" and kind_of(dtype) == "c":
        return f"{cast(dtype)}(complex_of(f64(-0.0), f64(-0.0)))"
    if kind == "add":
        return typed_literal(-0.0 if kind_of(dtype) == "f" else 0, dtype)
    if kind_of(dtype) == "f":
        return typed_literal(-np.inf if kind == "max" else np.inf, dtype)
    limits = np.iinfo(dtype)
    return typed_literal(limits.min if kind == "max" else limits.max, dtype)
