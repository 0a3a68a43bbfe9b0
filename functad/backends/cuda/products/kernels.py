"""Matrix products on CUDA as text: tiles in shared memory, results in registers, and what is computed of each result.

Knows where elements of matrices lie; nothing of Programs. What follows at each result is nests, as `epilogues` finds
them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from functad import machine_model
from functad.backends.cuda.kernels.emit import TICKETS, CudaKernel, last_to_finish, point_of, set_in
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.shared_steps import of_blocks
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.backends.cuda.products.tiles import PAD, ProductSizes, ProductTile, shared_elements
from functad.backends.cuda.scalars.registry import HAS_ALIGNED_MEMORY
from functad.backends.cuda.scalars.words import LONGEST_VECTOR, TERMS
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import data
from functad.lowering.nests.nest import PRE, Let, Load, Nest, Statement, fresh, names_of, typed_literal
from functad.lowering.nests.printing import Parameter, kernel_parameters, own_names_apart
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import GemmStep
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import cast, rounding
from functad.records import NamedTuple

ROW, COLUMN = "i", "j"  # of a result; rows of all matrices of a batch are counted through


def emit_product(
    products: Sequence[GemmStep], tile: ProductTile, nests: Sequence[Nest], is_kept: bool, vocabulary: Set[str]
) -> CudaKernel:
    """The kernel of `c = beta · c + alpha · Σ a · b` and of nests of loops i and j, of each result.

    is_kept: whether the sum is written to `c`. vocabulary: names that nests' own are kept apart from.
    """
    own = {*vocabulary, *_operands(products), *_OWN_NAMES}
    return _ProductText(products, tile, Ending(products[0], nests, is_kept, own)).kernel()


def emit_rows_of_product(step: GemmStep, tile: ProductTile, shared: str, vocabulary: Set[str]) -> str:
    """The text by which a block of threads computes all rows of a product, which are a tile's, and waits for itself.

    shared: its memory for tiles. The text has operands `a`, `b` and `c`, and knows its `thread`.
    """
    ending = Ending(step, [], True, {*vocabulary, *_operands([step]), *_OWN_NAMES})
    return _ProductText([step], tile, ending).rows(shared)


def sizes_of(products: Sequence[GemmStep]) -> ProductSizes:
    """What the cost of a sum of products depends on."""
    widths = [layout.width for step in products for layout in operand_layouts(step)]
    (step, *_), terms = products, sum(step.k for step in products)
    return ProductSizes(step.batch, step.m, step.n, terms, step.c.dtype.itemsize, min(widths))


def _operands(products: Sequence[GemmStep]) -> dict[str, Buffer]:
    """The operands of products by name."""
    numbers = [str(n) if n > 1 else "" for n in range(1, len(products) + 1)]
    return {f"{side}{n}": getattr(p, side) for n, p in zip(numbers, products) for side in "ab"}


class OperandLayout(NamedTuple):
    """How an operand lies in memory.

    along: whether terms lie side by side. row: elements from one line of them, or across them, to the next. size: its
    rows, or columns, without terms. width: elements of a load.
    """

    along: bool
    row: int
    offset: int
    batch: int
    size: int
    terms: int
    width: int


def operand_layouts(step: GemmStep) -> tuple[OperandLayout, OperandLayout]:
    """How the operands of a product lie."""
    return (
        _layout(step.a, not step.ta, step.lda, step.a_offset, step.a_batch, step.m, step.k),
        _layout(step.b, bool(step.tb), step.ldb, step.b_offset, step.b_batch, step.n, step.k),
    )


def _layout(buffer: Buffer, along: bool, row: int, offset: int, batch: int, size: int, terms: int) -> OperandLayout:
    storage = buffer.storage
    plain = storage.kind in PLAIN_MEMORY and storage.whole is None and kind_of(buffer.dtype) == "f"
    numbers = (row, offset, batch, terms if along else size)
    width = TERMS if plain and not any(number % TERMS for number in numbers) else 1
    return OperandLayout(along, row, offset, batch, size, terms, width)


class Ending:
    """What becomes of the sum of a result's terms: the product, and what nests compute of it."""

    def __init__(self, step: GemmStep, nests: Sequence[Nest], is_kept: bool, vocabulary: Set[str]) -> None:
        self.step, self.nests, self.is_kept, self.vocabulary = step, nests, is_kept, vocabulary
        names = {"c", *vocabulary}
        self.given: dict[Storage, Parameter] = {}
        if is_kept or step.beta:
            self.given[step.c.storage] = ("c", step.c, "rw" if step.beta else "w")
        for nest in nests:
            for storage, (name, buffer, mode) in kernel_parameters(nest).items():
                known = self.given.get(storage)
                if storage is step.c.storage and mode == "r" and known is None:
                    continue  # it is the sum
                name = known[0] if known else fresh(name, names)
                self.given[storage] = (name, buffer, mode if known is None or known[2] == mode else "rw")

    @property
    def parameters(self) -> list[Parameter]:
        return list(self.given.values())

    def lines(
        self,
        text: KernelText,
        around: Set[str] = frozenset(),
        points: Sequence[str] = ("",),
        inside: Sequence[str] = ("",),
    ) -> None:
        """What is done of some results at a time, all that is loaded first.

        around: names of the text around. points: behind the names of each one's row, column and sum. inside: the
        conditions under which there is one.
        """
        step = self.step
        apart = step.batch > 1 and step.c_batch != step.m * step.ldc
        for x in points if apart else ():
            text.line(f"q{x} = {ROW}{x} // {step.m}", f"row{x} = {ROW}{x} % {step.m}")
        rows = {x: [(f"q{x}", step.c_batch), (f"row{x}", step.ldc)] if apart else [(ROW + x, step.ldc)] for x in points}
        places = [total(*rows[x], COLUMN + x, step.c_offset) for x in points]
        for x, place in zip(points, places) if step.beta else ():
            text.line(f"start{x} = c[{place}]")
        for x in points:
            if step.alpha != 1:
                text.line(f"value{x} = {typed_literal(step.alpha, step.c.dtype)} * value{x}")
            if step.beta:
                factor = "" if step.beta == 1 else f"{typed_literal(step.beta, step.c.dtype)} * "
                text.line(f"value{x} = value{x} + {factor}start{x}")
        for x, place, test in zip(points, places, inside) if self.is_kept else ():
            with text.block(*([f"if {test}:"] if test else [])):
                text.line(f"c[{place}] = value{x}")
        known, names = {step.c.storage: "value"}, {name for name, _, _ in self.given.values()}
        taken = {*around, *(f"{name}{x}" for x in points for name in _OF_RESULTS)}
        for nest in self.nests:
            loads, stores = _at_points(nest, known, points)
            lines = [point_of(loads, self.given).rstrip("\n")]
            for one, test in zip(stores, inside):
                stored = point_of(one, self.given).rstrip("\n")
                lines.append(f"if {test}:\n{textwrap.indent(stored, '    ')}" if test else stored)
            own = [name for storage, (name, _, _) in self.given.items() if storage in kernel_parameters(nest)]
            body, _ = own_names_apart("\n".join(lines), own, {*self.vocabulary, *taken, *names} - {*own})
            taken |= set_in(body)
            text.line(*body.split("\n"))
            if any(store.buffer.storage is step.c.storage for store in nest.stores):
                known = {}


