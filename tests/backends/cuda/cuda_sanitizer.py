"""`python cuda_sanitizer.py [NAME…]`: the checks of `cuda_simulated.py`, where kernels are looked after as they run.

For a process with NUMBA_ENABLE_CUDASIM=1. It finds races, words that are read before they are written, accesses outside
of arrays, barriers that not all threads reach, vectors that are not aligned, and results that depend on the order of
blocks or threads. Stands for the simulator's driver; how threads run is known by `cuda_interleaving`.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cuda_interleaving import OrderedRuns
from cuda_shadow_memory import KernelFault, RecordedArray, ShadowMemory

from functad.backends.cuda import launches
from functad.backends.cuda.runtime import simulated_driver
from functad.backends.cuda.runtime.launching import ArrayPlace, Launch, LaunchNode
from functad.backends.cuda.runtime.pool import MemoryPool, PoolBlock, Request
from functad.backends.cuda.runtime.simulated_driver import SimulatedDriver, SimulatedRun
from functad.backends.cuda.scalars import registry, words

BLOCKS = 5  # an odd number, so that several blocks have parts of one result


class CheckedDriver(SimulatedDriver):
    """A simulated GPU that knows which bytes of its memory have been written."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._known: dict[int, np.ndarray] = {}

    def allocate(self, nbytes: int) -> int:
        address = super().allocate(nbytes)
        self._known[address] = np.zeros(nbytes, np.bool_)
        return address

    def release(self, address: int) -> None:
        super().release(address)
        del self._known[address]

    def known(self, address: int, nbytes: int) -> np.ndarray | None:
        """Of bytes whether they have been written, to be changed; None of memory that is somebody else's."""
        for begin, flags in self._known.items():
            if begin <= address and address + nbytes <= begin + len(flags):
                return flags[address - begin : address - begin + nbytes]
        return None

    def has_given(self, address: int, nbytes: int) -> None:
        """Whoever gets memory of the pool knows nothing of what lies there."""
        if (flags := self.known(address, nbytes)) is not None:
            flags[:] = False

    def upload(self, address: int, array: np.ndarray) -> None:
        super().upload(address, array)
        if (flags := self.known(address, array.nbytes)) is not None:
            flags[:] = True

    def download(self, array: np.ndarray, address: int) -> None:
        flags = self.known(address, array.nbytes)
        if flags is not None and not flags.all():
            raise KernelFault(f"{(~flags).sum()} of {len(flags)} bytes are read back that no kernel has written")
        super().download(array, address)

    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        super().copy(target, source, nbytes, stream)
        to, of = self.known(target, nbytes), self.known(source, nbytes)
        if to is not None:
            to[:] = True if of is None else of

    def prepare(self, name: str, nodes: Sequence[LaunchNode]) -> SimulatedRun:
        return CheckedRun(self, nodes)


class CheckedRun(SimulatedRun):
    """Launches that are looked after."""

    def __init__(self, driver: CheckedDriver, nodes: Sequence[LaunchNode]) -> None:
        super().__init__(nodes)
        self._driver = driver

    def start_one(self, number: int, bases: Sequence[int], stream: int | None = None) -> None:
        node = self._nodes[number]
        launch = node.launch
        assert isinstance(launch, Launch)
        function = launch.kernel.function
        at = [node.begin(a.slot, bases) + a.offset if isinstance(a, ArrayPlace) else None for a in launch.arguments]
        names = function.__code__.co_varnames

        def arguments(shadow: ShadowMemory) -> list[Any]:
            return [
                self._array(shadow, name, a, address) if isinstance(a, ArrayPlace) and address is not None else a
                for name, a, address in zip(names, launch.arguments, at)
            ]

        memories = [
            m for a, address in zip(launch.arguments, at) if isinstance(a, ArrayPlace) and a.size
            for m in self._memories(a, address or 0)
        ]  # fmt: skip
        _check_words(
            [(address, a) for a, address in zip(launch.arguments, at) if address and isinstance(a, ArrayPlace)]
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            OrderedRuns(function, (launch.blocks, 1, 1), (launch.threads, 1, 1), arguments, memories).check()

    def _memories(self, a: ArrayPlace, address: int) -> list[np.ndarray]:
        nbytes = a.size * a.dtype.itemsize
        known = self._driver.known(address, nbytes)
        return [_bytes(address, nbytes), *([] if known is None else [known])]

    def _array(self, shadow: ShadowMemory, name: str, a: ArrayPlace, address: int) -> RecordedArray:
        size, itemsize = a.size, a.dtype.itemsize
        if not size:
            return RecordedArray(shadow, name, np.empty(0, a.dtype), range(0), None)
        known = self._driver.known(address, size * itemsize)
        places = range(address, address + size * itemsize, itemsize)
        view = _bytes(address, size * itemsize).view(a.dtype)
        return RecordedArray(shadow, name, view, places, None if known is None else known.reshape(-1, itemsize))


def _bytes(address: int, nbytes: int) -> np.ndarray:
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memory, np.uint8)


