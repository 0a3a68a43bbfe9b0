"""Prints a loop nest as the text of one CUDA kernel: a Python function of flat arrays, for `numba.cuda`.

Knows grids, blocks and shared memory; nothing of Programs, of memory or of Numba's compiler.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cuda.kernels.mapping import OWNER, Gathering, LoopMapping, MappedLoop, map_nest, rows_of_blocks
from functad.backends.cuda.kernels.shared_steps import SharedSteps, in_32_bits, of_blocks, of_threads
from functad.backends.cuda.kernels.vectors import in_fours, in_groups
from functad.dtypes import compute_dtype, is_narrow_float
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, data, delinear
from functad.lowering.nests.nest import (
    POST,
    PRE,
    Accumulator,
    Carried,
    IndexLet,
    Let,
    Nest,
    Statement,
    Store,
    Update,
    fresh,
    typed_literal,
)
from functad.lowering.nests.printing import (
    Parameter,
    accumulated,
    carried_on,
    depths,
    kernel_parameters,
    own_names_apart,
    start_of,
    start_of_accumulator,
    updated,
)
from functad.primitives.loops.text import rounding

SHARED_TYPES = {
    "bool": "boolean",
    "float16": "float32",
    "bfloat16": "float32",
}  # where an accumulator's type is not called like its dtype


TICKETS = "tickets"  # the kind of memory that counts who has finished; it is 0 before a kernel, and after it


@dataclass(frozen=True)
class CudaKernel:
    """The text of a kernel below its name, its parameters, and what its loops have become.

    threads: of a block; None if they are as many as usual.
    """

    body: str
    parameters: tuple[Parameter, ...]
    mapping: LoopMapping
    threads: int | None = None


def emit(nest: Nest, threads: int) -> CudaKernel:
    """The kernel of a nest whose loops have been merged, for blocks of `threads`.

    Unless its mapping says that nobody does two steps, a kernel does all of its work on a grid of any size. What a
    block computes together goes through shared memory: a reduction by a tree, what is carried along by as many sums as
    the block has threads, at a time. Where blocks share a reduction, each leaves in memory what its part has come to.
    """
    mapping = map_nest(nest, threads)
    fours = in_fours(nest, mapping, threads)
    if fours is None:
        return CudaEmitter(nest, mapping, _values(nest)).kernel()
    emitter = CudaEmitter(fours.nest, fours.mapping, fours.values)
    return _with_rest(emitter, nest, fours.rest) if fours.rest else emitter.kernel()


def _with_rest(emitter: CudaEmitter, nest: Nest, rest: int) -> CudaKernel:
    """The kernel of a loop by four elements, with a thread for each of those that are left over."""
    kernel, (four,), (step,) = emitter.kernel(), emitter.mapping.grid, nest.loops
    lines = [f"{step.name} = {four.name} + {3 * four.extent}"]
    lines += CudaEmitter(nest, LoopMapping(), {}).point(emitter.parameters).splitlines()
    text = f"elif {four.name} < {four.extent + rest}:\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    grid = (MappedLoop(four.name, four.extent + rest),)
    return replace(kernel, body=kernel.body + text, mapping=replace(kernel.mapping, grid=grid))


def _values(nest: Nest) -> dict[str, tuple[str, ...]]:
    """What accumulators gather in a step."""
    return {a.name: (a.value,) for a in nest.accumulators}


def emit_rows(nests: Sequence[Nest], vocabulary: Set[str], threads: int) -> CudaKernel:
    """One kernel of several nests, whose first loops are the same rows: a block computes a few, nest after nest.

    What one of them has left for a row the next one reads, so a row is in the caches. vocabulary: names not to be used.
    """
    rows = nests[0].loops[0].extent
    sharing = rows_of_blocks(nests, threads)
    merged: dict[Storage, Parameter] = {}
    names: set[str] = set()
    for nest in nests:
        for storage, (name, buffer, mode) in kernel_parameters(nest).items():
            known = merged.get(storage)
            name = known[0] if known else fresh(name, names)
            merged[storage] = (name, buffer, mode if known is None or known[2] == mode else "rw")
    own_names = {"thread", "lane", "own", "block", "row_here"}
    taken = {*own_names}
    lines = ["thread = cuda.threadIdx.x", *lanes_of_threads(sharing)]
    tiles = -(-rows // sharing.side)
    one_step = tiles <= machine_model.CUDA_ONE_STEP_BLOCKS
    steps = of_blocks("block", tiles)
    place = f"{sharing.side} * block + own" if sharing.side > 1 else "block"
    lines += [*steps.begin[: 1 if one_step else 2], f"{'' if one_step else '    '}row_here = {place}"]
    conditions = [f"row_here < {rows}"] if rows % sharing.side else []
    condition = " and ".join([*conditions, *sharing.conditions])
    inner: list[MappedLoop] = []
    for nest in nests:
        inside = tuple(MappedLoop(s.name, s.extent) for s in nest.loops[1:])
        mapping = LoopMapping(block=(MappedLoop(nest.loops[0].name, rows),), thread=inside)
        fours = in_fours(nest, mapping, sharing.lanes) if inside else None
        if fours is None:
            emitter = CudaEmitter(nest, mapping, _values(nest))
        else:
            emitter = CudaEmitter(fours.nest, fours.mapping, fours.values)
        inner += [loop for loop in emitter.mapping.thread if loop not in inner]
        own = [name for name, _, _ in (merged[storage] for storage in kernel_parameters(nest))]
        text = emitter.row(merged, str(sharing.lanes), condition)
        others = {*vocabulary, *taken, *(names - set(own))} - own_names
        text, _ = own_names_apart(text, own, others)
        taken |= set_in(text)
        lines.append((textwrap.dedent(text) if one_step else text).rstrip("\n"))
    lines += [] if one_step else [f"    {steps.end}"]
    block, thread = (MappedLoop("row_here", rows),), tuple(inner) or (MappedLoop("thread", 1),)
    return CudaKernel(
        "\n".join(lines) + "\n",
        tuple(merged.values()),
        LoopMapping(block=block, thread=thread, gathering=sharing, one_step=one_step),
    )


def lanes_of_threads(sharing: Gathering) -> list[str]:
    """Lines that say which thread this is of those of its result, and which of the block's results that is."""
    side, lanes = sharing.side, sharing.lanes
    if side == 1:
        return ["lane = thread"]
    if sharing.along:
        return [f"lane = thread % {lanes}", f"own = thread // {lanes}"]
    return [f"lane = thread // {side}", f"own = thread % {side}"]


