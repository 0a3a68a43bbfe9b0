"""What a Program has become, as plain data that can be kept on disk: a tape that names its kernels, and its memory.

Knows how addresses are put in the place of names; nothing of Programs, schedules, or of how kernels are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.backends.cpu.products.gemm import Matrix, gemm_instruction
from functad.backends.cpu.runtime.calls import PythonCall
from functad.backends.cpu.runtime.tape import Repeat, TapeBlock, TapeEntry, TapeInstruction, Words, runtime
from functad.records import NamedTuple

FreshArrays = Sequence[tuple[tuple[int, ...], np.dtype]]
ResultPlaces = Sequence[tuple[int, tuple[int, ...] | None]]


class KernelCall(NamedTuple):
    """A call of a kernel by its name; the rest as in `TapeInstruction`."""

    function: str
    params: Words
    scale: int
    blas: bool
    work: float
    base: int


class ProductCall(NamedTuple):
    """A matrix product, described as for `gemm_instruction`: who computes it, each process finds out anew."""

    dtype: np.dtype
    a: Matrix
    b: Matrix
    c: Matrix
    sizes: dict[str, Any]
    split: str
    token: int
    scale: int = 1

    def instruction(self) -> TapeInstruction:
        """Who computes it is loaded, and compiled if it never was."""
        made = gemm_instruction(self.dtype, self.a, self.b, self.c, split=self.split, token=self.token, **self.sizes)
        return made._replace(scale=self.scale)


class Plan(NamedTuple):
    """All that a process needs to run a Program, besides the machine code of its kernels.

    name: of the Program. kernels: the key of the machine code of each kernel, by the name of its function.
    entries: the tape, on which kernels stand by name. release_gil, token: of the tape.
    fresh: shape and dtype of the arrays to be made for a call. results: for each result the number of the array, and
    its shape where that is not the array's. arrays: how many of the first slots hold the arrays of a call.
    slots: how many there are. arena: the slots of temporaries, and where in the arena they lie. constants: slots and
    what lies there. handles: slots of the handles of products, and their names. stacks: the slots of memory that grows.
    """

    name: str
    kernels: dict[str, str]
    entries: Sequence[TapeEntry]
    release_gil: bool
    token: int
    fresh: FreshArrays
    results: ResultPlaces
    arrays: int
    slots: int
    arena: Sequence[tuple[int, int]]
    arena_bytes: int
    constants: Sequence[tuple[int, np.ndarray]]
    handles: Sequence[tuple[int, str]]
    stacks: Sequence[int]


def prepare_tape(entries: Iterable[TapeEntry]) -> None:
    """Load what `with_addresses` needs besides kernels: the runtime, and who computes products."""
    runtime()
    for entry in entries:
        block = entry.block if isinstance(entry, Repeat) else entry
        for one in block.instructions if isinstance(block, TapeBlock) else ():
            if isinstance(one, ProductCall):
                one.instruction()


def with_addresses(entries: Iterable[TapeEntry], addresses: Mapping[str, int]) -> list[TapeEntry]:
    """The entries with the addresses of kernels and products in the place of their names."""

    def instruction(one: Any) -> TapeInstruction:
        if isinstance(one, KernelCall):
            return TapeInstruction(addresses[one.function], *one[1:])
        if isinstance(one, ProductCall):
            return one.instruction()
        if isinstance(one, PythonCall):
            return one.instruction()
        assert isinstance(one, TapeInstruction)
        return one

    def block(one: TapeBlock) -> TapeBlock:
        return one._replace(instructions=[instruction(i) for i in one.instructions])

    found: list[TapeEntry] = []
    for entry in entries:
        if isinstance(entry, TapeBlock):
            found.append(block(entry))
        else:
            found.append(entry._replace(block=block(entry.block)) if isinstance(entry, Repeat) else entry)
    return found
