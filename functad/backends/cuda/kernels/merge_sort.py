"""Merge sorts on CUDA: blocks sort tiles in shared memory, then they merge runs, which are twice as long each time.

Knows words of keys and positions, of which no two are equal; nothing of Programs. In a merge a block finds by itself
what lies in its tile of the result, by binary search along a diagonal of the merge matrix (Green, McColl, Bader, GPU
Merge Path, ICS 2012), so that all blocks have as much to do, down to the last merge of one row.
"""

from __future__ import annotations

from functools import partial

from functad import machine_model
from functad.backends.cuda.kernels.shared_steps import in_32_bits, of_blocks
from functad.backends.cuda.kernels.sort_words import Runs, SortKernel, SortWriter
from functad.lowering.steps import SortStep
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.text import cast


def merge_sort(step: SortStep, threads: int) -> list[SortKernel]:
    """The kernels of a sort for blocks of `threads`, in their order: one that sorts tiles, and one for each merge.

    All merges but the last are the same function: how long the runs are lies in memory, beside the words.
    """
    return _MergeSort(step, threads).kernels()


class _MergeSort(SortWriter):
    """Writes the kernels of one sort.

    tile: elements that a block sorts. segment: of these, how many belong to a row. padded: elements from one row to the
    next where rows are made of whole tiles or segments. merged: elements of a tile of a merge, `items` of each thread.
    """

    def __init__(self, step: SortStep, threads: int) -> None:
        super().__init__(step)
        fits, whole = machine_model.CUDA_SHARED_BYTES // self.element, _power_of_two(self.rows.length)
        most = min(machine_model.CUDA_SORT_TILE, 1 << fits.bit_length() - 1)
        self.tile = min(most, _power_of_two(whole * self.rows.count))
        self.segment = min(whole, self.tile)
        self.padded = -(-self.rows.length // self.segment) * self.segment
        self.ends_bytes = 2 * 8
        room = (machine_model.CUDA_SHARED_BYTES - self.ends_bytes) // (2 * self.element)
        self.items = max(1, min(machine_model.CUDA_SORT_ITEMS, room // threads - (room // threads + 1) % 2))
        self.merged = min(self.items * threads, room)

    def kernels(self) -> list[SortKernel]:
        length, run = self.rows.length, self.segment
        source = self.runs() if run < length else None
        found = [self._tiles(source)]
        spare = self.runs() if 2 * run < length else None
        while source is not None:
            target = spare if 2 * run < length else None
            found.append(self._merge(source, run, target))
            source, spare, run = target, source, 2 * run
        return found

    # --- tiles ----------------------------------------------------------------------------------------

    def _tiles(self, target: Runs | None) -> SortKernel:
        """Sort each tile by a bitonic network; short rows lie side by side in one, and long ones are made of many."""
        text, rows, tile = KernelText(), self.rows, self.tile
        parts = -(-rows.count * self.padded // tile)
        for k, word in enumerate(self.words):
            text.line(f"tile{k} = cuda.shared.array({tile}, {word.dtype.name})")
        text.line("thread = cuda.threadIdx.x")
        with of_blocks("part", parts).within(text):
            with text.loop("i", "thread", tile, "THREADS"):
                self._find(text)
                for k, word in enumerate(self.words):  # what is no element comes behind all that are
                    text.line(f"tile{k}[i] = {cast(word.dtype)}({2 ** (8 * word.dtype.itemsize) - 1})")
                with text.block(f"if r < {rows.count} and j < {rows.length}:"):
                    self.read_keys(text)
                    text.line(*(f"tile{k}[i] = {word.text}" for k, word in enumerate(self.words)))
            self._network(text)
            with text.loop("i", "thread", tile, "THREADS"):
                self._find(text)
                first = f" and j % {self.segment} < {self.sort.kept}" if self.sort.kept < self.segment else ""
                with text.block(f"if r < {rows.count} and j < {rows.length}{first}:"):
                    self.put_down(text, target, "tile")
            text.line("cuda.syncthreads()")
        stages = (self.segment.bit_length() - 1) * self.segment.bit_length() // 2
        if target is not None:
            self._note_length(text, str(self.segment))
        elements = rows.count * rows.length
        return self.kernel("sort_tiles", text, None, target, (parts, self.tile), elements, stages / 2)

    def _find(self, text: KernelText) -> None:
        """The row and the place in it of the element number i of a tile."""
        text.line(f"r = ({self.tile} * part + i) // {self.padded}", f"j = ({self.tile} * part + i) % {self.padded}")

    def _network(self, text: KernelText) -> None:
        """Sort each segment: sequences of `size` are made of sorted halves, the second of them read backwards."""
        text.line("size = 2")
        with text.block(f"while size <= {self.segment}:"):
            text.line("distance = size // 2", "partner = size - 1")
            with text.block("while distance > 0:"):
                text.line("cuda.syncthreads()")
                with text.loop("pair", "thread", self.tile // 2, "THREADS"):
                    text.line("low = 2 * pair - (pair & (distance - 1))", "high = low ^ partner")
                    with text.block(f"if {self._before('tile', 'high', 'tile', 'low')}:"):
                        for k in range(len(self.words)):
                            text.line(f"larger = tile{k}[low]", f"tile{k}[low] = tile{k}[high]")
                            text.line(f"tile{k}[high] = larger")
                text.line("distance = distance // 2", "partner = distance")
            text.line("size = 2 * size")
        text.line("cuda.syncthreads()")

    # --- merges ---------------------------------------------------------------------------------------

    def _merge(self, source: Runs, run: int, target: Runs | None) -> SortKernel:
        """Merge each two runs of a row, as far as their elements may be kept; the last time, put these down."""
        text, rows, tile, kept = KernelText(), self.rows, self.merged, self.sort.kept
        for name in ("tile", "merged"):
            for k, word in enumerate(self.words):
                text.line(f"{name}{k} = cuda.shared.array({tile}, {word.dtype.name})")
        text.line("ends = cuda.shared.array(2, int64)", "thread = cuda.threadIdx.x")
        small = partial(in_32_bits, most=4 * rows.count * rows.length)
        text.line(f"length = {run if target is None else 'run[0]'}")
        text.line(f"pairs = {small(f'{rows.length - 1} + 2 * length')} // {small('2 * length')}")
        text.line(f"tiles = {small(f'min(2 * length, {kept}) + {tile - 1}')} // {tile}")
        with of_blocks("part", f"{rows.count} * pairs * tiles", rows.count * rows.length).within(text):
            text.line(f"r = part // {small('pairs * tiles')}", "first = 2 * length * (part // tiles % pairs)")
            text.line(f"begin = {tile} * (part % tiles)")
            text.line(f"left = min(length, {rows.length} - first)")
            text.line(f"right = min(length, {rows.length} - first - left)")
            text.line(f"total = min({tile}, min(left + right, {kept}) - begin)")
            text.line(f"row = {rows.length} * r + first", "other = row + length")
            with text.block("if total > 0:"):
                self._read_tile(text)
                self._merge_tile(text)
                with text.loop("i", "thread", "total", "THREADS"):
                    text.line("j = first + begin + i")
                    self.put_down(text, target, "merged")
            text.line("cuda.syncthreads()")
        pairs = -(-rows.length // (2 * run))
        parts = rows.count * pairs * -(-min(2 * run, kept) // tile)
        elements = rows.count * min(rows.length, pairs * min(2 * run, kept))
        name = "sort_merge_last" if target is None else "sort_merge"
        if target is not None:
            self._note_length(text, "2 * length")
        return self.kernel(name, text, source, target, (parts, self.merged), elements, 2)

    def _note_length(self, text: KernelText, length: str) -> None:
        """How long the runs are that the kernel leaves."""
        with text.block("if thread == 0 and cuda.blockIdx.x == 0:"):
            text.line(f"next_run[0] = {length}")

    def _read_tile(self, text: KernelText) -> None:
        """The elements of a tile: `lefts` of them from the one run, from `skipped` on, and then those of the other."""
        with text.block("if thread < 2:"):
            text.line("diagonal = begin + total * thread")
            self._search(text, "diagonal", "left", "right", "words", "row + middle", "other + diagonal - 1 - middle")
            text.line("ends[thread] = low")
        text.line("cuda.syncthreads()", "skipped = ends[0]", "lefts = ends[1] - skipped")
        with text.loop("i", "thread", "total", "THREADS"):
            text.line("at = where(i < lefts, row + skipped + i, other + begin - skipped + i - lefts)")
            text.line(*(f"tile{k}[i] = words{k}[at]" for k in range(len(self.words))))
        text.line("cuda.syncthreads()")

    def _merge_tile(self, text: KernelText) -> None:
        """Each thread merges its part of the tile."""
        text.line(f"own = min({self.items} * thread, total)")
        self._search(text, "own", "lefts", "(total - lefts)", "tile", "middle", "lefts + own - 1 - middle")
        text.line("a = low", "b = lefts + own - low")
        with text.loop("i", "own", f"min(own + {self.items}, total)"):
            with text.block(f"if b >= total or (a < lefts and {self._before('tile', 'a', 'tile', 'b')}):"):
                text.line(*(f"merged{k}[i] = tile{k}[a]" for k in range(len(self.words))), "a = a + 1")
            with text.block("else:"):
                text.line(*(f"merged{k}[i] = tile{k}[b]" for k in range(len(self.words))), "b = b + 1")
        text.line("cuda.syncthreads()")

    def _search(self, text: KernelText, count: str, left: str, right: str, array: str, one: str, other: str) -> None:
        """How many of the first `count` merged elements are of the left run."""
        text.line(f"low = max(0, {count} - {right})", f"high = min({count}, {left})")
        with text.block("while low < high:"):
            text.line("middle = (low + high) // 2")
            with text.block(f"if {self._before(array, one, array, other)}:"):
                text.line("low = middle + 1")
            with text.block("else:"):
                text.line("high = middle")

    def _before(self, array: str, at: str, other: str, place: str) -> str:
        """The condition under which an element comes before another one."""
        pairs = [(f"{array}{k}[{at}]", f"{other}{k}[{place}]") for k in range(len(self.words))]
        text = "{} < {}".format(*pairs[-1])
        for a, b in reversed(pairs[:-1]):
            text = f"{a} < {b} or ({a} == {b} and ({text}))"
        return text if len(pairs) == 1 else f"({text})"


def _power_of_two(number: int) -> int:
    """The least power of two that is no less."""
    return 1 << (number - 1).bit_length()
