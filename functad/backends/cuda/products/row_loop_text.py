"""Prints a loop whose rows blocks of threads share as the text of one CUDA kernel.

Knows shared memory and tiles of products; nothing of how rows were found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np

from functad import machine_model
from functad.backends.cuda.kernels.emit import SHARED_TYPES, CudaEmitter, CudaKernel, memory_type, set_in
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.shared_steps import of_blocks
from functad.backends.cuda.kernels.vectors import WIDTH, in_fours
from functad.backends.cuda.products.kernels import emit_rows_of_product, operand_layouts, sizes_of
from functad.backends.cuda.products.row_loops import (
    RowAxes,
    RowItem,
    RowLoop,
    RowNest,
    RowPlaces,
    RowProduct,
    RowRepeat,
    accesses_of,
    each_of,
)
from functad.backends.cuda.products.row_pointers import NoRowsError, on_memory
from functad.backends.cuda.products.tiles import ProductTile, has_lines_for, shared_elements, tile_of_rows
from functad.backends.cuda.scalars.registry import HAS_ALIGNED_MEMORY
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, data, loop
from functad.lowering.nests.nest import IndexLet, fresh
from functad.lowering.nests.printing import Parameter, own_names_apart
from functad.lowering.steps import GemmStep

_OWN = frozenset(
    ("thread", "lane", "row_here", "slot_here", "block", "step_here", "matrix_0", "matrix_1", "matrix_2", "tile_here")
)
_ROUND = WIDTH * np.dtype(np.float32).itemsize  # bytes that the longest load takes
_OPERANDS = ("a", "b", "c")  # as the text of a product calls them
_WORD = re.compile(r"[A-Za-z_]\w*")


def emit_row_loop(rows: RowLoop, threads: int, vocabulary: Set[str]) -> CudaKernel | None:
    """The kernel of a loop of rows, for blocks of `threads`; None if there is too little to do for them.

    vocabulary: names that the text's own are kept apart from.
    """
    if not HAS_ALIGNED_MEMORY:
        return None
    for side in _sides(rows.axes, threads):
        try:
            return _RowLoopText(rows, side, threads, vocabulary).kernel()
        except NoRowsError:
            continue
    return None


def _sides(axes: RowAxes, threads: int) -> list[int]:
    """Of how many rows blocks may be: as many as leave a block for each multiprocessor, or for half of them."""
    enough = machine_model.CUDA_CORES * threads // machine_model.CUDA_THREADS
    fitting = [side for side in machine_model.CUDA_ROWS if axes.rows % side == 0 and side <= threads]
    blocks = {side: axes.steps * axes.matrices * (axes.rows // side) for side in fitting}
    many = [side for side in fitting if blocks[side] >= enough]
    return many + [side for side in reversed(fitting) if enough <= 2 * blocks[side] < 2 * enough]


@dataclass(eq=False)
class _Own:
    """Memory that a block has for itself: its elements, and which items use it first and last."""

    dtype: np.dtype
    size: int
    first: int
    last: int


@dataclass(eq=False)
class _Slot:
    """Memory of a block that holds one value after another."""

    name: str
    dtype: np.dtype
    size: int
    last: int
    is_shared: bool = False
    buffer: Buffer | None = None
    users: list[Storage] = field(default_factory=list)


class _RowLoopText:
    """Writes the kernel of a loop of rows, of which a block of threads has `side` at a time."""

    def __init__(self, rows: RowLoop, side: int, threads: int, vocabulary: Set[str]) -> None:
        self.rows, self.axes, self.side, self.threads = rows, rows.axes, side, threads
        self.lanes = threads // side
        axes = self.axes
        self.tiles = axes.rows // side
        self.units = axes.steps * axes.matrices * self.tiles
        self.row = Symbol("own_row", 0, side - 1)
        first = data("tile_here", 0, self.tiles - 1) * side
        self.at: dict[Symbol, Affine] = {s: first + Affine(0, [(self.row, 1)]) for s in axes.row.symbols()}
        self.items = [*each_of(rows.items)]
        self.products = {id(item): self._tile(item.step) for item in self.items if isinstance(item, RowProduct)}
        self.slots, self.slot_of = self._slots()
        self._place_slots()
        self.names: dict[Storage, Parameter] = {}
        self._name(vocabulary)
        self.taken = {*_OWN, *(item.step.name for item in _repeats_of(rows.items))}
        self.vocabulary = {*vocabulary, *_OWN}

    def _tile(self, step: GemmStep) -> ProductTile:
        tile = tile_of_rows(sizes_of([step])._replace(batch=1, rows=self.side), self.threads)
        if tile is None or step.a.dtype != step.c.dtype:
            raise NoRowsError
        return tile

    # --- memory ------------------------------------------------------------------------------------------

    def _slots(self) -> tuple[list[_Slot], dict[Storage, _Slot]]:
        """Memory for all that a block has for itself; what is needed no more leaves its own to others."""
        own = self._lifetimes()
        slots: list[_Slot] = []
        slot_of: dict[Storage, _Slot] = {}
        for storage, one in sorted(own.items(), key=lambda pair: pair[1].first):
            free = [s for s in slots if s.last < one.first and s.dtype == one.dtype]
            slot = min(free, key=lambda s: abs(s.size - one.size), default=None)
            if slot is None or not one.size / 2 <= slot.size <= 2 * one.size:
                slot = _Slot(f"own_{len(slots)}", one.dtype, 0, 0)
                slots.append(slot)
            slot.size, slot.last = max(slot.size, one.size), one.last
            slot.users.append(storage)
            slot_of[storage] = slot
        return slots, slot_of

    def _lifetimes(self) -> dict[Storage, _Own]:
        found: dict[Storage, _Own] = {}
        for first, last, item in _timed(self.rows.items):
            for buffer, offset, _ in accesses_of(item):
                if buffer.storage not in self.rows.own:
                    continue
                size = -(-(self._in_own(buffer.storage, offset).high + 1) // WIDTH) * WIDTH
                one = found.setdefault(buffer.storage, _Own(buffer.dtype, size, first, last))
                if one.dtype != buffer.dtype:
                    raise NoRowsError
                one.size, one.last = max(one.size, size), max(one.last, last)
        return found

    def _place_slots(self) -> None:
        """Small ones lie in shared memory, as many as fit, and the others in memory of which each block has a part."""
        free = machine_model.CUDA_SHARED_BYTES
        free -= sum(size * np.dtype(kind).itemsize for kind, size in self._tile_elements().items())
        free -= sum(self.threads * max(np.dtype(dtype).itemsize, 4) for dtype, _ in self._gathered())
        if free < 0:
            raise NoRowsError
        for slot in sorted(self.slots, key=lambda s: s.size * s.dtype.itemsize):
            nbytes = -(-slot.size * slot.dtype.itemsize // _ROUND) * _ROUND
            slot.is_shared = nbytes <= free
            free -= nbytes if slot.is_shared else 0
        outside = [s for s in self.slots if not s.is_shared]
        blocks = min(self.units, machine_model.CUDA_CORES * machine_model.CUDA_ROW_BLOCKS)
        self.blocks = blocks if outside else self.units
        if sum(s.size * s.dtype.itemsize for s in outside) * self.blocks > machine_model.CUDA_ROW_BYTES:
            raise NoRowsError
        for slot in self.slots:
            shape = (slot.size,) if slot.is_shared else (self.blocks, slot.size)
            slot.buffer = new_buffer(slot.name, shape, slot.dtype)

    def _tile_elements(self) -> dict[str, int]:
        """Of which dtypes there are products, and how many elements their tiles have at most."""
        kinds: dict[str, int] = {}
        for item in self.items:
            if isinstance(item, RowProduct):
                kind = item.step.c.dtype.name
                kinds[kind] = max(kinds.get(kind, 0), shared_elements(self.products[id(item)]))
        return kinds

    def _gathered(self) -> list[tuple[str, int]]:
        """Of which dtypes the threads of a block gather values, and how many at a time at most."""
        most: dict[str, int] = {}
        for item in self.items:
            kinds = [a.dtype.name for a in item.nest.accumulators] if isinstance(item, RowNest) else []
            for kind in kinds:
                most[kind] = max(most.get(kind, 0), kinds.count(kind))
        return [(kind, k) for kind, count in most.items() for k in range(count)]

    def _in_own(self, storage: Storage, offset: Affine) -> Affine:
        """Where an element lies in the memory of a block, which has its own rows of one matrix."""
        places = self.rows.own[storage]
        if places is None:
            return offset.substitute(self.at)
        return _Packing(self.axes, places, self.row, self.side).place(offset)

    def _place(self, buffer: Buffer, offset: Affine) -> tuple[Buffer, Affine]:
        """The memory, and the position there, of an element in the row of a thread."""
        slot = self.slot_of.get(buffer.storage)
        if slot is None:
            return buffer, offset.substitute(self.at)
        assert slot.buffer is not None
        here = self._in_own(buffer.storage, offset)
        if not slot.is_shared:
            here = here + data("slot_here", 0, self.blocks - 1) * slot.size
        return slot.buffer, here

    def _name(self, vocabulary: Set[str]) -> None:
        """Names for all memory, and how the kernel uses it."""
        taken = {*vocabulary, *_OWN, *_OPERANDS}
        for item in self.items:
            for buffer, offset, is_written in accesses_of(item):
                buffer, _ = self._place(buffer, offset)
                known = self.names.get(buffer.storage)
                mode = "w" if is_written else "r"
                if known is None:
                    self.names[buffer.storage] = fresh(buffer.name, taken), buffer, mode
                elif known[2] != mode:
                    self.names[buffer.storage] = known[0], known[1], "rw"

    # --- text --------------------------------------------------------------------------------------------

    def kernel(self) -> CudaKernel:
        lines = [*self._shared(), "thread = cuda.threadIdx.x"]
        lines += [f"lane = thread % {self.lanes}", f"row_here = thread // {self.lanes}", "slot_here = cuda.blockIdx.x"]
        steps = of_blocks("block", self.units)
        lines += steps.begin
        axes = self.axes
        places = [("step_here", axes.steps, axes.matrices * self.tiles)]
        places += [(symbol.name, symbol.extent, each * self.tiles) for symbol, each in axes.matrix.terms]
        for name, extent, each in [*places, ("tile_here", self.tiles, 1)]:
            whole = f"block // {each}" if each > 1 else "block"
            is_first = each * extent == self.units
            lines.append(f"    {name} = {'0' if extent == 1 else whole if is_first else f'{whole} % {extent}'}")
        lines += [*self._lines(self.rows.items, 1), f"    {steps.end}"]
        shared = {s.buffer.storage for s in self.slots if s.is_shared and s.buffer}
        given = [p for storage, p in self.names.items() if storage not in shared]
        mapping = LoopMapping(
            block=(MappedLoop(f"{self.side}_rows", self.blocks),),
            thread=(MappedLoop("row_here", self.side), MappedLoop("lane", self.lanes)),
        )
        return CudaKernel("\n".join(lines) + "\n", tuple(given), mapping, self.threads)

    def _shared(self) -> Iterator[str]:
        for kind, size in self._tile_elements().items():
            yield f"tiles_{kind} = cuda.shared.array({size}, {kind}, {_ROUND})"
        for slot in self.slots:
            if slot.is_shared and slot.buffer:
                kind = memory_type(slot.dtype)
                name = self.names[slot.buffer.storage][0]
                yield f"{name} = cuda.shared.array({slot.size}, {kind}, {_ROUND})"
        for kind, k in self._gathered():
            yield f"gathered_{kind}_{k} = cuda.shared.array({self.threads}, {SHARED_TYPES.get(kind, kind)})"

    def _lines(self, items: Sequence[RowItem], depth: int) -> list[str]:
        lines: list[str] = []
        for item in items:
            if isinstance(item, RowRepeat):
                steps = f"{item.step.extent - 1}, -1, -1" if item.descends else f"{item.step.extent}"
                lines.append(f"for {item.step.name} in range({steps}):")
                lines += self._lines(item.items, 1)
            else:
                text = self._nest(item) if isinstance(item, RowNest) else self._product(item)
                words, names = {*_WORD.findall(text)}, {name for name, _, _ in self.names.values()}
                others = (self.vocabulary | self.taken | names) - (names & words) - {"lane"}  # which nests set
                text, _ = own_names_apart(text, sorted(names & words), others)
                self.taken |= set_in(text)
                lines += text.rstrip("\n").split("\n")
        return ["    " * depth + line for line in lines]

    def _nest(self, item: RowNest) -> str:
        nest = item.nest
        statements = [
            replace(s, value=s.value.substitute(self.at)) if isinstance(s, IndexLet) else s for s in nest.statements
        ]
        nest = on_memory(replace(nest, statements=statements), self._place)
        lanes = self.lanes if item.has_rows else self.threads
        inside = tuple([MappedLoop(s.name, s.extent) for s in nest.loops])
        nest = replace(nest, loops=[self.row, *nest.loops], reduced=[False, *nest.reduced])
        mapping = LoopMapping(block=(MappedLoop(self.row.name, self.side),), thread=inside)
        fours = in_fours(nest, mapping, lanes) if inside else None
        if fours is None:
            emitter = CudaEmitter(nest, mapping, {a.name: (a.value,) for a in nest.accumulators})
        else:
            emitter = CudaEmitter(fours.nest, fours.mapping, fours.values)
        text = emitter.row({s: p for s, p in self.names.items()}, str(lanes), "", self._gathering(item))
        text = "\n".join(line[4:] for line in text.rstrip("\n").split("\n"))
        return text if item.has_rows else f"lane = thread\n{text}\nlane = thread % {self.lanes}"

    def _gathering(self, item: RowNest) -> dict[str, str]:
        """In which shared memory each accumulator is gathered."""
        counts: dict[str, int] = {}
        found: dict[str, str] = {}
        for a in item.nest.accumulators:
            k = counts.get(a.dtype.name, 0)
            counts[a.dtype.name] = k + 1
            found[a.name] = f"gathered_{a.dtype.name}_{k}"
        return found

    def _product(self, item: RowProduct) -> str:
        """The product of the block's rows, as that of matrices which begin there."""
        step = item.step
        lines: list[str] = []
        buffers: dict[str, Buffer] = {}
        strides: dict[str, int] = {}
        for side, (buffer, offset) in zip(_OPERANDS, (item.a, item.b, item.c)):
            placed, here = self._place(buffer, offset)
            strides[side] = here.coefficient(self.row)
            first = Affine(here.constant, [(s, c) for s, c in here.terms if s is not self.row])
            if self.row in first.symbols():  # rows do not lie equally far apart
                raise NoRowsError
            rounded = not first.constant % WIDTH and not any(c % WIDTH for _, c in first.terms)
            lines.append(f"{side} = {self.names[placed.storage][0]}[{first.text()}:]")
            storage = Storage(side, placed.nbytes, "arena" if rounded else "pointer", -1)
            buffers[side] = Buffer(storage, placed.shape, placed.dtype)
        lda = self._from_term_to_term(item) if step.ta else strides["a"]
        if step.ta and strides["a"] != 1:
            raise NoRowsError
        of_rows = GemmStep(
            step.name, buffers["a"], buffers["b"], buffers["c"], step.ta, step.tb, self.side, step.n, step.k, lda,
            step.ldb, strides["c"], step.alpha, step.beta,
        )  # fmt: skip
        kind, tile = step.c.dtype.name, self.products[id(item)]
        if not has_lines_for(tile, min(layout.width for layout in operand_layouts(of_rows))):
            raise NoRowsError  # the tile was chosen for operands of which more is loaded at a time
        text = emit_rows_of_product(of_rows, tile, f"tiles_{kind}", self.vocabulary)
        return "\n".join([*lines, text])

    def _from_term_to_term(self, item: RowProduct) -> int:
        """How far apart the terms of a transposed left operand lie."""
        buffer, offset = item.a
        term = loop("term", item.step.k)
        _, here = self._place(buffer, offset + term * item.step.lda)
        return sum(here.coefficient(s) for s in term.symbols()) or item.step.lda