def _at_points(nest: Nest, known: Mapping[Storage, str], points: Sequence[str]) -> tuple[Nest, list[Nest]]:
    """A nest at several points of its loops without its stores, and the stores of each.

    known: names of values that are read of some storages.
    """
    statements: list[Statement] = [
        Let((s.name,), known[s.buffer.storage], (known[s.buffer.storage],), PRE, None)
        if isinstance(s, Load) and s.buffer.storage in known
        else s
        for s in nest.statements
    ]
    own = {name for s in statements for name in names_of(s)} | {*known.values()}
    names = [{name: name + x for name in own} for x in points]
    at = [{s: data(s.name + x, s.low, s.high) for s in nest.loops} for x in points]
    copied = [at_point(s, a, n) for s in statements for a, n in zip(at, names)]
    stores = [[store_at(s, a, n) for s in nest.stores] for a, n in zip(at, names)]
    return replace(nest, statements=copied, stores=[]), [replace(nest, statements=[], stores=one) for one in stores]


class _Side:
    """One operand: where its elements lie, in memory and in shared memory, where they lie in the same direction.

    along: whether terms lie side by side; else rows of the left operand, or columns of the right one, do. A line is a
    row or column of the matrix then, or all elements of a term. width: elements of a load.
    """

    def __init__(self, name: str, dtype: np.dtype, layout: OperandLayout, tile: ProductTile) -> None:
        self.name, self.dtype, self.layout, self.tile = name, dtype, layout, tile
        left = name[0] == "a"
        self.count, self.results = (tile.down, tile.rows) if left else (tile.across, tile.columns)
        self.lane, self.first = ("down", "first_row") if left else ("beside", "first_column")
        self.edge = self.count * self.results  # rows, or columns, of its tile
        self.inner, self.lines = (tile.depth, self.edge) if layout.along else (self.edge, tile.depth)
        self.stride = self.inner + (PAD if layout.along else 0)
        self.per_line = self.inner // layout.width  # threads
        self.step = tile.threads // self.per_line  # lines from one load of a thread to the next
        self.units = self.per_line * self.lines
        self.loads = -(-self.units // tile.threads)

    def begin(self, text: KernelText, base: int) -> None:
        """Where a thread loads, to where that goes in shared memory, and where it reads its operands there."""
        name, layout, tile = self.name, self.layout, self.tile
        text.line(f"{name}_line = thread // {self.per_line}")
        text.line(f"{name}_inner = thread % {self.per_line} * {layout.width}")
        text.line(f"{name}_to = {total((f'{name}_line', self.stride), f'{name}_inner', base)}")
        terms = tile.depth // tile.groups * (1 if layout.along else self.stride)
        lane = (self.lane, self.stride if layout.along else min(self.results, TERMS))
        text.line(f"{name}_from = {total(lane, ('group', terms), base)}")

    def load(self, text: KernelText, first: str, checked: bool) -> None:
        """Ask for what a thread brings of the terms from `first` on; checked: whether they may be past the last."""
        name, layout = self.name, self.layout
        start = total(("matrix", layout.batch), layout.offset)
        if layout.along:
            inner = f"{first} + {name}_inner"
            inner = f"min({inner}, {layout.terms - layout.width})" if checked else inner
            line, last = f"{self.first} + {name}_line", layout.size - 1
        else:
            inner = f"min({self.first} + {name}_inner, {layout.size - layout.width})"
            line, last = f"{first} + {name}_line", layout.terms - 1
        base = inner if start == "0" else f"{start} + {inner}"
        lines = f"{line}, {self.step}, {last}, {layout.row}"
        text.line(f"{name}_ahead = loads({name}, {self.loads}, {layout.width}, {base}, {lines})")

    def put(self, text: KernelText, checked: bool) -> None:
        """Put what was loaded into shared memory; checked: zeros for terms past the last."""
        name, layout = self.name, self.layout
        at = f"first + {name}_inner, 0" if layout.along else f"first + {name}_line, {self.step}"
        place = f"{name}_to, {self.step * self.stride}, {name}_{'values' if is_narrow_float(self.dtype) else 'ahead'}"
        guard = [f"if thread < {self.units}:"] if self.units < self.tile.threads else []
        with text.block(*guard):
            if is_narrow_float(self.dtype):
                values = [
                    f"from_bits_{rounding(self.dtype)}({name}_ahead[{k}])" for k in range(self.loads * layout.width)
                ]
                text.line(f"{name}_values = ({', '.join(values)},)")
            text.line(f"stores(shared, {layout.width}, {place}, {at if checked else '0, 0'}, {layout.terms})")

    def read(self) -> str:
        """A thread's operands of the four terms from `within` on, from shared memory."""
        if self.layout.along:
            return f"along(shared, {self.results}, {self.name}_from + within, {self.count * self.stride})"
        at = f"{self.name}_from + within * {self.stride}"
        return f"across(shared, {self.results}, {at}, {self.count * min(self.results, TERMS)}, {self.stride})"

    def result(self, r: int) -> tuple[str | int | tuple[str, int], ...]:
        """Which row or column of the tile a thread's r-th one is, as terms of a sum."""
        if self.layout.along:
            return (self.lane, r * self.count)
        few = min(self.results, TERMS)
        return ((self.lane, few), r % few + r // few * few * self.count)


class _ProductText:
    """Writes the kernel of a sum of products."""

    def __init__(self, products: Sequence[GemmStep], tile: ProductTile, ending: Ending) -> None:
        self.products, self.step, self.tile, self.ending = products, products[0], tile, ending
        self.text = KernelText()
        step, self.operands = self.step, _operands(products)
        layouts = [layout for product in products for layout in operand_layouts(product)]
        sides = [_Side(name, b.dtype, layout, tile) for (name, b), layout in zip(self.operands.items(), layouts)]
        self.sides = list(zip(sides[::2], sides[1::2]))
        self.dtype: np.dtype = step.c.dtype
        self.zero = f"{cast(self.dtype)}(0)"
        self.down, self.along = -(-step.m // tile.height), -(-step.n // tile.width)

    def kernel(self) -> CudaKernel:
        tile, text, step = self.tile, self.text, self.step
        aligned = f", {LONGEST_VECTOR}" if HAS_ALIGNED_MEMORY else ""  # else the one array begins at a round place
        text.line(f"shared = cuda.shared.array({shared_elements(tile)}, {self.dtype.name}{aligned})")
        text.line("thread = cuda.threadIdx.x")
        self._places_of_threads()
        blocks = step.batch * tile.parts * self.down * self.along
        with of_blocks("block", blocks).within(text):
            self._block()
        named = [("q", step.batch), ("part", tile.parts), ("down", self.down), ("across", self.along)]
        mapping = LoopMapping(
            block=tuple([MappedLoop(name, extent) for name, extent in named if extent > 1]),
            thread=(MappedLoop("group", tile.groups), MappedLoop("row", tile.down), MappedLoop("column", tile.across)),
            serial=(MappedLoop("term", sum(product.k for product in self.products)),),
        )
        given = [*((name, buffer, "r") for name, buffer in self.operands.items()), *self.ending.parameters]
        if tile.parts > 1:
            parts = new_buffer(f"parts_{step.name}", (tile.parts, step.batch * step.m * step.n), step.c.dtype)
            tickets = new_buffer("tickets", (step.batch * self.down * self.along,), np.dtype(np.uint32), TICKETS)
            given += [("parts", parts, "rw"), ("tickets", tickets, "rw")]
        return CudaKernel(f"{text}\n", tuple(given), mapping, tile.threads)

    def rows(self, shared: str) -> str:
        """The text of all columns of rows that are a tile's."""
        tile, text = self.tile, self.text
        text.line(f"shared = {shared}")
        self._places_of_threads()
        text.line("matrix = 0", "first_row = 0")
        with text.loop("first_column", 0, self.step.n, tile.width):
            self._tile()
        return str(text)

    def _places_of_threads(self) -> None:
        tile = self.tile
        self.text.line(f"group = thread // {tile.group}", f"down = thread % {tile.group} // {tile.across}")
        self.text.line(f"beside = thread % {tile.across}")

    def _block(self) -> None:
        tile, text, step = self.tile, self.text, self.step
        rows = f"block // {self.along} % {self.down} * {tile.height}"
        text.line(f"first_row = {rows}", f"first_column = block % {self.along} * {tile.width}")
        rest = self.down * self.along
        if tile.parts > 1:
            text.line(f"part = block // {rest} % {tile.parts}")
        text.line(f"matrix = block // {rest * tile.parts}" if step.batch > 1 else "matrix = 0")
        self._tile()

    def _tile(self) -> None:
        """A tile of results."""
        tile, text = self.tile, self.text
        text.line(f"sums = copies({tile.rows * tile.columns}, {self.zero})")
        for product, (a, b) in zip(self.products, self.sides):
            self._add(product, a, b)
        self._leave()

    def _add(self, product: GemmStep, a: _Side, b: _Side) -> None:
        """Add the products of one pair of operands to the sums."""
        tile, text, terms = self.tile, self.text, product.k
        a.begin(text, 0)
        b.begin(text, a.lines * a.stride)
        rounds = -(-terms // (tile.depth * tile.parts))
        first, end, past = "0", str(terms), terms % tile.depth != 0  # whether a round may go past the last term
        if tile.parts > 1:
            span = rounds * tile.depth
            text.line(f"begin = part * {span}", f"end = min(begin + {span}, {terms})")
            first, end = "begin", "end"
        for side in (a, b):
            side.load(text, first, past or tile.parts > 1)
        with text.loop("first", first, end, tile.depth):
            for side in (a, b):
                side.put(text, past)
            text.line("cuda.syncthreads()")
            if rounds > 1:
                with text.block(f"if first + {tile.depth} < {end}:"):
                    for side in (a, b):
                        side.load(text, f"first + {tile.depth}", past)
            with text.loop("within", 0, tile.depth // tile.groups, TERMS):
                text.line(f"sums = add_products(sums, {a.read()}, {b.read()})")
            text.line("cuda.syncthreads()")

    def _leave(self) -> None:
        """Put the sums of all groups into shared memory, and let the block's threads go on from there."""
        tile, text, step = self.tile, self.text, self.step
        size, (a, b) = tile.height * tile.width, self.sides[-1]
        few = TERMS if kind_of(self.dtype) == "f" and not b.layout.along and tile.columns % TERMS == 0 else 1
        for r in range(tile.rows):
            row = [(x, f * tile.width) for x, f in (t if isinstance(t, tuple) else (t, 1) for t in a.result(r))]
            for c in range(0, tile.columns, few):
                place = total(("group", size), *row, *b.result(c))
                values = [f"sums[{r * tile.columns + c + k}]" for k in range(few)]
                stored = f"store4(shared, {place}, {', '.join(values)})"
                text.line(stored if few > 1 else f"shared[{place}] = {values[0]}")
        text.line("cuda.syncthreads()")
        with self._results(size) as (points, inside):
            for x, place in zip(points, self._places(points)):
                sums = [total(place, k * size) for k in range(tile.groups)]
                text.line(f"value{x} = {' + '.join(f'shared[{at}]' for at in sums)}")
            if tile.parts == 1:
                self.ending.lines(text, _OWN_NAMES, points, inside)
            for x, test in zip(points, inside) if tile.parts > 1 else ():
                with text.block(*([f"if {test}:"] if test else [])):
                    place = f"part * {step.batch * step.m * step.n} + {ROW}{x} * {step.n} + {COLUMN}{x}"
                    text.line(f"parts[{place}] = value{x}")
        if tile.parts > 1:
            self._put_together(size)
        text.line("cuda.syncthreads()")

    def _places(self, points: Sequence[str]) -> list[str]:
        """Where in its tile each result is that a thread has at a time."""
        return [total("point", k * self.tile.threads) for k in range(len(points))]

    @contextmanager
    def _results(self, size: int) -> Iterator[tuple[list[str], list[str]]]:
        """A loop over the results of a block, which its threads share, several at a time: see `_Ending.lines`.

        What lies outside of the matrix counts as its last row, or column, until something is stored.
        """
        tile, text, step = self.tile, self.text, self.step
        count = max(1, min(size // tile.threads, machine_model.CUDA_RESULTS_AT_ONCE))
        points = [f"_p{k}" for k in range(count)] if count > 1 else [""]
        inside = []
        with text.loop("point", "thread", size, count * tile.threads):
            for x, place in zip(points, self._places(points)):
                tests = []
                for name, first, end, divided, edge in (
                    (ROW, "first_row", step.m, "//", tile.height), (COLUMN, "first_column", step.n, "%", tile.width),
                ):  # fmt: skip
                    place = f"({place})" if " " in place and place[0] != "(" else place
                    text.line(f"{name}{x} = {first} + {place} {divided} {tile.width}")
                    if end % edge:
                        tests.append(f"{name}{x} < {end}")
                if tests:
                    text.line(f"inside{x} = {' and '.join(tests)}")
                    text.line(
                        f"{ROW}{x} = min({ROW}{x}, {step.m - 1})", f"{COLUMN}{x} = min({COLUMN}{x}, {step.n - 1})"
                    )
                if step.batch > 1:
                    text.line(f"{ROW}{x} = {total(('matrix', step.m), ROW + x)}")
                inside.append(f"inside{x}" if tests else "")
            yield points, inside

    def _put_together(self, size: int) -> None:
        """The last block of a tile adds up what all parts have come to, in their order."""
        text, step, parts = self.text, self.step, self.tile.parts
        results = step.batch * step.m * step.n
        tile = total(("matrix", self.down * self.along), f"block % {self.down * self.along}")
        *lines, condition = last_to_finish("tickets", tile, parts)
        text.line(*lines)
        with text.block(condition):
            with self._results(size) as (points, inside):
                for x in points:
                    text.line(f"place{x} = {ROW}{x} * {step.n} + {COLUMN}{x}", f"value{x} = parts[place{x}]")
                with text.loop("at", 1, parts):
                    text.line(*[f"value{x} = value{x} + parts[at * {results} + place{x}]" for x in points])
                self.ending.lines(text, _OWN_NAMES, points, inside)


_OF_RESULTS = ("value", "start", "inside", "place", "q", "row", ROW, COLUMN)
_OWN_NAMES = frozenset(
    ("shared", "thread", "group", "down", "beside", "block", "first_row", "first_column", "part", "parts", "matrix",
     "begin", "end", "first", "within", "point", "sums", "tickets", "is_last", "at", "c",
     *(f"{name}{x}" for name in _OF_RESULTS
       for x in ("", *(f"_p{k}" for k in range(16)))), *(f"{side}_{what}" for side in "ab"
     for what in ("line", "inner", "to", "from", "ahead", "values")))
)  # fmt: skip
