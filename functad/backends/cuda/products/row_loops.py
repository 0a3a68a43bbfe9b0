"""Loops of which a block of threads runs whole steps, matrix products included, on rows of its own.

Knows steps, and where they read and write; no text. So attention in blocks is one kernel: a block of threads takes some
queries, and goes over all keys.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from operator import mul

from functad import machine_model
from functad.backends.cpu.kernels.small_loops import touched_by
from functad.backends.cuda.kernels.mapping import in_any_order
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.backends.cuda.products.row_pointers import (
    LoopPointers,
    NoRowsError,
    descends,
    on_memory,
    pointers_set_in,
    position_in_memory,
)
from functad.dtypes import compute_dtype
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, delinear, linear, loop
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import Nest, loads_of
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import GemmStep, LoopStep, NestStep, Step, UnlessSameStep, inner_steps
from functad.records import NamedTuple


class RowAxes(NamedTuple):
    """What blocks of threads share: the steps of a loop, and in each as many matrices of so many rows.

    matrix: its number, of one axis or several.
    """

    step: Affine
    matrix: Affine
    row: Affine
    steps: int
    matrices: int
    rows: int

    @property
    def of_matrix(self) -> list[Symbol]:
        return [s for s, _ in self.matrix.terms]


class RowPlaces(NamedTuple):
    """Elements from a row of some memory to the next, and along each axis of matrices; 0 for those that it has not."""

    row: int
    matrix: tuple[int, ...]


@dataclass(eq=False)
class RowNest:
    """A nest at a row, or, where it has none, all of a nest: `nest` has the other loops."""

    step: NestStep
    nest: Nest
    has_rows: bool


@dataclass(eq=False)
class RowProduct:
    """A product of a row: where the first elements of its operands lie. others: what else it may be."""

    step: GemmStep
    a: tuple[Buffer, Affine]
    b: tuple[Buffer, Affine]
    c: tuple[Buffer, Affine]
    others: Sequence[RowProduct] = ()


@dataclass(eq=False)
class RowRepeat:
    """Steps of a loop, which a block of threads runs one after another; descends: from the last to the first."""

    step: Symbol
    items: list[RowItem]
    descends: bool = False


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
    for extents in _axes_of_matrices(inside):
        try:
            return _Finding(step, step.length, inside, extents, touched).found()
        except NoRowsError:
            continue
    return None


def _axes_of_matrices(products: Sequence[GemmStep]) -> Iterator[tuple[int, ...]]:
    """The extents of axes that number the matrices of products: one or two, and one of which rows are a part."""
    matrices = max(product.batch for product in products)
    pairs = [(n, matrices // n) for n in range(2, matrices // 2 + 1) if matrices % n == 0]
    yield from ((matrices,), *pairs)
    rows = min(product.m for product in products)
    for n in range(2, machine_model.CUDA_ROW_GROUPS + 1):  # rows of several matrices are those of one product
        if rows % (4 * n) == 0:
            yield from ((*each, n) for each in ((matrices,) if matrices > 1 else (), *pairs))


class _Ways(NamedTuple):
    """Ways to cut a nest: those that have been made, and the others, which are made where they are asked for."""

    made: list[RowNest]
    others: Iterator[RowNest]


class _Finding:
    """Looks for the rows of a loop."""

    def __init__(
        self,
        loop_step: LoopStep,
        length: int,
        products: Sequence[GemmStep],
        extents: tuple[int, ...],
        touched: Mapping[Storage, int],
    ) -> None:
        self.loop, self.products = loop_step, products
        matrices = math.prod(extents)
        rows = products[0].batch * products[0].m // matrices
        matrix = linear([loop(f"matrix_{k}", n) for k, n in enumerate(extents)], extents)
        self.axes = RowAxes(loop("step_here", length), matrix, loop("first_here", rows), length, matrices, rows)
        if rows < 2:
            raise NoRowsError
        self.memory = LoopPointers()
        self.own: set[Storage] = set()  # memory that a block has for itself
        self.known: dict[Storage, RowPlaces | None] = {}  # how rows lie in the memory written so far
        # Nests may be cut otherwise which read nothing of rows, or only what such nests have left.
        self.choices: list[int] = []  # which of the ways to cut them is tried for each such nest
        self.chosen_for: dict[Storage, int] = {}  # what the nests write
        self.nests = self.tries = 0
        self.ways: dict[RowNest, _Ways] = {}  # to cut each nest, as far as they have been asked for
        self.wrong: set[int] = set()  # which choices did not fit to the nest looked at
        self.blamed: set[int] = set()  # and to earlier ones
        here, self.own_pointers = touched_by([loop_step]), {*pointers_set_in([loop_step])}
        self.private = {s for s, count in here.items() if s.kind == "arena" and touched.get(s) == count}
        if any(touched.get(s) != here[s] for s in self.own_pointers):
            raise NoRowsError  # what is behind the loop goes on from there

    def found(self) -> RowLoop:
        self.memory.enter(self.loop, position_in_memory(self.loop, self.axes.step))
        resolved = _without_copies([*self._resolved(self.loop.body)], self.private)
        written = {b.storage for item in each_of(resolved) for b, _, is_written in accesses_of(item) if is_written}
        self.own = own = {s for s in written if s in self.private and s not in _read_first(resolved)}
        items = self._cut_all(resolved, written)
        while items is None:
            self._choose_anew()
            items = self._cut_all(resolved, written)
        for storage in written - own:
            self._check_shared(storage, items)
        kinds = {*PLAIN_MEMORY, "pointer"}  # those of loops around stay where they are
        used = {s for item in each_of(items) for s in storages_of(item)}
        if any(s.kind not in kinds or s in self.own_pointers for s in used):
            raise NoRowsError
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
                before = self.memory.enter(step, position_in_memory(step, index))
                (symbol, *_) = [s for s, _ in index.terms] or [Symbol(f"step_{step.name}", 0, 0)]
                yield RowRepeat(symbol, [*self._resolved(step.body)], descends(step))
                self.memory.leave(step, before)
                yield from self._resolved(step.after)
            elif isinstance(step, UnlessSameStep):
                if not self.memory.is_same(step):
                    yield from self._resolved(step.steps)
            else:
                raise NoRowsError

    def _nest(self, nest: Nest) -> Nest:
        special = nest.across or nest.carries or nest.update or nest.ordered or nest.segments or nest.owners
        if special or not in_any_order(nest):
            raise NoRowsError
        return on_memory(nest, self.memory.place)

    def _product(self, step: GemmStep) -> RowProduct:
        """The product, and what it is if its rows are the axes in another order."""
        found = [self._product_at(step, *numbers) for numbers in self._numbers(step)]
        if not found:
            raise NoRowsError
        return replace(found[0], others=found[1:])

    def _numbers(self, step: GemmStep) -> Iterator[tuple[Affine, Affine]]:
        """The number of a product's matrix, and that of the row in it, by the axes."""
        axes, all_rows = self.axes, self.axes.matrices * self.axes.rows
        if step.batch == axes.matrices and step.m == axes.rows:
            yield axes.matrix, axes.row
        elif step.batch * step.m == all_rows and axes.matrices % step.batch == 0:
            inner = axes.matrices // step.batch
            yield axes.matrix // inner, axes.matrix % inner * axes.rows + axes.row
            yield axes.matrix // inner, axes.row * inner + axes.matrix % inner

    def _product_at(self, step: GemmStep, matrix: Affine, row: Affine) -> RowProduct:
        place = self.memory.place
        a = matrix * step.a_batch + row * (1 if step.ta else step.lda) + step.a_offset
        c = matrix * step.c_batch + row * step.ldc + step.c_offset
        return RowProduct(
            step, place(step.a, a), place(step.b, matrix * step.b_batch + step.b_offset), place(step.c, c)
        )

    # --- rows --------------------------------------------------------------------------------------------

    def _choose_anew(self) -> None:
        """Another cut for the last nest of those that may be cut otherwise and did not fit to what followed."""
        self.blamed |= self.wrong
        last = max(self.blamed, default=-1)
        self.blamed.discard(last)
        self.tries += 1
        if last < 0 or self.tries > machine_model.CUDA_ROW_TRIES:
            raise NoRowsError
        self.choices = [*self.choices[:last], self.choices[last] + 1]
        self.known, self.chosen_for, self.nests = {}, {}, 0

    def _cut_all(self, items: Sequence[RowItem], written: set[Storage]) -> list[RowItem] | None:
        """The items at a row; None if some nest before should be cut otherwise."""
        found: list[RowItem] = []
        for item in items:
            self.wrong = set()
            cut: RowItem | None
            if isinstance(item, RowRepeat):
                inner = self._cut_all(item.items, written)
                cut = None if inner is None else replace(item, items=inner)
            else:
                cut = self._cut_one(item, written)
            if cut is None:
                return None
            found.append(cut)
        return found

    def _cut_one(self, item: RowNest | RowProduct, written: set[Storage]) -> RowNest | RowProduct | None:
        number = self.nests
        self.nests += 1
        self.choices += [0] * (number + 1 - len(self.choices))
        skipped = self.choices[number]
        for cut in self._ways_of(item) if isinstance(item, RowNest) else [item, *item.others]:
            places = self._takes(cut, written)
            if places is None:
                continue
            if skipped:
                skipped -= 1
                continue
            read = {b.storage for b, _, is_written in accesses_of(cut) if not is_written}
            is_fixed = isinstance(item, RowProduct) and not item.others
            if not is_fixed and all(s in self.chosen_for for s in read if self.known.get(s)):
                self.chosen_for.update({s: number for s in places})
            self.known.update(places)
            return cut
        if self.choices[number]:  # all ways have been tried: what it reads should be cut otherwise
            self.wrong |= {self.chosen_for[s] for s in storages_of(item) if s in self.chosen_for}
        return None

    def _ways_of(self, item: RowNest) -> Iterator[RowNest]:
        """The ways to cut a nest, which are the same in all tries: each is made once."""
        ways = self.ways.get(item)
        if ways is None:
            ways = self.ways[item] = _Ways([], self._cuts(item))
        yield from ways.made
        for cut in ways.others:
            ways.made.append(cut)
            yield cut

    def _cuts(self, item: RowNest) -> Iterator[RowNest]:
        """The ways to find the axes among a nest's loops: loops that are axes; none; parts of loops."""
        ways = [*self._axes_in(item.nest)]
        exact = [way for way in ways if all(each == 1 for _, each in way.values())]
        yield from (_cut(item, way) for way in exact)
        if item.nest.points <= machine_model.CUDA_SAME_POINTS:
            yield item
        yield from (_cut(item, way) for way in ways if way not in exact)

    def _axes_in(self, nest: Nest) -> Iterator[dict[tuple[Symbol, ...], tuple[Affine, int]]]:
        """Which loops may be which axes, and how many steps are left of them for each row."""
        _, matrix, row, _, matrices, rows = self.axes
        runs = _runs([s for s, is_reduced in zip(nest.loops, nest.reduced) if not is_reduced])
        extents = {run: math.prod(s.extent for s in run) for run in runs}
        for run in runs if matrices > 1 else ():
            each, rest = divmod(extents[run], matrices * rows)
            if each and not rest:
                yield from ({run: (place, each)} for place in self._places_of_rows())
            for of_rows in runs if extents[run] == matrices else ():
                each, rest = divmod(extents[of_rows], rows)
                if each and not rest and set(run).isdisjoint(of_rows):
                    yield {run: (matrix, 1), of_rows: (row, each)}
        for run in runs:
            each, rest = divmod(extents[run], rows)
            if each and not rest:
                yield {run: (row, each)}

    def _places_of_rows(self) -> Iterator[Affine]:
        """The number of a row among all, with rows within the axes of matrices, between them, and around them."""
        _, matrix, row, _, _, rows = self.axes
        for inner in accumulate([1, *(s.extent for s in reversed(self.axes.of_matrix))], mul):
            yield matrix // inner * (rows * inner) + row * inner + matrix % inner

    def _takes(self, item: RowNest | RowProduct, written: set[Storage]) -> dict[Storage, RowPlaces | None] | None:
        """How rows lie in memory that an item is the first to write to; None if it goes beyond its own row."""
        has_rows = not isinstance(item, RowNest) or item.has_rows
        if isinstance(item, RowNest) and item.nest.accumulators and not all(item.nest.reduced):
            return None
        found: dict[Storage, RowPlaces | None] = {}
        for buffer, offset, is_written in accesses_of(item):
            storage = buffer.storage
            if storage not in written:
                continue
            if storage in self.known or storage in found:
                places = self.known[storage] if storage in self.known else found[storage]
                fits = not (is_written and has_rows) if places is None else has_rows
                if not fits or places is not None and not self._lies_in_rows(offset, places):
                    self.wrong |= {self.chosen_for[storage]} if storage in self.chosen_for else set()
                    return None
                continue
            places = self._places(offset) if has_rows else None
            if not is_written or places is None and (has_rows or storage not in self.own):
                return None
            found[storage] = places
        return found

    def _places(self, offset: Affine) -> RowPlaces | None:
        """How rows lie, if a position says so."""
        axes = self.axes
        of_row = sum(offset.coefficient(s) for s in axes.row.symbols())
        places = RowPlaces(of_row, tuple([offset.coefficient(s) for s in axes.of_matrix]))
        fits = of_row > 0 and min(places.matrix, default=0) >= 0
        return places if fits and self._lies_in_rows(offset, places) else None

    def _lies_in_rows(self, offset: Affine, places: RowPlaces) -> bool:
        axes = self.axes
        found = zip([*axes.row.symbols(), *axes.of_matrix], (places.row, *places.matrix))
        return all((offset // each) % s.extent == Affine(0, [(s, 1)]) for s, each in found if each)

    def _check_shared(self, storage: Storage, items: Sequence[RowItem]) -> None:
        """Raise unless each row of each step has its own place in memory that others see."""
        axes, places = self.axes, self.known[storage]
        found = [offset for item in each_of(items) for b, offset, _ in accesses_of(item) if b.storage is storage]
        strides = {sum(offset.coefficient(s) for s in axes.step.symbols()) for offset in found}
        if places is None or not all(places.matrix) or len(strides) != 1:
            raise NoRowsError
        (stride,) = strides
        if axes.steps > 1 and (stride <= 0 or any((offset // stride) % axes.steps != axes.step for offset in found)):
            raise NoRowsError


def _runs(loops: Sequence[Symbol]) -> list[tuple[Symbol, ...]]:
    """Loops, and those one within the other, the fewest first."""
    return [run for count in range(1, len(loops) + 1) for run in combinations(loops, count)]


def _cut(item: RowNest, axes: Mapping[tuple[Symbol, ...], tuple[Affine, int]]) -> RowNest:
    """The nest with axes in place of some loops, and of each axis so many steps, which are one more loop."""
    nest = item.nest
    at: dict[Symbol, Affine] = {}
    inner: dict[Symbol, list[Symbol]] = {}
    for run, (axis, each) in axes.items():
        rest = loop(run[-1].name, each)
        at.update(zip(run, delinear(axis * each + rest, [s.extent for s in run])))
        inner.update({s: [] for s in run} | {run[-1]: [s for s, _ in rest.terms]})
    loops = [(x, is_reduced) for s, is_reduced in zip(nest.loops, nest.reduced) for x in inner.get(s, [s])]
    cut = replace(
        nest,
        loops=[s for s, _ in loops],
        reduced=[is_reduced for _, is_reduced in loops],
        statements=[replace(at_point(s, at, {}), level=s.level) for s in nest.statements],
        stores=[replace(store_at(s, at, {}), level=s.level) for s in nest.stores],
    )
    return RowNest(item.step, cut, True)


def _without_copies(items: Sequence[RowItem], private: set[Storage]) -> list[RowItem]:
    """The items, where products read what would be copied for them where it lies, if rows or columns go on there."""
    written = Counter(b.storage for item in each_of(items) for b, _, is_written in accesses_of(item) if is_written)
    copies: dict[Storage, Nest] = {}
    for item in each_of(items):
        nest = item.nest if isinstance(item, RowNest) else None
        if nest is not None and _is_copy(nest) and not any(s.buffer.storage in written for s in loads_of(nest)):
            storage = nest.stores[0].buffer.storage
            if storage in private and written[storage] == 1:
                copies[storage] = nest

    def changed(item: RowItem) -> RowItem:
        if not isinstance(item, RowProduct):
            return item
        return replace(_from_source(item, copies), others=[_from_source(other, copies) for other in item.others])

    items = _mapped(items, changed)
    ways = [way for item in each_of(items) for way in (item, *(item.others if isinstance(item, RowProduct) else ()))]
    read = {b.storage for way in ways for b, _, is_written in accesses_of(way) if not is_written}
    unread = [nest for storage, nest in copies.items() if storage not in read]
    return _mapped(items, lambda item: None if isinstance(item, RowNest) and item.nest in unread else item)


def _mapped(items: Sequence[RowItem], change: Callable[[RowItem], RowItem | None]) -> list[RowItem]:
    """The items, those in loops, too, after a change; None leaves one out."""
    inside = [replace(i, items=_mapped(i.items, change)) if isinstance(i, RowRepeat) else change(i) for i in items]
    return [item for item in inside if item is not None]


def _is_copy(nest: Nest) -> bool:
    """Whether a nest copies elements into memory in the order of its loops."""
    if len(nest.statements) != 1 or len(nest.stores) != 1 or not loads_of(nest) or any(nest.reduced):
        return False
    (load,), (store,) = loads_of(nest), nest.stores
    place = linear([Affine(0, [(s, 1)]) for s in nest.loops], [s.extent for s in nest.loops])
    # What is loaded of floats of 16 bits is their value as float32, which products take, too.
    return store.value == load.name and store.offset == place and compute_dtype(load.buffer.dtype) == store.buffer.dtype


def _from_source(item: RowProduct, copies: Mapping[Storage, Nest]) -> RowProduct:
    """A product of what has been copied, as one of what was copied."""
    step = item.step
    term, column = loop("term", step.k), loop("column", step.n)
    along_term, along_column = (step.ldb, 1) if not step.tb else (1, step.ldb)
    for name, places in (
        ("a", (item.a[1], term * (step.lda if step.ta else 1))),
        ("b", (item.b[1], term * along_term, column * along_column)),
    ):
        buffer, _ = item.a if name == "a" else item.b
        nest = copies.get(buffer.storage)
        if nest is None:
            continue
        position = sum(places[1:], places[0])
        at = dict(zip(nest.loops, delinear(position, [s.extent for s in nest.loops])))
        (load,) = loads_of(nest)
        item = _read_from(item, name, load.buffer, load.offset.substitute(at), (term, column))
    return item


def _read_from(
    item: RowProduct, name: str, buffer: Buffer, position: Affine, axes: tuple[Affine, Affine]
) -> RowProduct:
    """The product with an operand elsewhere, if its elements lie in lines there; position: of a term and a column."""
    term, column = axes
    inner = term.symbols() | column.symbols()
    if any(s.base is not None and not s.base.symbols().isdisjoint(inner) for s, _ in position.terms):
        return item
    of_term, of_column = (sum(position.coefficient(s) for s in x.symbols()) for x in axes)
    begin = Affine(position.constant, [(s, c) for s, c in position.terms if s not in inner])
    if name == "a":
        fits = of_term == 1 or not term.terms
        return replace(item, a=(buffer, begin), step=replace(item.step, ta=0)) if fits else item
    if of_column == 1 or not column.terms:
        return replace(item, b=(buffer, begin), step=replace(item.step, tb=0, ldb=of_term))
    if of_term == 1 or not term.terms:
        return replace(item, b=(buffer, begin), step=replace(item.step, tb=1, ldb=of_column))
    return item


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
