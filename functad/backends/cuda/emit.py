"""Prints a loop nest as the text of one CUDA kernel: a Python function of flat arrays, for `numba.cuda`.

Knows grids, blocks and shared memory; nothing of Programs, of memory or of Numba's compiler.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from functad.backends.cuda.mapping import OWNER, LoopMapping, MappedLoop, map_nest
from functad.backends.cuda.vectors import in_fours, in_groups
from functad.dtypes import is_narrow_float
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, data, delinear
from functad.lowering.nests.nest import (
    POST,
    PRE,
    Accumulator,
    Carried,
    IndexLet,
    Let,
    Load,
    Nest,
    Segments,
    Statement,
    Store,
    Update,
    fresh,
    literal_text,
)
from functad.lowering.nests.printing import (
    Parameter,
    carried_on,
    combined,
    depths,
    identity,
    own_names_apart,
    parameters,
    start_of,
    updated,
)
from functad.primitives.loops.text import rounding

SHARED_TYPES = {
    "bool": "boolean",
    "float16": "float32",
    "bfloat16": "float32",
}  # where an accumulator's type is not called like its dtype


@dataclass(frozen=True)
class CudaKernel:
    """The text of a kernel below its name, its parameters, and what its loops have become."""

    body: str
    parameters: tuple[Parameter, ...]
    mapping: LoopMapping


def emit(nest: Nest, threads: int) -> CudaKernel:
    """The kernel of a nest whose loops have been merged, for blocks of `threads`.

    A kernel does all of its work on a grid of any size. What a block computes together goes through shared memory: a
    reduction by a tree, what is carried along by as many sums as the block has threads, at a time.
    """
    return _emitter(nest, map_nest(nest, threads), threads).kernel()


def emit_rows(nests: Sequence[Nest], vocabulary: Set[str], threads: int) -> CudaKernel:
    """One kernel of several nests, whose first loops are the same rows: a block computes a row, nest after nest.

    What one of them has left for a row the next one reads, so a row is in the caches. vocabulary: names not to be used.
    """
    row = nests[0].loops[0]
    merged: dict[Storage, Parameter] = {}
    names: set[str] = set()
    for nest in nests:
        for storage, (name, buffer, mode) in parameters(nest).items():
            known = merged.get(storage)
            name = known[0] if known else fresh(name, names)
            merged[storage] = (name, buffer, mode if known is None or known[2] == mode else "rw")
    taken = {"thread", "row_here"}
    lines = ["thread = cuda.threadIdx.x", f"for row_here in range(cuda.blockIdx.x, {row.extent}, cuda.gridDim.x):"]
    inner: list[MappedLoop] = []
    for nest in nests:
        inside = tuple(MappedLoop(s.name, s.extent) for s in nest.loops[1:])
        mapping = LoopMapping(block=(MappedLoop(nest.loops[0].name, row.extent),), thread=inside)
        emitter = _emitter(nest, mapping, threads)
        inner += [loop for loop in emitter.mapping.thread if loop not in inner]
        own = [name for name, _, _ in (merged[storage] for storage in parameters(nest))]
        text = emitter.row(merged)
        others = {*vocabulary, *taken, *(names - set(own))} - {"thread", "row_here"}
        text, _ = own_names_apart(text, own, others)
        taken |= set_in(text)
        lines.append(text.rstrip("\n"))
    mapping = LoopMapping(
        block=(MappedLoop("row_here", row.extent),), thread=tuple(inner) or (MappedLoop("thread", 1),)
    )
    return CudaKernel("\n".join(lines) + "\n", tuple(merged.values()), mapping)


def point_of(nest: Nest, given: Mapping[Storage, Parameter], known: Mapping[Storage, str]) -> str:
    """The text of one point of a nest without reductions, where its loop variables are set.

    given: what parameters are called. known: names of values that are read of some storages.
    """
    statements: list[Statement] = [
        Let((s.name,), known[s.buffer.storage], (known[s.buffer.storage],), PRE, None)
        if isinstance(s, Load) and s.buffer.storage in known
        else s
        for s in nest.statements
    ]
    return CudaEmitter(replace(nest, statements=statements), LoopMapping(), {}).point(given)


def set_in(text: str) -> set[str]:
    """The names that a text sets."""
    nodes = ast.walk(ast.parse(textwrap.dedent(text)))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _emitter(nest: Nest, mapping: LoopMapping, threads: int) -> CudaEmitter:
    """What prints a nest, by four elements where that pays."""
    fours = in_fours(nest, mapping, threads)
    values = {a.name: (a.value,) for a in nest.accumulators}
    return CudaEmitter(nest, mapping, values) if fours is None else CudaEmitter(fours.nest, fours.mapping, fours.values)


class CudaEmitter:
    """Prints one nest. values: of each accumulator what it gathers in a step. parts: more loops of its blocks."""

    def __init__(
        self, nest: Nest, mapping: LoopMapping, values: Mapping[str, Sequence[str]], parts: Sequence[Symbol] = ()
    ) -> None:
        self.nest, self.mapping, self.values = nest, mapping, values
        self.lines: list[str] = []
        self.parameters = parameters(nest)
        symbols = {s.name: s for s in (*nest.loops, *parts)}
        symbols |= {loop.name: Symbol(OWNER, 0, loop.extent - 1) for loop in mapping.grid if loop.name == OWNER}
        self.outer = [symbols[loop.name] for loop in (*mapping.grid, *mapping.block)]
        self.inner = [symbols[loop.name] for loop in (*mapping.thread, *mapping.serial)]

    def kernel(self) -> CudaKernel:
        self._constants()
        if self.nest.segments is not None:
            self._by_segment(self.nest.segments)
        elif not self.mapping.by_block:
            self._by_thread()
        elif self.nest.carries:
            self._carried_by_block()
        else:
            self._by_block()
        return CudaKernel("\n".join(self.lines) + "\n", tuple(self.parameters.values()), self.mapping)

    def _constants(self) -> None:
        for name, value in self.nest.used_constants().items():
            self._line(0, f"{name} = {literal_text(value, value.dtype)}")

    # --- forms -------------------------------------------------------------------------------------------

    def _by_segment(self, segments: Segments) -> None:
        """Updates of one place by one thread, in their order."""
        rows, updates = (self.parameters[buffer.storage][0] for buffer in (segments.rows, segments.updates))
        step = self.nest.loops[0]
        self._loop(0, "point", self.outer, "cuda.grid(1)", "cuda.gridsize(1)")
        self._line(1, f"row_here = {rows}[{step.name}]")
        self._line(1, f"begins = {step.name} == 0 or {rows}[{step.name} - 1] != row_here")
        self._line(1, f"if begins and row_here < {segments.end}:")
        self._line(2, f"at = {step.name}", f"while at < {step.extent} and {rows}[at] == row_here:")
        self._line(3, f"{segments.name} = i64({updates}[at])")
        for s in self.nest.statements:
            self._line(3, self._text(s))
        self._stores(PRE, 3)
        self._line(3, "at = at + 1")

    def _by_thread(self) -> None:
        depth_of = {**dict.fromkeys(self.outer, 0), **{s: d for d, s in enumerate(self.inner, 1)}}
        self.depths = depths(self.nest, depth_of)
        self._loop(0, "point", self.outer, "cuda.grid(1)", "cuda.gridsize(1)")
        self._statements(PRE, 0, 1)
        for a in self.nest.accumulators:
            self._line(1, f"{a.name} = {identity(a)}")
        for c in self.nest.carries:
            self._line(1, f"{c.name} = {start_of(c)}")
        for depth, symbol in enumerate(self.inner, 1):
            self._line(depth, f"for {symbol.name} in range({symbol.extent}):")
            self._statements(PRE, depth, depth + 1)
        self._innermost(1 + len(self.inner))
        self._statements(POST, None, 1)
        self._stores(POST, 1)

    def _begin_block(self, gathered: Sequence[Accumulator | Carried]) -> None:
        """Shared memory for what a block gathers, and the loop of blocks."""
        self._share(0, gathered)
        self._line(0, "thread = cuda.threadIdx.x")
        self._loop(0, "point", self.outer, "cuda.blockIdx.x", "cuda.gridDim.x")
        self._statements(PRE, 0, 1)

    def _share(self, depth: int, gathered: Sequence[Accumulator | Carried]) -> None:
        self.depths = depths(self.nest, {**dict.fromkeys(self.outer, 0), **dict.fromkeys(self.inner, 1)})
        for a in gathered:
            self._line(depth, f"shared_{a.name} = cuda.shared.array(THREADS, {self._shared_type(a)})")

    def _shared_type(self, gathered: Accumulator | Carried) -> str:
        return SHARED_TYPES.get(gathered.dtype.name, gathered.dtype.name)

    def row(self, given: Mapping[Storage, Parameter]) -> str:
        """The text of what a block computes of row `row_here`; given: what parameters are called."""
        self.parameters = dict(given)
        for name, value in self.nest.used_constants().items():
            self._line(1, f"{name} = {literal_text(value, value.dtype)}")
        self._share(1, self.nest.accumulators)
        self._line(1, f"{self.outer[0].name} = row_here")
        self._statements(PRE, 0, 1)
        if self.nest.accumulators:
            self._gathered()
        elif self.inner:
            self._loop(1, "term", self.inner, "thread", "THREADS")
            self._statements(PRE, 1, 2)
            self._stores(PRE, 2)
            self._line(1, "cuda.syncthreads()")
        else:
            self._line(1, "if thread == 0:")
            self._stores(PRE, 2)
            self._line(1, "cuda.syncthreads()")
        return "\n".join(self.lines) + "\n"

    def point(self, given: Mapping[Storage, Parameter]) -> str:
        """The text of one point; given: what parameters are called."""
        self.parameters = dict(given)
        self._constants()
        for s in self.nest.statements:
            self._line(0, self._text(s))
        self._stores(PRE, 0)
        return "\n".join(self.lines) + "\n"

    def _by_block(self) -> None:
        self._begin_block(self.nest.accumulators)
        self._gathered()

    def _gathered(self) -> None:
        """Accumulators over the inner loops, which the threads of a block share, and what follows from them."""
        for a in self.nest.accumulators:
            self._line(1, f"{a.name} = {identity(a)}")
        self._loop(1, "term", self.inner, "thread", "THREADS")
        self._statements(PRE, 1, 2)
        self._innermost(2)
        self._tree(self.nest.accumulators)
        self._statements(POST, None, 1)
        self._line(1, "if thread == 0:")
        self._stores(POST, 2)
        self._line(1, "cuda.syncthreads()")

    def _carried_by_block(self) -> None:
        """As many steps at a time as a block has threads; `before` is what all earlier ones have come to."""
        (symbol,) = self.inner
        self._begin_block(self.nest.carries)
        for c in self.nest.carries:
            self._line(1, f"before_{c.name} = {start_of(c)}")
        inside = f"if {symbol.name} < {symbol.extent}:"
        self._line(1, f"for first in range(0, {symbol.extent}, THREADS):")
        self._line(2, f"{symbol.name} = first + thread")
        for c in self.nest.carries:
            self._line(2, f"{c.name} = {start_of(c)}")
        self._line(2, inside)
        for s in self.nest.statements:
            if s.level == PRE and self.depths[s] == 1:
                self._line(3, self._text(s))
                if isinstance(s, Carried):
                    self._running(s)
                    self._line(2, inside)
        self._stores(PRE, 3)
        self._line(2, "cuda.syncthreads()")

    def _running(self, c: Carried) -> None:
        """Every thread's value becomes that of all threads up to it, and of all earlier steps."""
        shared = f"shared_{c.name}"
        self._line(2, f"{shared}[thread] = {c.name}")
        self._line(2, "cuda.syncthreads()")
        self._line(2, "reach = 1")
        self._line(2, "while reach < THREADS:")
        self._line(3, "if thread >= reach:")
        self._line(4, f"{c.name} = {carried_on(c, f'{shared}[thread - reach]', c.name)}")
        self._line(3, "cuda.syncthreads()")
        self._line(3, f"{shared}[thread] = {c.name}")
        self._line(3, "cuda.syncthreads()")
        self._line(3, "reach = 2 * reach")
        self._line(2, f"{c.name} = {carried_on(c, f'before_{c.name}', c.name)}")
        self._line(2, f"before_{c.name} = {carried_on(c, f'before_{c.name}', f'{shared}[THREADS - 1]')}")

    def _innermost(self, depth: int) -> None:
        self._stores(PRE, depth)
        for a in self.nest.accumulators:
            for value in self.values[a.name]:
                self._line(depth, f"{a.name} = {combined(a, a.name, value)}")

    def _tree(self, accumulators: Sequence[Accumulator]) -> None:
        """Every thread's partial results into those of the block, in all of its threads."""
        for a in accumulators:
            self._line(1, f"shared_{a.name}[thread] = {a.name}")
        self._line(1, "cuda.syncthreads()")
        self._line(1, "half = THREADS // 2")
        self._line(1, "while half > 0:")
        self._line(2, "if thread < half:")
        for a in accumulators:
            shared = f"shared_{a.name}"
            self._line(3, f"{shared}[thread] = {combined(a, f'{shared}[thread]', f'{shared}[thread + half]')}")
        self._line(2, "cuda.syncthreads()")
        self._line(2, "half = half // 2")
        for a in accumulators:
            self._line(1, f"{a.name} = shared_{a.name}[0]")

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _loop(self, depth: int, name: str, symbols: Sequence[Symbol], first: str, step: str) -> None:
        """One loop, shared among threads, over all points of several loops; within it, their variables."""
        extent = 1
        for symbol in symbols:
            extent *= symbol.extent
        if len(symbols) == 1:
            self._line(depth, f"for {symbols[0].name} in range({first}, {extent}, {step}):")
            return
        self._line(depth, f"for {name} in range({first}, {extent}, {step}):")
        self._places(depth + 1, name, symbols)

    def _places(self, depth: int, name: str, symbols: Sequence[Symbol]) -> None:
        """The variables of several loops, of a point among all of theirs."""
        extents = [s.extent for s in symbols]
        for symbol, value in zip(symbols, delinear(data(name, 0, math.prod(extents) - 1), extents)):
            self._line(depth, f"{symbol.name} = {value.text()}")

    def _statements(self, level: int, depth: int | None, at: int) -> None:
        """Print the statements of a level that must stand `depth` loops deep (of any depth for None)."""
        chosen = [s for s in self.nest.statements if s.level == level and depth in (None, self.depths[s])]
        for group in in_groups(chosen):
            if len(group) > 1:
                self._load_four(group, at)
            else:
                self._line(at, self._text(group[0]))

    def _load_four(self, loads: Sequence[Any], at: int) -> None:
        buffer, names = loads[0].buffer, [load.name for load in loads]
        narrow = is_narrow_float(buffer.dtype)
        given = [f"bits_of_{name}" for name in names] if narrow else names
        array, first = self.parameters[buffer.storage][0], loads[0].offset.text()
        self._line(at, f"{', '.join(given)} = load4({array}, {first})")
        for name, bits in zip(names, given) if narrow else ():
            self._line(at, f"{name} = {_loaded(buffer, bits)}")

    def _text(self, s: Statement) -> str:
        if isinstance(s, Let):
            return f"{', '.join(s.names)} = {s.text}"
        if isinstance(s, IndexLet):
            return f"{s.name} = {s.value.text()}"
        if isinstance(s, Carried):
            assert self.nest.carried is not None
            step = "" if self.mapping.by_block else self.nest.carried.name
            return f"{s.name} = {carried_on(s, s.name, s.value, step)}"
        element = self._element(s.buffer, s.offset)
        return f"{s.name} = {_loaded(s.buffer, element)}"

    def _stores(self, level: int, depth: int) -> None:
        for group in in_groups([store for store in self.nest.stores if store.level == level]):
            store = group[0]
            if isinstance(store, Update):
                self._update(store, depth)
            elif len(group) > 1:
                array, values = self.parameters[store.buffer.storage][0], ", ".join(map(_stored, group))
                self._line(depth, f"store4({array}, {store.offset.text()}, {values})")
            else:
                self._line(depth, f"{self._element(store.buffer, store.offset)} = {_stored(store)}")

    def _update(self, update: Update, depth: int) -> None:
        owned = [f"{self.nest.owners.name} == {OWNER}"] if self.nest.owners else []
        if conditions := [*([update.guard] if update.guard else []), *owned]:
            self._line(depth, f"if {' and '.join(conditions)}:")
            depth += 1
        if update.atomic:
            array = self.parameters[update.buffer.storage][0]
            self._line(depth, f"cuda.atomic.{update.kind}({array}, {update.offset.text()}, {update.value})")
            return
        element = self._element(update.buffer, update.offset)
        after = updated(update, _loaded(update.buffer, element))
        self._line(depth, f"{element} = {_stored(replace(update, value=after))}")

    def _element(self, buffer: Buffer, offset: Affine) -> str:
        return f"{self.parameters[buffer.storage][0]}[{offset.text()}]"


def _loaded(buffer: Buffer, element: str) -> str:
    return f"from_bits_{rounding(buffer.dtype)}({element})" if is_narrow_float(buffer.dtype) else element


def _stored(store: Store) -> str:
    dtype = store.buffer.dtype
    return f"bits_{rounding(dtype)}({store.value})" if is_narrow_float(dtype) else store.value
