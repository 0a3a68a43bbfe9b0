"""What each loop of a kernel becomes on a GPU, as data: a loop of the grid, of its blocks, of their threads, of one.

Knows loops and how many steps they have; neither text nor memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.lowering.nests.nest import Load, Nest
from functad.records import NamedTuple

OWNER = "owner_here"  # the loop over those who share updates


class MappedLoop(NamedTuple):
    """A loop's variable, and its number of steps."""

    name: str
    extent: int


class Gathering(NamedTuple):
    """How the threads of a block share what is gathered: so many results side by side, each by so many threads.

    along: whether neighbouring threads gather one result, of what lies side by side; else neighbours have one each.
    parts: so many blocks share a result; the last one of them to finish puts together what each has come to.
    idle: whether a block has more threads than that, which have nothing to do.
    """

    side: int
    lanes: int
    along: bool
    parts: int = 1
    idle: bool = False

    @property
    def distance(self) -> int:
        """From a thread to the next one of its result."""
        return 1 if self.along else self.side

    @property
    def conditions(self) -> list[str]:
        """What holds for threads that have something to do."""
        at_end = f"own < {self.side}" if self.along and self.side > 1 else f"lane < {self.lanes}"
        return [at_end] if self.idle else []

    def __str__(self) -> str:
        """
        >>> print(Gathering(4, 32, True), "/", Gathering(32, 4, False, 8), "/", Gathering(1, 128, True))
        4 results a block, 32 threads for each / 32 results a block, 4 threads for each, 8 parts / 128 threads for each
        """
        side = f"{self.side} results a block, " if self.side > 1 else ""
        return f"{side}{self.lanes} threads for each" + (f", {self.parts} parts" if self.parts > 1 else "")


