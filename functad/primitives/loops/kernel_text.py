"""Writes the text of kernels: indented lines, loops, and sums of products as indices.

It must not know what the kernels compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class KernelText:
    """Lines of a kernel; `with text.loop("i", 3):` indents what is written inside."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    def open(self, head: str) -> None:
        """Start a block that ends with the block around it."""
        self.line(head)
        self._depth += 1

    @property
    def depth(self) -> int:
        return self._depth

    def close(self, depth: int) -> None:
        """End the blocks opened since the text was so deep."""
        self._depth = depth

    @contextmanager
    def block(self, *heads: str) -> Iterator[None]:
        """Blocks, one within the other; without a head the lines stay at their depth."""
        depth = self._depth
        for head in heads:
            self.open(head)
        yield
        self._depth = depth

    @contextmanager
    def loop(self, name: str, *bounds: int | str) -> Iterator[None]:
        """`for name in range(*bounds)`."""
        with self.block(f"for {name} in range({', '.join(map(str, bounds))}):"):
            yield

    def __str__(self) -> str:
        return "\n".join(self._lines)


def total(*terms: str | int | tuple[str | int, int]) -> str:
    """The text of a sum; a term `(name, factor)` is a product, and zeros are left out."""
    constant, parts = 0, []
    for term in terms:
        name, factor = term if isinstance(term, tuple) else (term, 1)
        if isinstance(name, int):
            constant += name * factor
        elif factor == 1:
            parts.append(name)
        elif factor:
            parts.append(f"{_factor(name)} * {factor}")
    text = " + ".join(parts)
    if constant or not parts:
        text += f" {'-' if constant < 0 else '+'} {abs(constant)}" if parts else str(constant)
    return text


def write_index(text: KernelText, number: str, sizes: Sequence[tuple[str, int]]) -> None:
    """Assign to each name its share of a row-major number, for a GPU: divisions of 32 bits take a fraction of the time.

    The first one is as large as the number makes it.
    """
    step = math.prod(size for _, size in sizes)
    is_small, is_first = step < 1 << 31, True
    for name, size in sizes:
        step //= size
        if size == 1:
            text.line(f"{name} = i64(0)")
            continue
        as_kind = "u32({})".format if is_small else "({})".format
        share = as_kind(number)
        share += f" // {as_kind(step)}" if step > 1 else ""
        share += "" if is_first else f" % {as_kind(size)}"
        text.line(f"{name} = i64({share})")
        is_first = False


def _factor(name: str) -> str:
    return name if name.isidentifier() else f"({name})"


def matrix_kernel(
    target: Any,
    name: str,
    text: KernelText,
    buffers: dict[str, tuple[Any, str]],
    count: int,
    flops: int,
    handles: Mapping[str, tuple[Any, str]] | None = None,
) -> None:
    """Give a target a kernel that takes matrices one by one. flops: of one. handles: the routines that it calls."""
    moved = sum(buffer.nbytes for buffer, _ in buffers.values())
    reads = tuple(name for name, (_, mode) in buffers.items() if mode == "r")
    operands = {**(handles or {}), **buffers}
    target.kernel(name, str(text), operands, count, flops=flops * count, bytes=moved, rows=True, row_reads=reads)