def _check_words(arrays: Sequence[tuple[int, ArrayPlace]]) -> None:
    """Raise if arrays of elements of different sizes lie on each other: words are elements here."""
    for address, a in arrays:
        for other, b in arrays:
            beside = address + a.size * a.dtype.itemsize <= other or other + b.size * b.dtype.itemsize <= address
            assert beside or a.dtype.itemsize == b.dtype.itemsize and (address - other) % a.dtype.itemsize == 0


# --- vectors --------------------------------------------------------------------------------------------


def aligned(word: Callable[..., Any]) -> Callable[..., Any]:
    """A word that takes vectors, after a look at their addresses; those of products take vectors of floats alone."""
    places, of_products = VECTORS[word.__name__], word.__name__ in words.WORDS

    def checked(array: Any, *operands: Any) -> Any:
        width, firsts = places(*operands)
        is_vector = width > 1 and (not of_products or array.dtype.kind == "f" or array.dtype == np.uint16)
        for first in firsts if is_vector and isinstance(array, RecordedArray) else ():
            array.check_vector(first, words.vector_alignment(width, array.dtype.itemsize))
        return word(array, *operands)

    return checked


# Of each word how many elements its vectors have, and at which elements these begin.
VECTORS: dict[str, Callable[..., tuple[int, Sequence[int]]]] = {
    "load4": lambda first: (words.WIDTH, [first]),
    "store4": lambda first, *_: (words.WIDTH, [first]),
    "loads": lambda count, width, base, line, step, last, row: (
        width, [base + min(line + k * step, last) * row for k in range(count)]
    ),
    "stores": lambda width, to, step, values, *_: (
        width if width == words.TERMS else 1, [to + k * step for k in range(len(values) // width)]
    ),
    "along": lambda count, at, apart: (words.TERMS, [at + r * apart for r in range(count)]),
    "across": lambda count, at, apart, stride: (
        min(count, words.TERMS),
        [at + k * stride + r // words.TERMS * apart for r in range(0, count, words.TERMS) for k in range(words.TERMS)],
    ),
}  # fmt: skip


def install() -> None:
    """From now on, kernels of this process are looked after."""
    simulated_driver.SimulatedDriver = CheckedDriver  # type: ignore[misc]
    launches.BLOCKS_OF_CORE = BLOCKS
    usual = MemoryPool.take_all

    def take_all(pool: MemoryPool, requests: Sequence[Request]) -> list[PoolBlock]:
        blocks = usual(pool, requests)
        for block in blocks:
            pool._source.has_given(block.address, block.nbytes)  # type: ignore[attr-defined]
        return blocks

    MemoryPool.take_all = take_all  # type: ignore[method-assign]
    for name in VECTORS:
        setattr(registry, name, aligned(registry.INTRINSICS[name]))


if __name__ == "__main__":
    install()
    from cuda_simulated import main

    main((line.rstrip("\n") for line in sys.stdin) if sys.argv[1:] == ["-"] else sys.argv[1:])
