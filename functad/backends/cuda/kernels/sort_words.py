"""What a sort on CUDA moves: words of the keys and the position of an element, and how they are read and put down.

Knows what is sorted and where it lies; not how it is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.backends.cuda.kernels.emit import CudaKernel
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.text_kernels import in_vocabulary
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.printing import Parameter
from functad.lowering.steps import SortStep
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.sort_keys import RowSort
from functad.primitives.loops.text import cast
from functad.records import NamedTuple


class SortKernel(NamedTuple):
    """One kernel of a sort, how many comparisons it makes, and how many bytes it moves."""

    name: str
    kernel: CudaKernel
    flops: float
    nbytes: float


class SortWord(NamedTuple):
    """Unsigned integers that elements are compared by. text: that of the element number j, of an operand's `at_x`.

    bits: how many of them are used, from the lowest on. place_bits: how many of these are the position.
    """

    dtype: np.dtype
    text: str
    bits: int
    place_bits: int


class Runs(NamedTuple):
    """Words of rows in global memory, and a number: how long sorted runs of them are, or by how many digits."""

    words: list[Buffer]
    number: Buffer


def packed(sort: RowSort) -> list[SortWord]:
    """The keys and the position of an element, from the highest bits down, in as few words as hold them."""
    fields = [(key.text.format(f"at_{key.pointer}"), 8 * key.word.itemsize) for key in sort.keys]
    place_bits = sort.rows.length.bit_length()
    groups: list[list[tuple[str, int]]] = [[]]
    for text, bits in [*fields, ("j", place_bits)]:
        if sum(b for _, b in groups[-1]) + bits > 64:
            groups.append([])
        groups[-1].append((text, bits))
    words = []
    for group in groups:
        left = used = sum(bits for _, bits in group)
        dtype = np.dtype(np.uint32 if left <= 32 else np.uint64)
        unsigned, parts = cast(dtype), []
        for text, bits in group:
            left -= bits
            parts.append(f"({unsigned}({text}) << {unsigned}({left}))" if left else f"{unsigned}({text})")
        words.append(SortWord(dtype, f"{unsigned}({' | '.join(parts)})", used, 0))
    words[-1] = words[-1]._replace(place_bits=place_bits)
    return words


class SortWriter:
    """What writers of sorts have in common. element: bytes of an element's words."""

    def __init__(self, step: SortStep) -> None:
        self.step, self.sort, self.rows = step, step.sort, step.sort.rows
        self.words = packed(self.sort)
        self.element = sum(word.dtype.itemsize for word in self.words)

    def runs(self) -> Runs:
        shape, name = (self.rows.count, self.rows.length), self.step.name
        words = [new_buffer(f"words_{name}", shape, word.dtype) for word in self.words]
        return Runs(words, new_buffer(f"run_{name}", (1,), np.dtype(np.int64)))

    def read_keys(self, text: KernelText) -> None:
        """What the words of element j of row r are made of."""
        text.line(f"base = {self.rows.base(self.rows.length)}")
        for x in dict.fromkeys(key.pointer for key in self.sort.keys):
            text.line(f"at_{x} = {x}[{self.rows.at('base', 'j')}]")

    def put_down(self, text: KernelText, target: Runs | None, array: str) -> None:
        """Write the element at i of an array in shared memory to place j of row r: its words, or in the end itself."""
        rows, last = self.rows, len(self.words) - 1
        if target is not None:
            text.line(*(f"next_words{k}[{rows.length} * r + j] = {array}{k}[i]" for k in range(last + 1)))
            return
        unsigned, mask = cast(self.words[last].dtype), (1 << rows.length.bit_length()) - 1
        text.line(f"place = i64({array}{last}[i] & {unsigned}({mask}))")
        text.line(f"base = {rows.base(rows.length)}", f"to = {rows.base(self.sort.kept)}")
        at = {"to": rows.at("to", "j"), "at": rows.at("base", "place"), "place": "place"}
        text.line(*(move.format(**at) for move in self.sort.moves))

    def kernel(
        self, name: str, text: KernelText, source: Runs | None, target: Runs | None, mapping: tuple[int, int],
        elements: int, comparisons: float, more: Sequence[Parameter] = (),
    ) -> SortKernel:  # fmt: skip
        """A kernel that reads from runs, or the operands, and writes to runs, or the results.

        mapping: how many blocks have work, and how many steps their threads share. more: parameters of its own.
        """
        given: list[Parameter] = [p for p in self.step.parameters if f"{p[0]}[" in str(text)]
        nbytes = sum(b.dtype.itemsize for _, b, _ in given) * elements
        for runs, prefix, mode in ((source, "", "r"), (target, "next_", "w")):
            if runs is not None:
                given += [(f"{prefix}words{k}", word, mode) for k, word in enumerate(runs.words)]
                given += [(f"{prefix}run", runs.number, mode)] if f"{prefix}run[" in str(text) else []
                nbytes += self.element * elements
        given += more
        blocks, steps = mapping
        made = LoopMapping(block=(MappedLoop("part", blocks),), thread=(MappedLoop("i", steps),))
        body = in_vocabulary(f"{text}\n", given)
        return SortKernel(name, CudaKernel(body, tuple(given), made), comparisons * elements, float(nbytes))
