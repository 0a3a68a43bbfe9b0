"""How the results and terms of a convolution are shared among blocks and threads, by what that is reckoned to cost.

Knows sizes only: neither text nor memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from functad import machine_model
from functad.backends.cuda.scalars.words import WIDTH
from functad.records import NamedTuple


class Tiling(NamedTuple):
    """What a block of a convolution does: tiles of results, for each of which it goes through terms.

    rows, columns: places and outputs of one thread. down, across: threads beside each other along places and outputs.
    slices: how many such groups of threads there are, of which each sums terms of its own. depth: terms that are in
    shared memory at a time. parts: of all terms, for blocks of their own. vectors: elements of neighbouring results of
    a thread, which it reads from shared memory together.
    """

    rows: int
    columns: int
    down: int
    across: int
    slices: int
    depth: int
    parts: int = 1
    vectors: int = 1

    @property
    def places(self) -> int:
        return self.rows * self.down

    @property
    def outputs(self) -> int:
        return self.columns * self.across

    @property
    def threads(self) -> int:
        return self.down * self.across * self.slices


class Sums(NamedTuple):
    """How many sums there are, of how many products each: `groups` matrices of places × outputs."""

    groups: int
    places: int
    outputs: int
    terms: int
    itemsize: int

    @property
    def results(self) -> int:
        return self.groups * self.places * self.outputs


@lru_cache(maxsize=machine_model.CUDA_OPERATIONS)
def best_tiling(sums: Sums, threads: int) -> Tiling:
    """The tiling of blocks of so many threads that is reckoned to take least time."""
    return min(_tilings(sums, threads), key=lambda tiling: tile_clocks(sums, tiling))


def is_direct(sums: Sums, threads: int) -> bool:
    """Whether each thread sums all outputs of a place from where elements lie, without tiles: there are few terms."""
    small = sums.terms <= machine_model.CUDA_DIRECT_TERMS and sums.outputs <= machine_model.CUDA_DIRECT_OUTPUTS
    return small and sums.groups * sums.places >= machine_model.CUDA_CORES * threads


def tile_clocks(sums: Sums, t: Tiling) -> float:
    """Clock cycles, about, that a GPU takes: what its multiprocessors do, or how long they wait for memory."""
    cores, lanes = machine_model.CUDA_CORES, 128
    tiles = sums.groups * -(-sums.places // t.places) * -(-sums.outputs // t.outputs) * t.parts
    steps = terms_of_part(sums.terms, t) // t.depth
    turns = t.depth / t.slices
    warps = t.threads / 32
    wide = sums.itemsize / 4
    products = turns * t.rows * t.columns * t.threads / lanes * wide
    reads = turns * (t.rows + t.columns) / t.vectors * warps * wide
    moves = (t.places + t.outputs) * t.depth * machine_model.CUDA_TILE_MOVE / lanes
    step = max(products + moves, reads) + machine_model.CUDA_TILE_STEP
    of_core = -(-tiles // cores)
    held = min(of_core, max(1, 2048 // (t.threads * max(1, t.rows * t.columns // 16))))
    waiting = -(-of_core // held) * (steps + 1) * machine_model.CUDA_MEMORY_CLOCKS
    end = t.rows * t.columns * (t.slices > 1) * t.threads / lanes * 4 * of_core
    together = 0.0
    if t.parts > 1:
        together = machine_model.CUDA_LAUNCH_CLOCKS + t.parts * sums.results * sums.itemsize / 1024
    return max(of_core * steps * step, waiting) + end + together


def _tilings(sums: Sums, threads: int) -> Iterator[Tiling]:
    for rows, columns in machine_model.CUDA_TILE_SIDES:
        for down, across, slices in _shapes(threads):
            if _is_too_large(rows * down, sums.places) or _is_too_large(columns * across, sums.outputs):
                continue
            if slices > 1 and rows * columns > 16:
                continue
            for depth in {max(8, slices), max(16, slices), max(32, slices), 4 * slices}:
                elements = (rows * down + columns * across + 2 * WIDTH) * depth
                near, far = sorted((rows * down, columns * across))
                kept = slices * far * (near + WIDTH)
                if (elements + kept) * sums.itemsize > machine_model.CUDA_SHARED_BYTES or depth % slices:
                    continue
                if elements > machine_model.CUDA_READ_AHEAD * max(threads, 128):
                    continue  # what is read ahead stays in registers
                tiling = Tiling(rows, columns, down, across, slices, depth)
                yield tiling
                parts = _parts(sums, tiling)
                if parts > 1:
                    yield tiling._replace(parts=parts)


def _shapes(threads: int) -> Iterator[tuple[int, int, int]]:
    for a in range(threads.bit_length()):
        for b in range(threads.bit_length() - a):
            if threads >> (a + b):
                yield 1 << a, 1 << b, threads >> (a + b)


def _is_too_large(side: int, sums: int) -> bool:
    return side > 1 and side >= 2 * sums


def _parts(sums: Sums, t: Tiling) -> int:
    """Parts of the terms with which all multiprocessors have work, each a few steps at least."""
    tiles = sums.groups * -(-sums.places // t.places) * -(-sums.outputs // t.outputs)
    wanted = 2 * machine_model.CUDA_CORES // tiles
    return max(1, min(wanted, sums.terms // (2 * t.depth)))


def terms_of_part(terms: int, tiling: Tiling) -> int:
    """How many terms each part has, but the last one."""
    return -(-math.ceil(terms / tiling.parts) // tiling.depth) * tiling.depth
