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
from functad.lowering.nests.nest import Nest
from functad.records import NamedTuple

OWNER = "owner_here"  # the loop over those who share updates


class MappedLoop(NamedTuple):
    """A loop's variable, and its number of steps."""

    name: str
    extent: int


@dataclass(frozen=True)
class LoopMapping:
    """What the loops of a kernel become, the outermost first.

    grid: all threads of the grid share their steps. block: the blocks do, and all threads of a block do each step.
    thread: the threads of one block share their steps. serial: each thread runs all of their steps.
    """

    grid: tuple[MappedLoop, ...] = ()
    block: tuple[MappedLoop, ...] = ()
    thread: tuple[MappedLoop, ...] = ()
    serial: tuple[MappedLoop, ...] = ()

    @property
    def by_block(self) -> bool:
        """Whether a block does together what is one thread's work otherwise."""
        return bool(self.thread)

    @property
    def work(self) -> int:
        """How many threads, or blocks, have something to do."""
        return math.prod(loop.extent for loop in (*self.grid, *self.block))

    def __str__(self) -> str:
        """
        >>> print(LoopMapping(block=(MappedLoop("i", 20),), thread=(MappedLoop("j", 300),)))
        block: i < 20; thread: j < 300
        """
        kinds = {"grid": self.grid, "block": self.block, "thread": self.thread, "serial": self.serial}
        parts = [f"{kind}: {', '.join(f'{n} < {e}' for n, e in loops)}" for kind, loops in kinds.items() if loops]
        return "; ".join(parts) or "one thread"


def map_nest(nest: Nest, threads: int) -> LoopMapping:
    """The mapping of a nest whose loops have been merged, for blocks of `threads`.

    A thread computes one result, unless it is reduced from many elements that lie side by side, or there are few
    results: then a block does. So, too, where a value is carried along many steps, and there are few such loops.
    What is updated in the order of a loop's steps is one thread's work for all of the loop, or, with owners, that of
    one thread for each owner, which leaves out the updates of others.
    """
    in_order = {nest.carried, *nest.ordered}
    inner = [s for s, reduced in zip(nest.loops, nest.reduced) if reduced or s in in_order]
    inside = tuple(MappedLoop(s.name, s.extent) for s in inner)
    outer = tuple(MappedLoop(s.name, s.extent) for s in nest.loops if s not in inner)
    work = math.prod(loop.extent for loop in outer)
    few = work < machine_model.CUDA_FEW_POINTS
    adjacent = bool(inner) and nest.loops[-1] is inner[-1]
    gathered = bool(nest.accumulators) and (adjacent or few)
    carried = inner == [nest.carried] and few
    fits = shared_bytes(nest, threads) <= machine_model.CUDA_SHARED_BYTES
    if nest.points // max(work, 1) >= 2 * threads and (gathered or carried) and in_any_order(nest) and fits:
        return LoopMapping(block=outer, thread=inside)
    owners = (MappedLoop(OWNER, nest.owners.shares),) if nest.owners else ()
    return LoopMapping(grid=(*owners, *outer), serial=inside)


def map_range(extent: int, serial: Sequence[MappedLoop] = ()) -> LoopMapping:
    """The mapping of a kernel whose text has a range of its own, whose steps any threads may share."""
    return LoopMapping(grid=(MappedLoop("step", extent),), serial=tuple(serial))


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