class _Packing:
    """How a block lays out its rows of one matrix of some memory."""

    def __init__(self, axes: RowAxes, places: RowPlaces, row: Symbol, side: int) -> None:
        self.axes, self.places, self.row, self.side = axes, places, row, side
        self.length = self._without_matrix(places.row)
        self.stride = self.length + (machine_model.CUDA_ROW_PAD if self.length % 32 == 0 else 0)

    def _without_matrix(self, coefficient: int) -> int:
        """How far apart elements lie where there is one matrix."""
        found = coefficient
        for each, symbol in zip(self.places.matrix, self.axes.of_matrix):
            if each and coefficient >= each * symbol.extent:
                found //= symbol.extent
        return found

    def _packed(self, coefficient: int) -> int:
        below = self._without_matrix(coefficient)
        if coefficient < self.places.row * self.axes.rows:
            return below
        return below // (self.length * self.axes.rows) * self.side * self.stride

    def place(self, offset: Affine) -> Affine:
        rows = self.axes.row.symbols()
        axes = [(each, s) for each, s in zip(self.places.matrix, self.axes.of_matrix) if each]
        matrix = {s for _, s in axes}
        terms: list[tuple[Symbol, int]] = []
        for symbol, coefficient in offset.terms:
            if symbol in rows:
                terms.append((self.row, self.stride))
            elif symbol not in matrix:
                base = set() if symbol.base is None else symbol.base.symbols()
                if coefficient < 0 or not base.isdisjoint(rows | matrix):
                    raise NoRowsError
                terms.append((symbol, self._packed(coefficient)))
        ends = [self.places.row * self.axes.rows, *(each * s.extent for each, s in axes)]
        lowest = min(self.places.row, *(each for each, _ in axes), self.places.row)
        constant = offset.constant
        if constant < 0 or constant >= lowest and any(constant % end for end in ends):
            raise NoRowsError
        return Affine(self._packed(constant) if constant >= lowest else constant, terms)


def _repeats_of(items: Sequence[RowItem]) -> Iterator[RowRepeat]:
    for item in items:
        if isinstance(item, RowRepeat):
            yield item
            yield from _repeats_of(item.items)


def _timed(items: Sequence[RowItem]) -> Iterator[tuple[int, int, RowNest | RowProduct]]:
    """Each item with when it runs; all of a loop within the items runs from its first one to its last one."""
    time = 0
    for item in items:
        inner = [*each_of([item])]
        for k, one in enumerate(inner):
            yield (time, time + len(inner) - 1, one) if len(inner) > 1 else (time + k, time + k, one)
        time += len(inner)