def point_of(nest: Nest, given: Mapping[Storage, Parameter]) -> str:
    """The text of one point of a nest without reductions, where its loop variables are set.

    given: what parameters are called.
    """
    return CudaEmitter(nest, LoopMapping(), {}).point(given)


def set_in(text: str) -> set[str]:
    """The names that a text sets."""
    nodes = ast.walk(ast.parse(textwrap.dedent(text)))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


class CudaEmitter:
    """Prints one nest. values: of each accumulator what it gathers in a step. parts: more loops of its blocks."""

    def __init__(
        self, nest: Nest, mapping: LoopMapping, values: Mapping[str, Sequence[str]], parts: Sequence[Symbol] = ()
    ) -> None:
        self.nest, self.mapping, self.values = nest, mapping, values
        self.lines: list[str] = []
        self.parameters = kernel_parameters(nest)
        symbols = {s.name: s for s in (*nest.loops, *parts)}
        symbols |= {loop.name: Symbol(OWNER, 0, loop.extent - 1) for loop in mapping.grid if loop.name == OWNER}
        self.outer = [symbols[loop.name] for loop in (*mapping.grid, *mapping.block)]
        self.inner = [symbols[loop.name] for loop in (*mapping.thread, *mapping.serial)]

    def kernel(self) -> CudaKernel:
        self._constants()
        if not self.mapping.by_block:
            self._by_thread()
        elif self.nest.carries:
            self._carried_by_block()
        else:
            assert self.mapping.gathering is not None
            self._gathered_by_blocks(self.mapping.gathering)
        return CudaKernel("\n".join(self.lines) + "\n", tuple(self.parameters.values()), self.mapping)

    def _constants(self) -> None:
        for name, value in self.nest.used_constants().items():
            self._line(0, f"{name} = {typed_literal(value, value.dtype)}")

    # --- forms -------------------------------------------------------------------------------------------

    def _by_thread(self) -> None:
        depth_of = {**dict.fromkeys(self.outer, 0), **{s: d for d, s in enumerate(self.inner, 1)}}
        self.depths = depths(self.nest, depth_of)
        steps = self._begin(of_threads, "point", self.outer)
        self._statements(PRE, 0, 1)
        for a in self.nest.accumulators:
            self._line(1, f"{a.name} = {start_of_accumulator(a)}")
        for c in self.nest.carries:
            self._line(1, f"{c.name} = {start_of(c)}")
        for depth, symbol in enumerate(self.inner, 1):
            self._line(depth, f"for {symbol.name} in range({symbol.extent}):")
            self._statements(PRE, depth, depth + 1)
        self._innermost(1 + len(self.inner))
        self._statements(POST, None, 1)
        self._stores(POST, 1)
        if not self.mapping.one_step:
            self._line(1, steps.end)

    def _share(
        self, depth: int, gathered: Sequence[Accumulator | Carried], memory: Mapping[str, str] | None = None
    ) -> None:
        self.depths = depths(self.nest, {**dict.fromkeys(self.outer, 0), **dict.fromkeys(self.inner, 1)})
        for a in gathered:
            own = f"cuda.shared.array(THREADS, {self._shared_type(a)})"
            self._line(depth, f"shared_{a.name} = {memory[a.name] if memory else own}")

    def _shared_type(self, gathered: Accumulator | Carried) -> str:
        return SHARED_TYPES.get(gathered.dtype.name, gathered.dtype.name)

    def row(
        self,
        given: Mapping[Storage, Parameter],
        lanes: str,
        condition: str,
        memory: Mapping[str, str] | None = None,
    ) -> str:
        """The text of what threads compute together of row `row_here`, of which each knows its number `lane`.

        given: what parameters are called. lanes: how many threads. condition: under which there is such a row, or "".
        memory: the shared memory in which each accumulator is gathered, if there is some already.
        """
        self.parameters = dict(given)
        for name, value in self.nest.used_constants().items():
            self._line(1, f"{name} = {typed_literal(value, value.dtype)}")
        self._share(1, self.nest.accumulators, memory)
        if self.nest.accumulators:
            self._line(1, *[f"{a.name} = {start_of_accumulator(a)}" for a in self.nest.accumulators])
        depth = self._under(1, condition)
        self._line(depth, f"{self.outer[0].name} = row_here")
        if not self.inner and not self.nest.accumulators:
            depth = self._under(depth, "lane == 0")
        self._statements(PRE, 0, depth)
        if self.nest.accumulators:
            self._terms(depth, "lane", lanes)
            self._tree(1, lanes)
            self._results(1, condition)
        elif self.inner:
            self._loop(depth, "term", self.inner, "lane", lanes)
            self._statements(PRE, 1, depth + 1)
            self._stores(PRE, depth + 1)
        else:
            self._stores(PRE, depth)
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

    def _under(self, depth: int, condition: str) -> int:
        """How deep lines under a condition stand."""
        if condition:
            self._line(depth, f"if {condition}:")
        return depth + bool(condition)

    def _gathered_by_blocks(self, gathering: Gathering) -> None:
        """Accumulators over the inner loops, which the threads of blocks share, and what follows from them."""
        self._share(0, self.nest.accumulators)
        self._line(0, "thread = cuda.threadIdx.x", *lanes_of_threads(gathering))
        results = math.prod(s.extent for s in self.outer)
        tiles = -(-results // gathering.side)
        steps = of_blocks("block", tiles * gathering.parts)
        self._line(0, *steps.begin[: 1 if self.mapping.one_step else 2])
        base, condition = self._begin_tile(gathering, results, tiles)
        self._line(base, *[f"{a.name} = {start_of_accumulator(a)}" for a in self.nest.accumulators])
        depth = self._under(base, condition)
        self._places(depth, "result", self.outer)
        self._statements(PRE, 0, depth)
        terms, lanes = math.prod(s.extent for s in self.inner), str(gathering.lanes)
        if gathering.parts == 1:
            self._terms(depth, "lane", lanes)
        else:
            length = -(-terms // gathering.parts)
            self._terms(depth, f"{length} * part + lane", lanes, f"min({length} * part + {length}, {terms})")
        self._tree(base, lanes, gathering.distance)
        if gathering.parts == 1:
            self._results(base, condition)
        else:
            self._put_parts_together(base, gathering, results, tiles, condition)
        if not self.mapping.one_step:
            self._line(base, "cuda.syncthreads()", steps.end)

    def _begin_tile(self, gathering: Gathering, results: int, tiles: int) -> tuple[int, str]:
        """How deep it stands what a block does, and under which condition a thread has a result."""
        side, parts = gathering.side, gathering.parts
        depth, tile = 0 if self.mapping.one_step else 1, "block"
        if parts > 1:
            self._line(depth, f"part = block // {tiles}", f"tile = block % {tiles}")
            tile = "tile"
        self._line(depth, f"result = {f'{side} * {tile} + own' if side > 1 else tile}")
        conditions = [f"result < {results}"] if results % side else []
        return depth, " and ".join([*conditions, *gathering.conditions])

    def _terms(self, depth: int, first: str, lanes: str, end: str = "") -> None:
        """What a thread gathers of the inner loops."""
        self._loop(depth, "term", self.inner, first, lanes, end)
        self._statements(PRE, 1, depth + 1)
        self._innermost(depth + 1)

    def _results(self, depth: int, condition: str) -> None:
        """What follows from what has been gathered, by one thread for each result."""
        self._line(depth, f"if lane == 0{f' and {condition}' if condition else ''}:")
        self._line(depth + 1, *[f"{a.name} = shared_{a.name}[thread]" for a in self.nest.accumulators])
        self._statements(POST, None, depth + 1)
        self._stores(POST, depth + 1)

    def _put_parts_together(self, at: int, gathering: Gathering, results: int, tiles: int, condition: str) -> None:
        """What each part has come to goes to memory; the last block of a result puts the parts together, in order."""
        lanes, parts, gathered = gathering.lanes, gathering.parts, self.nest.accumulators
        partial = {a.name: self._partial(a, (parts, results)) for a in gathered}
        tickets = self._given("tickets", new_buffer("tickets", (tiles,), np.dtype(np.uint32), TICKETS))
        self._line(at, f"if lane == 0{f' and {condition}' if condition else ''}:")
        self._line(
            at + 1, *[f"{partial[a.name]}[{results} * part + result] = shared_{a.name}[thread]" for a in gathered]
        )
        self._line(at, *last_to_finish(tickets, "tile", parts))
        self._line(at + 1, *[f"{a.name} = {start_of_accumulator(a)}" for a in gathered])
        depth = self._under(at + 1, condition)
        self._line(depth, f"for at in range(lane, {parts}, {lanes}):")
        for a in gathered:
            self._line(depth + 1, f"{a.name} = {accumulated(a, a.name, f'{partial[a.name]}[{results} * at + result]')}")
        self._tree(at + 1, str(lanes), gathering.distance)
        self._results(at + 1, condition)

    def _partial(self, a: Accumulator, shape: tuple[int, ...]) -> str:
        return self._given(f"parts_{a.name}", new_buffer(f"parts_{a.name}", shape, compute_dtype(a.dtype)))

    def _given(self, name: str, buffer: Buffer) -> str:
        """The name of one more parameter."""
        name = fresh(name, {known for known, _, _ in self.parameters.values()})
        self.parameters[buffer.storage] = (name, buffer, "rw")
        return name

    def _carried_by_block(self) -> None:
        """As many steps at a time as a block has threads; `before` is what all earlier ones have come to."""
        (symbol,) = self.inner
        self._share(0, self.nest.carries)
        self._line(0, "thread = cuda.threadIdx.x")
        steps = self._begin(of_blocks, "point", self.outer)
        self._statements(PRE, 0, 1)
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
        self._line(1, steps.end)

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
            values = list(self.values[a.name])
            while len(values) > 1:  # by pairs, so that few wait for one another
                pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
                values = [accumulated(a, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
            self._line(depth, f"{a.name} = {accumulated(a, a.name, values[0])}")

    def _tree(self, depth: int, lanes: str, distance: int = 1) -> None:
        """The partial results of all threads of each result into that of its first one, in shared memory.

        distance: between those threads of a result.
        """
        for a in self.nest.accumulators:
            self._line(depth, f"shared_{a.name}[thread] = {a.name}")
        self._line(depth, "cuda.syncthreads()", f"half = {lanes} // 2", "while half > 0:", "    if lane < half:")
        other = "thread + half" if distance == 1 else f"thread + {distance} * half"
        for a in self.nest.accumulators:
            shared = f"shared_{a.name}"
            self._line(depth + 2, f"{shared}[thread] = {accumulated(a, f'{shared}[thread]', f'{shared}[{other}]')}")
        self._line(depth + 1, "cuda.syncthreads()", "half = half // 2")

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _loop(self, depth: int, name: str, symbols: Sequence[Symbol], first: str, step: str, end: str = "") -> None:
        """One loop, shared among threads, over all points of several loops or up to an end; within, their variables."""
        end = end or str(math.prod(symbol.extent for symbol in symbols))
        if len(symbols) == 1:
            self._line(depth, f"for {symbols[0].name} in range({first}, {end}, {step}):")
            return
        self._line(depth, f"for {name} in range({first}, {end}, {step}):")
        self._places(depth + 1, name, symbols)

    def _begin(self, share: Callable[[str, int], SharedSteps], name: str, symbols: Sequence[Symbol]) -> SharedSteps:
        """Begin what is done at all points of several loops, which threads of the grid share, or blocks."""
        name = symbols[0].name if len(symbols) == 1 else name
        steps = share(name, math.prod(s.extent for s in symbols))
        self._line(0, *(steps.one if self.mapping.one_step else steps.begin))
        if len(symbols) > 1:
            self._places(1, name, symbols)
        return steps

    def _places(self, depth: int, name: str, symbols: Sequence[Symbol]) -> None:
        """The variables of several loops, of a point among all of theirs."""
        if len(symbols) == 1:
            self._line(depth, f"{symbols[0].name} = {name}")
            return
        extents = [s.extent for s in symbols]
        self._line(depth, f"{name} = {in_32_bits(name, math.prod(extents))}")
        for symbol, value in zip(symbols, delinear(data(name, 0, math.prod(extents) - 1), extents)):
            self._line(depth, f"{symbol.name} = {value.text()}")

    def _statements(self, level: int, depth: int | None, at: int) -> None:
        """Print the statements of a level that must stand `depth` loops deep (of any depth for None)."""
        self._print([s for s in self.nest.statements if s.level == level and depth in (None, self.depths[s])], at)

    def _print(self, statements: Sequence[Statement], at: int) -> None:
        for group in in_groups(statements):
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
            self._line(at, f"{name} = {loaded_text(buffer, bits)}")

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
        return f"{s.name} = {loaded_text(s.buffer, element)}"

    def _stores(self, level: int, depth: int) -> None:
        self._store_all([store for store in self.nest.stores if store.level == level], depth)

    def _store_all(self, stores: Sequence[Store], depth: int) -> None:
        for group in in_groups(stores):
            store = group[0]
            if isinstance(store, Update):
                self._update(store, depth)
            elif len(group) > 1:
                array, values = self.parameters[store.buffer.storage][0], ", ".join(map(stored_text, group))
                self._line(depth, f"store4({array}, {store.offset.text()}, {values})")
            else:
                self._line(depth, f"{self._element(store.buffer, store.offset)} = {stored_text(store)}")

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
        after = updated(update, loaded_text(update.buffer, element))
        self._line(depth, f"{element} = {stored_text(replace(update, value=after))}")

    def _element(self, buffer: Buffer, offset: Affine) -> str:
        return f"{self.parameters[buffer.storage][0]}[{offset.text()}]"


def last_to_finish(tickets: str, place: str, parts: int) -> list[str]:
    """Lines that end in the condition under which a block is the last of those that share a result: it sees theirs.

    The thread that takes the ticket has a fence before it, behind a barrier, for what all of the block have written,
    and one after it, before a barrier, for what all of them read.
    """
    return [
        "cuda.syncthreads()",
        "is_last = i32(0)",
        "if thread == 0:",
        "    cuda.threadfence()",
        f"    if cuda.atomic.inc({tickets}, {place}, u32({parts - 1})) == u32({parts - 1}):",
        "        is_last = i32(1)",
        "    cuda.threadfence()",
        "if cuda.syncthreads_or(is_last):",
    ]


def memory_type(dtype: np.dtype) -> str:
    """The type of an element as it lies in memory."""
    return "uint16" if is_narrow_float(dtype) else SHARED_TYPES.get(dtype.name, dtype.name)


def loaded_text(buffer: Buffer, element: str) -> str:
    """The value of an element of a buffer."""
    return f"from_bits_{rounding(buffer.dtype)}({element})" if is_narrow_float(buffer.dtype) else element


def stored_text(store: Store) -> str:
    """What lies in memory of the value of a store."""
    dtype = store.buffer.dtype
    return f"bits_{rounding(dtype)}({store.value})" if is_narrow_float(dtype) else store.value
