"""Steps that the threads of a grid, or its blocks, share: each does one, and then every so many-th, as text.

Knows text; neither nests nor memory. The loops are no ranges of Python's: for those Numba counts steps first, by a
division of 64 bits, and where indices are divided, it does not know that they are small and not negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functad.primitives.loops.kernel_text import KernelText
from functad.records import NamedTuple


class SharedSteps(NamedTuple):
    """The loop over steps, of which the first one of a thread, or block, is `first`, and the next ones `every` apart.

    count: of all steps. most: a number that it is not above.
    """

    name: str
    first: str
    every: str
    count: str
    most: int

    @property
    def begin(self) -> tuple[str, str]:
        """The lines before what a step does.

        >>> print(*of_blocks("row", 300).begin, sep=chr(10))
        row = i64(u32(cuda.blockIdx.x))
        while row < 300:
        """
        return f"{self.name} = {in_32_bits(self.first, self.most)}", f"while {self.name} < {self.count}:"

    @property
    def end(self) -> str:
        """The line after it, at the same depth.

        >>> of_blocks("row", 300).end
        'row = i64(u32(row + cuda.gridDim.x))'
        """
        return f"{self.name} = {in_32_bits(f'{self.name} + {self.every}', self.most)}"

    @property
    def one(self) -> tuple[str, str]:
        """The lines before, where none has a second step."""
        return self.begin[0], f"if {self.name} < {self.count}:"

    @contextmanager
    def within(self, text: KernelText) -> Iterator[None]:
        """The loop, around what is written inside."""
        first, head = self.begin
        text.line(first)
        with text.block(head):
            yield
            text.line(self.end)


def of_threads(name: str, count: int) -> SharedSteps:
    """Steps that all threads of the grid share."""
    return SharedSteps(name, "cuda.grid(1)", "cuda.gridsize(1)", str(count), count)


def of_blocks(name: str, count: int | str, most: int = 0) -> SharedSteps:
    """Steps that blocks share, each of which is done by all threads of one. most: of a count that is computed."""
    return SharedSteps(name, "cuda.blockIdx.x", "cuda.gridDim.x", str(count), most if isinstance(count, str) else count)


def in_32_bits(number: str, most: int = 0) -> str:
    """The text of a number that is not negative, so that the compiler knows that it has 32 bits, if there is no more.

    >>> in_32_bits("block", 300), in_32_bits("block", 1 << 40)
    ('i64(u32(block))', 'i64(block)')
    """
    return f"i64(u32({number}))" if most <= _MOST else f"i64({number})"


_MOST = 1 << 31  # of steps: one more of each thread has 32 bits, too
