"""How functad's own kernel multiplies matrices: which tile a block computes, and in how many parts.

Knows sizes of matrices, and what a GPU does in a clock; no text and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from functad import machine_model
from functad.backends.cuda.scalars.words import TERMS
from functad.records import NamedTuple


class ProductTile(NamedTuple):
    """What a block computes: `group` threads a tile of results, each some in registers, and groups share the terms.

    across, down: threads of a group along columns and rows. rows, columns: results of each thread.
    depth: terms that lie in shared memory at a time. groups: of threads. parts: of the terms, each the work of other
    blocks.
    """

    down: int
    across: int
    rows: int
    columns: int
    depth: int
    groups: int
    parts: int = 1

    @property
    def group(self) -> int:
        return self.down * self.across

    @property
    def threads(self) -> int:
        return self.group * self.groups

    @property
    def height(self) -> int:
        """Rows of the results of a block."""
        return self.down * self.rows

    @property
    def width(self) -> int:
        """Columns of the results of a block."""
        return self.across * self.columns


class ProductSizes(NamedTuple):
    """`batch` products of rows × terms and terms × columns matrices, of elements of so many bytes.

    width: elements of a load of either operand.
    """

    batch: int
    rows: int
    columns: int
    terms: int
    itemsize: int
    width: int

    @property
    def results(self) -> int:
        return self.batch * self.rows * self.columns


PAD = 4  # elements behind the terms of each row, or column, in shared memory, so that threads use other banks


def shared_elements(tile: ProductTile) -> int:
    """Elements of shared memory: both operands' tiles, and then what each group has come to."""
    operands = (tile.height + tile.width) * (tile.depth + PAD)  # of a row for each term PAD is too many
    return max(operands, tile.groups * tile.height * tile.width)


@lru_cache(maxsize=1024)
def tile_for(sizes: ProductSizes, threads: int, may_part: bool) -> ProductTile:
    """The tile by which a product takes the least time by the rule of `clocks`; may_part: whether in parts, too."""
    found = list(_tiles(sizes, threads, may_part))
    return min(found, key=lambda tile: (clocks(sizes, tile), tile.parts, -tile.height * tile.width))


@lru_cache(maxsize=1024)
def tile_of_whole_rows(sizes: ProductSizes, threads: int, may_part: bool) -> ProductTile | None:
    """The tile of all columns by which a product takes the least time; None if another one saves more than a kernel."""
    found = [t for t in _tiles(sizes, threads, may_part) if t.width >= sizes.columns and t.height <= t.threads]
    tile = min(found, key=lambda t: (clocks(sizes, t), t.parts), default=None)
    if tile is None:
        return None
    best = clocks(sizes, tile_for(sizes, threads, may_part))
    return tile if clocks(sizes, tile) - best <= machine_model.CUDA_NEXT_CLOCKS else None


@lru_cache(maxsize=1024)
def tile_of_rows(sizes: ProductSizes, threads: int) -> ProductTile | None:
    """The tile by which a block of `threads` takes the least time for all rows of a product; None if there is none."""
    found = [t for t in _tiles(sizes, threads, False) if t.height == sizes.rows and t.threads == threads]
    return min(found, key=lambda tile: (clocks(sizes, tile), tile.width), default=None)


def clocks(sizes: ProductSizes, tile: ProductTile) -> float:
    """About how many clocks of a multiprocessor a product takes, once its kernel has begun.

    Each round of terms waits for memory once.
    """
    blocks = sizes.batch * -(-sizes.rows // tile.height) * -(-sizes.columns // tile.width) * tile.parts
    each = -(-blocks // machine_model.CUDA_CORES)
    rounds = -(-sizes.terms // (tile.depth * tile.parts))
    terms, words = each * rounds * tile.depth, sizes.itemsize / 4
    per_result = words * (1 + machine_model.CUDA_SHARED_CLOCKS * (1 / tile.rows + 1 / tile.columns))
    computing = terms * tile.height * tile.width / machine_model.CUDA_CORE_PRODUCTS * per_result
    loading = terms * (tile.height + tile.width) * sizes.itemsize / machine_model.CUDA_CACHE_BYTES
    waiting = rounds * machine_model.CUDA_ROUND_CLOCKS
    ending = (tile.groups + 1) * tile.height * tile.width / tile.threads * machine_model.CUDA_RESULT_CLOCKS
    gathering = machine_model.CUDA_GATHER_CLOCKS if tile.parts > 1 else 0
    return max(computing, loading) + waiting + each * ending + gathering


def _tiles(sizes: ProductSizes, threads: int, may_part: bool) -> Iterator[ProductTile]:
    kinds = machine_model.CUDA_PRODUCT_TILES if threads >= 32 else _FEW_THREADS
    wanted = {threads, min(max(2 * threads, machine_model.CUDA_THREADS), 2 * machine_model.CUDA_THREADS)}
    for down, across, rows, columns in kinds:
        for all_threads in sorted(wanted) if threads >= 32 else [threads]:
            groups, rest = divmod(all_threads, down * across)
            for depth in (2**k for k in range(2, 9)) if not rest else ():
                tile = ProductTile(down, across, rows, columns, depth, groups)
                if _fits(sizes, tile):
                    yield tile
                    parts = 2
                    while may_part and sizes.terms > parts * depth and parts <= machine_model.CUDA_MOST_PARTS:
                        yield tile._replace(parts=parts)
                        parts *= 2


def _fits(sizes: ProductSizes, tile: ProductTile) -> bool:
    """Whether a tile fits into shared memory, and what is loaded ahead into registers; each thread loads lines."""
    staged = (tile.height + tile.width) * tile.depth * sizes.itemsize / (4 * tile.threads)
    least = TERMS * tile.groups
    few = tile.depth == least or tile.depth > least and staged <= machine_model.CUDA_STAGED_WORDS
    fits = shared_elements(tile) * sizes.itemsize <= machine_model.CUDA_SHARED_BYTES
    return few and fits and has_lines_for(tile, sizes.width)


def has_lines_for(tile: ProductTile, width: int) -> bool:
    """Whether a block's threads, which load so many elements at a time, load at least a line together."""
    return max(tile.depth, tile.height, tile.width) <= width * tile.threads


_FEW_THREADS = ((1, 2, 4, 2), (2, 2, 2, 2))  # of Numba's simulator, of which each is a thread of Python's


def taken_by_library(sizes: ProductSizes, threads: int, followers: int) -> bool:
    """Whether a product is cuBLAS's, which multiplies large matrices faster, but takes longer to begin.

    followers: kernels that are a part of functad's own.
    """
    terms = sizes.results * sizes.terms * sizes.itemsize / 4
    library = machine_model.CUDA_LIBRARY_CLOCKS + terms / (
        machine_model.CUDA_CORES * machine_model.CUDA_LIBRARY_PRODUCTS
    )
    library += followers * machine_model.CUDA_NEXT_CLOCKS
    return clocks(sizes, tile_for(sizes, threads, True)) > library