@dataclass(frozen=True)
class LoopMapping:
    """What the loops of a kernel become, the outermost first.

    grid: all threads of the grid share their steps. block: the blocks do, and all threads of a block do each step.
    thread: the threads of one block share their steps. serial: each thread runs all of their steps.
    gathering: how a block's threads share several steps of `block`, and those of `thread`; else all do one.
    one_step: whether there are as many threads, or blocks, as steps, so that none does two.
    """

    grid: tuple[MappedLoop, ...] = ()
    block: tuple[MappedLoop, ...] = ()
    thread: tuple[MappedLoop, ...] = ()
    serial: tuple[MappedLoop, ...] = ()
    gathering: Gathering | None = None
    one_step: bool = False

    @property
    def by_block(self) -> bool:
        """Whether a block does together what is one thread's work otherwise."""
        return bool(self.thread)

    @property
    def work(self) -> int:
        """How many threads, or blocks, have something to do."""
        steps = math.prod(loop.extent for loop in (*self.grid, *self.block))
        return steps if self.gathering is None else -(-steps // self.gathering.side) * self.gathering.parts

    def __str__(self) -> str:
        """
        >>> print(LoopMapping(block=(MappedLoop("i", 20),), thread=(MappedLoop("j", 300),)))
        block: i < 20; thread: j < 300
        """
        kinds = {"grid": self.grid, "block": self.block, "thread": self.thread, "serial": self.serial}
        parts = [f"{kind}: {', '.join(f'{n} < {e}' for n, e in loops)}" for kind, loops in kinds.items() if loops]
        shared = [str(self.gathering)] if self.gathering is not None else []
        return "; ".join([*parts, *shared]) or "one thread"


def map_nest(nest: Nest, threads: int) -> LoopMapping:
    """The mapping of a nest whose loops have been merged, for blocks of `threads`.

    A thread computes one result, unless that is reduced from so many elements that several threads share them. Where a
    value is carried along many steps, and there are few such loops, a block shares the steps.
    What is updated in the order of a loop's steps is one thread's work for all of the loop, or, with owners, that of
    one thread for each owner, which leaves out the updates of others.
    """
    in_order = {nest.carried, *nest.ordered}
    inner = [s for s, reduced in zip(nest.loops, nest.reduced) if reduced or s in in_order]
    inside = tuple(MappedLoop(s.name, s.extent) for s in inner)
    outer = tuple(MappedLoop(s.name, s.extent) for s in nest.loops if s not in inner)
    work = math.prod(loop.extent for loop in outer)
    together = in_any_order(nest) and shared_bytes(nest, threads) <= machine_model.CUDA_SHARED_BYTES
    if nest.accumulators and together and work and not in_order & {*nest.loops}:
        gathering = gathered(nest, work, nest.points // work, threads)
        if gathering is not None:
            blocks = -(-work // gathering.side) * gathering.parts
            one_step = blocks <= machine_model.CUDA_ONE_STEP_BLOCKS
            return LoopMapping(block=outer, thread=inside, gathering=gathering, one_step=one_step)
    carried = inner == [nest.carried] and work < machine_model.CUDA_FEW_POINTS
    if carried and nest.points // max(work, 1) >= 2 * threads and together:
        return LoopMapping(block=outer, thread=inside)
    owners = (MappedLoop(OWNER, nest.owners.shares),) if nest.owners else ()
    grid = (*owners, *outer)
    return LoopMapping(grid=grid, serial=inside, one_step=fits_one_step(grid, threads))


def gathered(nest: Nest, results: int, terms: int, threads: int) -> Gathering | None:
    """How the threads of blocks share the terms of a nest's results; None where a thread has enough to do with one.

    As many threads share a result as keep a GPU busy, but where neighbours read along a row, no fewer than read a whole
    piece of memory at a time. Where results lie side by side, neighbours have one each, for the same reason.
    """
    if terms < max(threads // 4, 2):
        return None
    busy = machine_model.CUDA_BUSY_THREADS * threads // machine_model.CUDA_THREADS
    wanted = max(busy // results, terms // machine_model.LONGEST_SUM, 1)
    along = nest.reduced[-1]
    if along:
        least = max(threads // 4, 1) if results < busy or _reads_along(nest) else 1
        lanes = _power(min(max(wanted, least), threads, terms))
    else:
        most = threads // 8 if wanted <= threads // 8 or terms < machine_model.CUDA_FEW_TERMS else threads // 32
        lanes = _power(max(min(wanted, most, terms), 1))
        while 2 * lanes * results <= threads and 2 * lanes <= min(wanted, terms):
            lanes *= 2
    side = min(threads // lanes, results)
    parts = max(min(wanted // lanes, side * terms // machine_model.CUDA_PART_TERMS, terms // lanes), 1)
    return Gathering(side, lanes, along, parts, side * lanes < threads) if lanes > 1 or parts > 1 else None


def rows_of_blocks(nests: Sequence[Nest], threads: int) -> Gathering:
    """How the threads of blocks share the rows that are the first loops of nests: more threads for longer ones."""
    rows = nests[0].loops[0].extent
    length = max(max(nest.points for nest in nests) // max(rows, 1), 1)
    busy = machine_model.CUDA_BUSY_THREADS * threads // machine_model.CUDA_THREADS
    wanted = max(length // machine_model.CUDA_ROW_ITEMS, threads // 4, busy // max(rows, 1), 1)
    lanes = _power(min(wanted, threads, length))
    return Gathering(threads // lanes, lanes, True)


def _power(number: int) -> int:
    """The largest power of two that is no larger."""
    return 1 << (number.bit_length() - 1)


def _reads_along(nest: Nest) -> bool:
    """Whether all that a nest reads at each point lies side by side along its last loop."""
    last = nest.loops[-1]
    loads = [s.offset for s in nest.statements if isinstance(s, Load) and last in s.offset.symbols()]
    return all(abs(offset.coefficient(last)) == 1 for offset in loads)


def fits_one_step(loops: Sequence[MappedLoop], threads: int) -> bool:
    """Whether there may be a thread for each step of the loops."""
    most = machine_model.CUDA_ONE_STEP_BLOCKS * threads // machine_model.CUDA_THREADS
    return math.prod(loop.extent for loop in loops) <= most * threads


def map_range(extent: int, threads: int = 0) -> LoopMapping:
    """The mapping of a kernel whose text has a range of its own, whose steps any threads may share.

    threads: of a block, of a kernel in which no thread does two steps if there may be one for each.
    """
    grid = (MappedLoop("step", extent),)
    return LoopMapping(grid=grid, one_step=bool(threads) and extent > 0 and fits_one_step(grid, threads))


def in_any_order(nest: Nest) -> bool:
    """Whether values may be put together in another order: products of floats would over- or underflow elsewhere."""
    gathered = [(a.kind, a.dtype) for a in nest.accumulators] + [(c.kind, c.dtype) for c in nest.carries]
    return not any(kind == "prod" and kind_of(dtype) in "fc" for kind, dtype in gathered)


def is_atomic(kind: str, dtype: np.dtype, adds_floats: bool) -> bool:
    """Whether several threads may update one place at a time: whole numbers come to the same in any order.

    adds_floats: whether sums of floats may be rounded in any order, too.
    """
    if dtype.itemsize not in (4, 8):
        return False
    if kind_of(dtype) == "f":
        return adds_floats and kind == "add"
    return kind_of(dtype) in "iu" and kind in ("add", "min", "max")


def shared_bytes(nest: Nest, threads: int) -> int:
    """Bytes of shared memory in which a block gathers values: an element of each for each thread."""
    gathered = [a.dtype for a in nest.accumulators] + [c.dtype for c in nest.carries]
    return threads * sum(max(dtype.itemsize, 4) for dtype in gathered)  # narrow ones are float32 there
