"""Loops of which a block of threads runs whole steps, matrix products included, on rows of its own.

Knows steps, and where they read and write; no text. So attention in blocks is one kernel: a block of threads takes some
queries, and goes over all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from functad import machine_model
from functad.backends.cpu.kernels.small_loops import touched_by
from functad.backends.cuda.kernels.mapping import in_any_order
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.dtypes import is_narrow_float
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import Load, Nest, Store
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import GemmStep, LoopStep, NestStep, Step, UnlessSameStep, inner_steps
from functad.records import NamedTuple

LoadOrStore = TypeVar("LoadOrStore", Load, Store)


class UnfitError(Exception):
    """A loop is not one of rows."""


class RowAxes(NamedTuple):
    """What blocks of threads share: the steps of a loop, and in each as many matrices of so many rows."""

    step: Affine
    matrix: Affine
    row: Affine
    steps: int
    matrices: int
    rows: int

    @property
    def symbols(self) -> set[Symbol]:
        return self.matrix.symbols() | self.row.symbols()


class RowPlaces(NamedTuple):
    """How many elements lie from a row of some memory to the next, and from a matrix to the next; 0 if it has one."""

    row: int
    matrix: int


@dataclass(eq=False)
class RowNest:
    """A nest at a row, or, where it has none, all of a nest: `nest` has the other loops."""

    step: NestStep
    nest: Nest
    has_rows: bool


@dataclass(eq=False)
class RowProduct:
    """A product of a row: where the first elements of its operands lie. a_row, c_row: from this row's to the next's."""

    step: GemmStep
    a: tuple[Buffer, Affine]
    b: tuple[Buffer, Affine]
    c: tuple[Buffer, Affine]


@dataclass(eq=False)
class RowRepeat:
    """Steps of a loop, which a block of threads runs one after another."""

    step: Symbol
    items: list[RowItem]


RowItem = RowNest | RowProduct | RowRepeat


@dataclass(eq=False)
class RowLoop:
    """A loop whose steps do not depend on one another, and do each row apart.

    own: memory that a block of threads has for itself, and how rows lie there; None where it holds the same for all.
    written: other memory that it writes to.
    """

    loop: LoopStep
    axes: RowAxes
    items: list[RowItem]
    own: dict[Storage, RowPlaces | None]
    written: set[Storage]

    @property
    def flops(self) -> float:
        """How many operations it is."""
        return self.axes.steps * _flops(self.items)


def row_loop(step: LoopStep, touched: Mapping[Storage, int]) -> RowLoop | None:
    """The loop as one of rows; None if it is none. touched: how many places use each piece of memory."""
    inside = [s for s in inner_steps(step.body) if isinstance(s, GemmStep)]
    if not inside or step.length is None or step.after or len(step.body) < 2:
        return None
    try:
        return _Finding(step, step.length, inside, touched).found()
    except UnfitError:
        return None


class _Finding:
    """Looks for the rows of a loop."""

    def __init__(
        self, loop_step: LoopStep, length: int, products: Sequence[GemmStep], touched: Mapping[Storage, int]
    ) -> None:
        self.loop, self.products = loop_step, products
        matrices = max(product.batch for product in products)
        rows = products[0].batch * products[0].m // matrices
        self.axes = RowAxes(
            loop("step_here", length), loop("matrix_here", matrices), loop("first_here", rows), length, matrices, rows
        )
        if rows < 2:
            raise UnfitError
        self.memory = _Pointers()
        self.whole: set[Storage] = set()  # memory that holds the same for all rows
        here = touched_by([loop_step])
        self.private = {s for s, count in here.items() if s.kind == "arena" and touched.get(s) == count}
        if any(touched.get(s) != count for s, count in here.items() if s.kind == "pointer"):
            raise UnfitError  # what is behind the loop goes on from there
        self.known: dict[Storage, RowPlaces | None] = {}

    def found(self) -> RowLoop:
        self.memory.enter(self.loop, self.axes.step)
        resolved = [*self._resolved(self.loop.body)]
        written = {b.storage for item in each_of(resolved) for b, _, is_written in accesses_of(item) if is_written}
        own = {s for s in written if s in self.private and s not in _read_first(resolved)}
        while True:
            self.known, self.free, self.wrong = {}, set[Storage](), set[Storage]()
            items = self._cut_all(resolved, written)
            if items is not None:
                break
            if not self.wrong or self.wrong <= self.whole:
                raise UnfitError
            self.whole |= self.wrong
        for storage in written - own:
            self._check_shared(storage, items)
        if any(s.kind not in PLAIN_MEMORY for item in each_of(items) for s in storages_of(item)):
            raise UnfitError
        places = {s: self.known[s] for s in own}
        return RowLoop(self.loop, self.axes, items, places, written - own)

    # --- where pointers are ------------------------------------------------------------------------------

    def _resolved(self, steps: Sequence[Step]) -> Iterator[RowItem]:
        """The steps on memory instead of pointers; nests are not cut yet."""
        for step in steps:
            if isinstance(step, NestStep):
                yield RowNest(step, self._nest(step.nest), False)
            elif isinstance(step, GemmStep):
                yield self._product(step)
            elif isinstance(step, LoopStep) and step.length:
                index = loop(f"step_{step.name}", step.length)
                before = self.memory.enter(step, index)
                (symbol, *_) = [s for s, _ in index.terms] or [Symbol(f"step_{step.name}", 0, 0)]
                yield RowRepeat(symbol, [*self._resolved(step.body)])
                self.memory.leave(step, before)
                yield from self._resolved(step.after)
            elif isinstance(step, UnlessSameStep):
                if not self.memory.is_same(step):
                    yield from self._resolved(step.steps)
            else:
                raise UnfitError

    def _nest(self, nest: Nest) -> Nest:
        special = nest.across or nest.carries or nest.update or nest.ordered or nest.segments or nest.owners
        if special or not in_any_order(nest):
            raise UnfitError
        return on_memory(nest, self.memory.place)

    def _product(self, step: GemmStep) -> RowProduct:
        axes = self.axes
        if step.batch == axes.matrices and step.m == axes.rows:
            steps = step.a_batch, step.b_batch, step.c_batch
        elif step.batch == 1 and step.m == axes.matrices * axes.rows:
            steps = axes.rows * (1 if step.ta else step.lda), 0, axes.rows * step.ldc
        else:
            raise UnfitError
        a = axes.matrix * steps[0] + axes.row * (1 if step.ta else step.lda) + step.a_offset
        c = axes.matrix * steps[2] + axes.row * step.ldc + step.c_offset
        b = axes.matrix * steps[1] + step.b_offset
        place = self.memory.place
        return RowProduct(step, place(step.a, a), place(step.b, b), place(step.c, c))

    # --- rows --------------------------------------------------------------------------------------------

    def _cut_all(self, items: Sequence[RowItem], written: set[Storage]) -> list[RowItem] | None:
        """The items at a row; None if some memory must hold the same for all rows first."""
        found: list[RowItem] = []
        for item in items:
            if isinstance(item, RowRepeat):
                inner = self._cut_all(item.items, written)
                if inner is None:
                    return None
                found.append(RowRepeat(item.step, inner))
            elif isinstance(item, RowProduct):
                if item.b[0].storage in written or not self._takes(item, written):
                    raise UnfitError
                found.append(item)
            else:
                self.wrong = set()
                cut = next((c for c in self._cuts(item) if self._takes(c, written)), None)
                if cut is None:
                    return None
                found.append(cut)
        return found

    def _cuts(self, item: RowNest) -> Iterator[RowNest]:
        """The ways to find the axes among a nest's loops: first those that have all."""
        nest, (_, matrix, row, _, matrices, rows) = item.nest, self.axes
        kept = [s for s, is_reduced in zip(nest.loops, nest.reduced) if not is_reduced]
        for s in kept if matrices > 1 else ():
            if s.extent % (matrices * rows) == 0:
                each = s.extent // (matrices * rows)
                yield _cut(item, {s: matrix * (rows * each) + row * each + loop(s.name, each)})
            if s.extent == matrices:
                for r in kept:
                    if r is not s and r.extent % rows == 0:
                        each = r.extent // rows
                        yield _cut(item, {s: matrix, r: row * each + loop(r.name, each)})
        for s in kept:
            if s.extent % rows == 0:
                each = s.extent // rows
                yield _cut(item, {s: row * each + loop(s.name, each)})
        if nest.points <= machine_model.CUDA_SAME_POINTS:
            yield item

    def _takes(self, item: RowNest | RowProduct, written: set[Storage]) -> bool:
        """Whether what an item reads and writes lies in its own row, as far as the loop writes to it."""
        nest = item.nest if isinstance(item, RowNest) else None
        has_rows = not isinstance(item, RowNest) or item.has_rows
        if nest is not None and nest.accumulators and not all(nest.reduced):
            return False
        found: dict[Storage, RowPlaces | None] = {}
        for buffer, offset, is_written in accesses_of(item):
            storage = buffer.storage
            if storage not in written:
                continue
            if storage in self.known or storage in found:
                places = self.known[storage] if storage in self.known else found[storage]
                fits = not (is_written and has_rows) if places is None else has_rows
                if not fits or places is not None and not self._lies_in_rows(offset, places):
                    self.wrong |= {storage} & self.free
                    return False
                continue
            places = self._places(offset) if has_rows else None
            if not is_written or has_rows and (places is None or storage in self.whole):
                return False
            found[storage] = places
        if nest is not None and not any(self.known.get(b.storage) for b, _, is_written in nest.accesses()):
            self.free |= set(found)
        self.known.update(found)
        return True

    def _places(self, offset: Affine) -> RowPlaces | None:
        """How rows lie, if a position says so."""
        axes = self.axes
        places = RowPlaces(*(sum(offset.coefficient(s) for s in x.symbols()) for x in (axes.row, axes.matrix)))
        return places if places.row > 0 and places.matrix >= 0 and self._lies_in_rows(offset, places) else None

    def _lies_in_rows(self, offset: Affine, places: RowPlaces) -> bool:
        axes = self.axes
        if (offset // places.row) % axes.rows != axes.row:
            return False
        if not places.matrix:
            return axes.matrix.is_constant() or axes.matrix.symbols().isdisjoint(offset.symbols())
        return (offset // places.matrix) % axes.matrices == axes.matrix

    def _check_shared(self, storage: Storage, items: Sequence[RowItem]) -> None:
        """Raise unless each row of each step has its own place in memory that others see."""
        axes, places = self.axes, self.known[storage]
        found = [offset for item in each_of(items) for b, offset, _ in accesses_of(item) if b.storage is storage]
        strides = {sum(offset.coefficient(s) for s in axes.step.symbols()) for offset in found}
        if places is None or not (places.matrix or axes.matrices == 1) or len(strides) != 1:
            raise UnfitError
        (stride,) = strides
        if axes.steps > 1 and (stride <= 0 or any((offset // stride) % axes.steps != axes.step for offset in found)):
            raise UnfitError


class _Pointers:
    """Where pointers are: in which memory, and how many bytes behind its begin."""

    def __init__(self) -> None:
        self._places: dict[Storage, tuple[Storage, Affine]] = {}

    def enter(self, step: LoopStep, index: Affine) -> dict[Storage, tuple[Storage, Affine]]:
        """Go into a loop; gives where pointers are at its first step."""
        if step.predicate is not None or step.condition or step.stacks or step.count or step.counters:
            raise UnfitError
        for move in step.starts:
            storage, offset = self._of(move.source)
            self._places[move.target.memory] = storage, offset + move.offset
        before = dict(self._places)
        for move in step.moves:
            if move.target is not move.source:
                raise UnfitError
            storage, offset = self._of(move.target)
            self._places[move.target.memory] = storage, offset + index * move.offset
        return before

    def leave(self, step: LoopStep, before: Mapping[Storage, tuple[Storage, Affine]]) -> None:
        """Go on behind a loop, where nobody uses the pointers that it moved."""
        for move in step.moves:
            self._places[move.target.memory] = _NOWHERE, before[move.target.memory][1]

    def _of(self, storage: Storage) -> tuple[Storage, Affine]:
        storage = storage.memory
        found = self._places.get(storage)
        if found is None:
            start = 0
            while storage.whole is not None:
                storage, start = storage.whole.memory, start + storage.start
            found = storage, Affine(start)
        if found[0] is _NOWHERE:
            raise UnfitError
        return found

    def is_same(self, step: UnlessSameStep) -> bool:
        one, other = self._of(step.one), self._of(step.other)
        if one[0] is other[0] and one[1] != other[1]:
            raise UnfitError
        return one[0] is other[0]

    def place(self, buffer: Buffer, offset: Affine) -> tuple[Buffer, Affine]:
        """The memory, and the position there, of an element of a buffer."""
        storage, begin = self._of(buffer.storage)
        size = buffer.dtype.itemsize
        if is_narrow_float(buffer.dtype) or begin.constant % size or any(c % size for _, c in begin.terms):
            raise UnfitError
        begin = Affine(begin.constant // size, [(s, c // size) for s, c in begin.terms])
        return Buffer(storage, (storage.nbytes // size,), buffer.dtype), offset + begin


_NOWHERE = Storage("nowhere", 0, "pointer", -1)


Place = Callable[[Buffer, Affine], tuple[Buffer, Affine]]


def on_memory(nest: Nest, place: Place) -> Nest:
    """The nest with its accesses at other places."""

    def moved(s: LoadOrStore) -> LoadOrStore:
        buffer, offset = place(s.buffer, s.offset)
        return replace(s, buffer=buffer, offset=offset)

    statements = [moved(s) if isinstance(s, Load) else s for s in nest.statements]
    return replace(nest, statements=statements, stores=[moved(s) for s in nest.stores])


def _cut(item: RowNest, at: dict[Symbol, Affine]) -> RowNest:
    """The nest with axes in place of some loops, and what is left of these."""
    nest = item.nest
    loops: list[Symbol] = []
    for s in nest.loops:
        loops += [x for x, _ in at[s].terms if x.name == s.name] if s in at else [s]
    reduced = {s: is_reduced for s, is_reduced in zip(nest.loops, nest.reduced)}
    cut = replace(
        nest,
        loops=loops,
        reduced=[reduced.get(s, False) for s in loops],
        statements=[replace(at_point(s, at, {}), level=s.level) for s in nest.statements],
        stores=[replace(store_at(s, at, {}), level=s.level) for s in nest.stores],
    )
    return RowNest(item.step, cut, True)


def each_of(items: Sequence[RowItem]) -> Iterator[RowNest | RowProduct]:
    for item in items:
        if isinstance(item, RowRepeat):
            yield from each_of(item.items)
        else:
            yield item


def accesses_of(item: RowNest | RowProduct) -> list[tuple[Buffer, Affine, bool]]:
    """What an item reads and writes, and whether it is written; what is read comes first."""
    if isinstance(item, RowNest):
        return item.nest.accesses()
    step = item.step
    term, column = loop("term", step.k), loop("column", step.n)
    a = item.a[1] + term * (step.lda if step.ta else 1)
    c = (item.c[0], item.c[1] + column)
    read = [(item.a[0], a, False), (*item.b, False)] + ([(*c, False)] if step.beta else [])
    return [*read, (*c, True)]


def storages_of(item: RowNest | RowProduct) -> set[Storage]:
    return {buffer.storage for buffer, _, _ in accesses_of(item)}


def _read_first(items: Sequence[RowItem]) -> set[Storage]:
    """Memory that is read before anything is written there."""
    seen: set[Storage] = set()
    found: set[Storage] = set()
    for item in each_of(items):
        for buffer, _, is_written in accesses_of(item):
            if buffer.storage not in seen and not is_written:
                found.add(buffer.storage)
        seen |= storages_of(item)
    return found


def _flops(items: Sequence[RowItem]) -> float:
    """How many operations items are, in all rows."""
    found = 0.0
    for item in items:
        if isinstance(item, RowRepeat):
            found += item.step.extent * _flops(item.items)
        elif isinstance(item, RowProduct):
            found += 2.0 * item.step.batch * item.step.m * item.step.n * item.step.k
        else:
            found += work_of(item.step.nest).flops
    return found
