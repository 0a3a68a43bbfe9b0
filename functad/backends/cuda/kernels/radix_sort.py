"""Radix sorts on CUDA: all digits are counted at once, then elements are moved digit by digit, from the lowest one on.

Knows words of keys and positions; nothing of Programs. In a pass a block sorts its tile by a digit in shared memory,
and adds up, for each value of it, how many elements there are in earlier tiles: it finds a total that another block has
left, or the count of a tile (Adinets & Merrill, Onesweep, 2022). Whole numbers come to the same in any order.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model
from functad.backends.cuda.kernels.carried import clearing
from functad.backends.cuda.kernels.shared_steps import in_32_bits, of_blocks
from functad.backends.cuda.kernels.sort_words import Runs, SortKernel, SortWriter
from functad.lowering.memory.buffers import new_buffer
from functad.lowering.nests.printing import Parameter
from functad.lowering.steps import SortStep
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.text import cast
from functad.records import NamedTuple


def radix_sort(step: SortStep, threads: int) -> list[SortKernel]:
    """The kernels of a sort for blocks of `threads`, in their order; none if they need too much shared memory.

    The passes between the first and the last are one function where their digits lie in one word: which digit it is
    lies in memory, beside the words.
    """
    writer = _RadixSort(step, threads)
    return writer.kernels() if writer.items > 0 else []


class _Digit(NamedTuple):
    """Some bits of a word. of_word: how many digits of the word come before."""

    word: int
    of_word: int
    bits: int


class _RadixSort(SortWriter):
    """Writes the kernels of one sort.

    tile: elements that a block sorts by a digit, `items` of each thread. radix: how many values a digit has. marks: how
    many tiles of each pass were taken; of each row how often each value of each digit comes; and of each tile and value
    what is known of it, as a number `tags * count + tag`, where the tag says in which pass, and if earlier tiles count.
    """

    def __init__(self, step: SortStep, threads: int) -> None:
        super().__init__(step)
        self.threads = threads
        self.digits = [
            _Digit(k, n, min(machine_model.CUDA_RADIX_BITS, left))
            for k in reversed(range(len(self.words)))
            for n, left in enumerate(
                range(self.words[k].bits - self.words[k].place_bits, 0, -machine_model.CUDA_RADIX_BITS)
            )
        ]
        self.radix, self.split = 1 << machine_model.CUDA_RADIX_BITS, 1 << machine_model.CUDA_RADIX_SPLIT_BITS
        self.tags = 2 * len(self.digits) + 1
        self.mark = np.dtype(np.int32 if self.tags * (self.rows.length + 1) < 1 << 31 else np.int64)
        counted = 4 * self.split * threads + self.mark.itemsize * (2 * self.radix + threads) + 4
        room = (machine_model.CUDA_SHARED_BYTES - counted) // (2 * self.element * threads)
        fits = 4 * self.radix * len(self.digits) <= machine_model.CUDA_SHARED_BYTES
        self.items = min(machine_model.CUDA_RADIX_ITEMS, room) if fits else 0
        self.tile = self.items * threads
        self.tiles = -(-self.rows.length // max(self.tile, 1))
        self.parts = self.tiles * self.rows.count
        self.seen_at = len(self.digits) * (1 + self.radix * self.rows.count)
        self.marks = new_buffer(f"marks_{step.name}", (self.seen_at + self.radix * self.parts,), self.mark)
        self.given: list[Parameter] = [("marks", self.marks, "rw")]

    def kernels(self) -> list[SortKernel]:
        found = [SortKernel("sort_clear", clearing(self.marks), 0.0, float(self.marks.nbytes)), self._count()]
        runs: list[Runs] = [self.runs() for _ in self.digits[1:3]]
        source: Runs | None = None
        for number in range(len(self.digits)):
            target = runs[number % 2] if number < len(self.digits) - 1 else None
            found.append(self._pass(number, source, target))
            source = target
        return found

    # --- counting -------------------------------------------------------------------------------------

    def _count(self) -> SortKernel:
        """How often each value of each digit comes in each row."""
        text, rows = KernelText(), self.rows
        counts = self.radix * len(self.digits)
        text.line(f"counts = cuda.shared.array({counts}, int32)", "thread = cuda.threadIdx.x")
        with text.loop("i", "thread", counts, "THREADS"):
            text.line("counts[i] = 0")
        text.line("cuda.syncthreads()")
        with of_blocks("part", self.parts).within(text):
            self._place(text)
            with text.loop("i", "thread", "count", "THREADS"):
                text.line("j = first + i")
                self._read_words(text, None, "word", "")
                for p, digit in enumerate(self.digits):
                    value = self._value(digit, f"word{digit.word}", str(digit.of_word))
                    text.line(f"cuda.atomic.add(counts, {self.radix * p} + {value}, 1)")
            text.line("cuda.syncthreads()", f"following = {in_32_bits('part + cuda.gridDim.x', self.parts)}")
            with text.block(f"if following >= {self.parts} or following // {self.tiles} != r:"):
                with text.loop("i", "thread", counts, "THREADS"):
                    with text.block("if counts[i] > 0:"):
                        text.line(f"cuda.atomic.add(marks, {len(self.digits)} + {counts} * r + i, counts[i])")
                        text.line("counts[i] = 0")
                text.line("cuda.syncthreads()")
        elements = rows.count * rows.length
        return self.kernel("sort_count", text, None, None, (self.parts, self.tile), elements, 0, self.given)

    # --- passes ---------------------------------------------------------------------------------------

    def _pass(self, number: int, source: Runs | None, target: Runs | None) -> SortKernel:
        """Move the elements to where they belong by one more digit; the last time, put them down."""
        text, digit = KernelText(), self.digits[number]
        for k, word in enumerate(self.words):  # the tile twice: as it is, and as it will be
            text.line(f"tile{k} = cuda.shared.array({2 * self.tile}, {word.dtype.name})")
        text.line(f"counters = cuda.shared.array({self.split * self.threads}, int32)")
        text.line(f"begins = cuda.shared.array({2 * self.radix}, {self.mark.name})")
        text.line(f"sums = cuda.shared.array(THREADS, {self.mark.name})", "ticket = cuda.shared.array(1, int32)")
        own = source is not None and target is not None
        text.line("thread = cuda.threadIdx.x", f"digit = {'run[0]' if own else number}", "tag = 2 * digit + 1")
        self._take_part(text)
        with text.block(f"while part < {self.parts}:"):
            self._place(text)
            with text.loop("i", "thread", self.radix, "THREADS"):
                counts = f"marks[{len(self.digits)} + {self.radix} * ({len(self.digits)} * r + digit) + i]"
                text.line(f"begins[i] = {counts}", f"begins[{self.radix} + i] = 0")
            text.line("cuda.syncthreads()")
            with text.loop("i", "thread", "count", "THREADS"):
                text.line("j = first + i")
                self._read_words(text, source, "tile", "[i]")
                value = self._value(digit, f"tile{digit.word}[i]", self._of_word(number))
                text.line(f"cuda.atomic.add(begins, {self.radix} + {value}, 1)")
            text.line("cuda.syncthreads()")
            with text.loop("i", "thread", self.radix, "THREADS"):
                known = f"{self.tags} * begins[{self.radix} + i] + tag"
                text.line(f"cuda.atomic.exch(marks, {self._seen('part')}, {known})")
            self._sort_tile(text, digit, number)
            self._add_up(text, "begins", 2 * self.radix)
            self._look_back(text)
            with text.loop("place_of_tile", "thread", "count", "THREADS"):
                text.line("i = side + place_of_tile")
                value = self._value(digit, f"tile{digit.word}[i]", self._of_word(number))
                before = f"i64(begins[{self.radix} + value]) - {self.rows.length}"
                text.line(f"value = {value}", f"j = i64(begins[value]) + place_of_tile - ({before})")
                with text.block(*([f"if j < {self.sort.kept}:"] if target is None else [])):
                    self.put_down(text, target, "tile")
            text.line("cuda.syncthreads()")
            self._take_part(text)
        if target is not None:
            with text.block("if thread == 0 and cuda.blockIdx.x == 0:"):
                text.line("next_run[0] = digit + 1")
        elements = self.rows.count * self.rows.length
        name = "sort_digit_last" if target is None else "sort_digit" if own else "sort_digit_first"
        made = self.kernel(name, text, source, target, (self.parts, self.tile), elements, 0, self.given)
        return made._replace(nbytes=made.nbytes + 3 * self.mark.itemsize * self.radix * self.parts)

    def _seen(self, part: str) -> str:
        """Where it lies what is known of value i in a tile."""
        return f"{self.seen_at} + {self.radix} * ({part}) + i"

    def _of_word(self, number: int) -> str:
        """Which of its word's digits a pass's is."""
        first = number - self.digits[number].of_word
        return f"(digit - {first})" if first else "digit"

    def _value(self, digit: _Digit, word: str, of_word: str) -> str:
        """The value of a digit."""
        unsigned = cast(self.words[digit.word].dtype)
        shift = f"{self.words[digit.word].place_bits} + {machine_model.CUDA_RADIX_BITS} * {of_word}"
        return f"i64(({word} >> {unsigned}({shift})) & {unsigned}({(1 << digit.bits) - 1}))"

    def _take_part(self, text: KernelText) -> None:
        """The next tile for which there is no block yet."""
        with text.block("if thread == 0:"):
            text.line("ticket[0] = cuda.atomic.add(marks, digit, 1)")
        text.line("cuda.syncthreads()", "part = i64(ticket[0])", "cuda.syncthreads()")

    def _place(self, text: KernelText) -> None:
        """Tile `part`, of row r, from `first` on."""
        text.line(f"part = {in_32_bits('part', self.parts)}", f"r = part // {self.tiles}")
        text.line(f"first = {self.tile} * (part % {self.tiles})")
        text.line(f"count = min({self.tile}, {self.rows.length} - first)")

    def _read_words(self, text: KernelText, source: Runs | None, name: str, index: str) -> None:
        """The words of element j of row r."""
        if source is not None:
            text.line(*(f"{name}{k}{index} = words{k}[{self.rows.length} * r + j]" for k in range(len(self.words))))
            return
        self.read_keys(text)
        text.line(*(f"{name}{k}{index} = {word.text}" for k, word in enumerate(self.words)))

    def _look_back(self, text: KernelText) -> None:
        """How many elements with each value are in earlier tiles of the row; with them, where this tile's go."""
        with text.loop("i", "thread", self.radix, "THREADS"):
            text.line("before = 0", "back = part - 1")
            with text.block(f"while back >= {self.tiles} * r:"):
                seen = f"cuda.atomic.add(marks, {self._seen('back')}, 0)"
                text.line(f"seen = {in_32_bits(seen, self.tags * (self.rows.length + 1))}")
                text.line(f"tag_seen = seen % {self.tags}")
                with text.block("if tag_seen == tag or tag_seen == tag + 1:"):
                    text.line(f"before = before + seen // {self.tags}", "back = back - 1")
                with text.block("if tag_seen == tag + 1:"):
                    text.line("back = -1")
            text.line(f"own = count + {self.rows.length} - begins[{self.radix} + i]")
            with text.block(f"if i < {self.radix - 1}:"):
                text.line(f"own = begins[{self.radix} + i + 1] - begins[{self.radix} + i]")
            text.line(f"total = {self.tags} * (before + own) + tag + 1")
            text.line(f"cuda.atomic.exch(marks, {self._seen('part')}, total)", "begins[i] = begins[i] + before")
        text.line("cuda.syncthreads()")

    def _sort_tile(self, text: KernelText, digit: _Digit, number: int) -> None:
        """Sort the tile by a digit, a few bits of it at a time; `side`: where it lies then."""
        value = self._value(digit, f"tile{digit.word}[side + i]", self._of_word(number))
        counter = f"counter = (({value} >> low) & {self.split - 1}) * THREADS + thread"
        own = (f"{self.items} * thread", f"min({self.items} * thread + {self.items}, count)")
        text.line("side = 0")
        with text.loop("low", 0, digit.bits, machine_model.CUDA_RADIX_SPLIT_BITS):
            with text.loop("i", "thread", f"{self.split} * THREADS", "THREADS"):
                text.line("counters[i] = 0")
            text.line("cuda.syncthreads()")
            with text.loop("i", *own):
                text.line(counter, "counters[counter] = counters[counter] + 1")
            text.line("cuda.syncthreads()")
            self._add_up(text, "counters", self.split * self.threads)
            with text.loop("i", *own):
                text.line(counter, f"at = {self.tile} - side + counters[counter]")
                text.line("counters[counter] = counters[counter] + 1")
                text.line(*(f"tile{k}[at] = tile{k}[side + i]" for k in range(len(self.words))))
            text.line(f"side = {self.tile} - side", "cuda.syncthreads()")

    def _add_up(self, text: KernelText, array: str, size: int) -> None:
        """Each element of an array in shared memory becomes the sum of those before it."""
        own = -(-size // self.threads) | 1  # odd, as threads then use all banks
        bounds = (f"{own} * thread", f"min({own} * thread + {own}, {size})")
        text.line("own = 0")
        with text.loop("i", *bounds):
            text.line(f"own = own + {array}[i]")
        text.line("sums[thread] = own", "cuda.syncthreads()", "reach = 1")
        with text.block("while reach < THREADS:"):
            with text.block("if thread >= reach:"):
                text.line("own = own + sums[thread - reach]")
            text.line("cuda.syncthreads()", "sums[thread] = own", "cuda.syncthreads()", "reach = 2 * reach")
        text.line("own = 0")
        with text.block("if thread > 0:"):
            text.line("own = i64(sums[thread - 1])")
        with text.loop("i", *bounds):
            text.line(f"here = {array}[i]", f"{array}[i] = own", "own = own + here")
        text.line("cuda.syncthreads()")
