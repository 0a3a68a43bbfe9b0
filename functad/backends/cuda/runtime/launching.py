"""Kernels and products, and starts of them with their arguments: what the executable of a Program hands to a driver.

Knows where arguments lie among the memories of a call; no compiler, no device and no addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import FunctionType

import numpy as np

from functad.records import NamedTuple


class ArrayPlace(NamedTuple):
    """An array among the memories of a call.

    slot: which memory. offset: its first byte there. dtype, size: of its elements, as kernels take them.
    """

    slot: int
    offset: int
    dtype: np.dtype
    size: int


LaunchNumber = np.generic | int | float | complex


class Kernel:
    """A kernel as a Python function.

    name: for people. fused: whether a product may be added without being rounded first. text: that, and all that the
    function says and closes over, but names of its own; equal texts are equal kernels.
    """

    def __init__(self, name: str, function: FunctionType, fused: bool = True) -> None:
        self.name = name
        self.fused = fused
        self.function = function
        self.text = f"{fused} {_text_of(function)}"


def _text_of(function: FunctionType) -> str:
    code = function.__code__
    cells = [repr(cell.cell_contents) for cell in function.__closure__ or ()]
    known = [f"{n}={function.__globals__[n]!r}" for n in code.co_names if type(function.__globals__.get(n)) is int]
    return repr((code.co_code, code.co_consts, code.co_names, cells, known))


class Launch(NamedTuple):
    """One start of a kernel, by so many blocks of so many threads."""

    kernel: Kernel
    blocks: int
    threads: int
    arguments: tuple[ArrayPlace | LaunchNumber, ...]

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """Of each argument whether it is an array, and its dtype: with the kernel, what machine code depends on."""
        return tuple(
            [("array" if isinstance(a, ArrayPlace) else "number", argument_dtype(a).name) for a in self.arguments]
        )


class LibraryProduct(NamedTuple):
    """A start of a library's product `c = beta · c + alpha · a · b` of row-major matrices, `batch` times.

    a_row, b_row, c_row: elements from one row to the next as it lies in memory, where operands may be transposed.
    precision: JAX's word for how exact a product of float32 is to be, or None.
    """

    name: str
    a: ArrayPlace
    b: ArrayPlace
    c: ArrayPlace
    a_transposed: bool
    b_transposed: bool
    rows: int
    columns: int
    terms: int
    a_row: int
    b_row: int
    c_row: int
    batch: int
    a_batch: int
    b_batch: int
    c_batch: int
    alpha: float
    beta: float
    precision: str | None = None


def argument_dtype(argument: ArrayPlace | LaunchNumber) -> np.dtype:
    """The dtype of an argument; Python's numbers have 64 bits."""
    return argument.dtype if isinstance(argument, (ArrayPlace, np.generic)) else np.asarray(argument).dtype


class LaunchNode(NamedTuple):
    """A start among those of a plan.

    launch: what is started. places: of each of its memories the number of the base in which it lies, and how many bytes
    behind its begin; None for a base whose address is known, which is the second number then.
    after: the numbers of earlier nodes that must be done. lane: in which memory of its own a library's product works.
    """

    launch: Launch | LibraryProduct
    places: tuple[tuple[int | None, int], ...]
    after: tuple[int, ...] = ()
    lane: int = 0

    def begin(self, slot: int, bases: Sequence[int]) -> int:
        """Where a memory of the launch lies; bases: the addresses of all."""
        base, offset = self.places[slot]
        return offset if base is None else bases[base] + offset


class PackedLaunch:
    """A kernel's start with its arguments packed as the driver takes them: a call only writes addresses.

    Numba's kernels take an array as seven words: two of no meaning here, how many elements, bytes of each, address,
    shape, stride; and a complex number as two numbers.

    words: all arguments, one after the other. pointers: to each word.
    """

    def __init__(self, node: LaunchNode) -> None:
        assert isinstance(node.launch, Launch)
        words: list[int] = []
        self._places: list[tuple[int, int, int]] = []  # which word is an address, of which base, behind how many bytes
        for argument in node.launch.arguments:
            if isinstance(argument, ArrayPlace):
                base, begin = node.places[argument.slot]
                offset, itemsize = begin + argument.offset, argument.dtype.itemsize
                if base is not None:
                    self._places.append((len(words) + 4, base, offset))
                words += [0, 0, argument.size, itemsize, 0 if base is not None else offset, argument.size, itemsize]
            else:
                words += _words_of(argument)
        self.words = (ctypes.c_uint64 * len(words))(*words)
        first = ctypes.addressof(self.words)
        self.pointers = (ctypes.c_void_p * len(words))(*range(first, first + 8 * len(words), 8))

    def place(self, bases: Sequence[int]) -> None:
        """Write where the bases lie."""
        words = self.words
        for at, base, offset in self._places:
            words[at] = bases[base] + offset


def _words_of(number: LaunchNumber) -> list[int]:
    """A number as words, of which the driver reads as many bytes as the kernel takes."""
    value = np.asarray(number)
    parts = [value.real, value.imag] if value.dtype.kind == "c" else [value]
    return [int.from_bytes(part.tobytes().ljust(8, b"\0"), "little") for part in parts]
