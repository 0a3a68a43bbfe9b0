"""Buffers: the pieces of memory that kernels read and write. Knows no addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


class Storage:
    """A piece of memory: an input, an output, a constant, or a part of the arena.

    kind: "input", "output", "const", "arena", "blas" (the address of a matrix product, of LAPACK, of a sort),
        "token" (by which a kernel learns that it shall stop), "tickets" (by which blocks of a device learn that they
        are the last), "pointer" (the program moves it over other memory), "stack" (grows while the program runs), or
        "same" (that of another storage, `origin`).
    number: which input, output or constant it is.
    whole, start: of a part of other memory in the arena, that memory, and how many bytes behind its start it begins.
    """

    __slots__ = ("kind", "name", "nbytes", "number", "origin", "start", "whole")

    def __init__(self, name: str, nbytes: int, kind: str, number: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self.kind = kind
        self.number = number
        self.origin: Storage | None = None
        self.whole: Storage | None = None
        self.start = 0

    def part(self, name: str, start: int, nbytes: int) -> Storage:
        """A part of this memory, which may overlap with others."""
        part = Storage(name, nbytes, self.kind, -1)
        part.whole, part.start = self, start
        return part

    @property
    def is_data(self) -> bool:
        """Whether it holds values of the Program."""
        return self.kind not in ("blas", "token")

    @property
    def memory(self) -> Storage:
        """The storage itself, or the one whose memory this is."""
        return self if self.origin is None else self.origin.memory

    def __repr__(self) -> str:
        return f"Storage({self.name}: {self.nbytes} bytes, {self.kind})"


class Buffer:
    """A C-contiguous array that kernels use, in a storage that it may share with others of other shapes."""

    __slots__ = ("dtype", "shape", "size", "storage")

    def __init__(self, storage: Storage, shape: Sequence[int], dtype: np.dtype) -> None:
        self.storage = storage
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.size = math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def name(self) -> str:
        return self.storage.name

    def view(self, shape: Sequence[int]) -> Buffer:
        """The same memory under another shape of the same size."""
        return self if tuple(shape) == self.shape else Buffer(self.storage, shape, self.dtype)

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype.name}{list(self.shape)} {self.storage.kind})"


def new_buffer(name: str, shape: Sequence[int], dtype: np.dtype, kind: str = "arena", number: int = -1) -> Buffer:
    """A buffer with a storage of its own."""
    nbytes = math.prod(shape) * np.dtype(dtype).itemsize
    return Buffer(Storage(name, nbytes, kind, number), shape, dtype)
