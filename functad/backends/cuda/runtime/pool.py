"""The pool of a device's memory: what is given back is used again, so that steps in a loop ask the driver for nothing.

Knows addresses and sizes, and who holds what; nothing of arrays. All work on a device is done in order, so memory can
be used again at once, though the device has not yet come to what used it before.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from functad import machine_model
from functad.errors import DeviceError, TooLargeError
from functad.records import NamedTuple


class NoMemoryError(Exception):
    """What `MemorySource.allocate` raises where there is none left."""


class MemorySource(Protocol):
    """What a pool takes memory from."""

    def allocate(self, nbytes: int) -> int: ...
    def release(self, address: int) -> None: ...
    def synchronize_all(self) -> None: ...


class PoolBlock:
    """A piece of memory that somebody holds; it goes back to its pool with the last reference to it."""

    __slots__ = ("_give_back", "address", "nbytes", "shared")

    def __init__(self, give_back: GiveBack, address: int, nbytes: int) -> None:
        self._give_back = give_back
        self.address = address
        self.nbytes = nbytes
        self.shared = False  # another library knows it, which works in an order of its own

    def __del__(self) -> None:
        try:
            self._give_back((self.address, self.nbytes, self.shared))  # from whichever thread, at any time
        except AttributeError:
            pass  # it was being made when a signal came


_new = object.__new__
GiveBack = Callable[[tuple[int, int, bool]], None]
Owner = tuple[str, str]  # what it is, and what made it


class Request(NamedTuple):
    """So many bytes, for somebody. size: of the piece that is taken for them."""

    nbytes: int
    owner: Owner
    size: int


def request(nbytes: int, what: str, by: str) -> Request:
    """what, by: named where memory runs out: such as a type, and the function whose result it is."""
    return Request(nbytes, (what, by), size_class(nbytes))


class MemoryPool:
    """Memory of a device, by sizes.

    Signal handlers and finalizers, which run between calls of a thread's own, may take memory, and raise: where a piece
    goes from one list to another, nothing is called.

    returned: what has come back since the last look, which the next one who takes memory sorts in.
    """

    def __init__(self, source: MemorySource, device: str, capacity: Callable[[], tuple[int, int]]) -> None:
        self._source = source
        self._device = device
        self._capacity = capacity
        self._lock = threading.RLock()
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._held: dict[int, Request] = {}
        self._in_use = 0  # bytes that are held
        self.returned: deque[tuple[int, int, bool]] = deque()
        self._give_back = self.returned.append
        self.peak = 0

    def take(self, nbytes: int, what: str, by: str) -> PoolBlock:
        """Memory of at least so many bytes; what, by: see `request`.

        Raises:
            TooLargeError: there is none left.
        """
        return self.take_all([request(nbytes, what, by)])[0]

    def take_all(self, requests: Sequence[Request]) -> list[PoolBlock]:
        """A piece of memory for each request.

        Raises:
            TooLargeError: there is none left.
        """
        blocks, held, give_back = [], self._held, self._give_back
        with self._lock:
            if self.returned:
                self._sort_in()
            for wanted in requests:
                block, size = _new(PoolBlock), wanted.size
                free = self._free[size]
                while not free:
                    self._add_fresh(wanted, free)
                address = free[-1]
                del free[-1]
                held[address] = wanted
                self._in_use += size
                block._give_back, block.address, block.nbytes, block.shared = give_back, address, size, False
                blocks.append(block)
            if self._in_use > self.peak:
                self.peak = self._in_use
            return blocks

    def trim(self) -> None:
        """Give the memory that nobody holds back to the driver."""
        with self._lock:
            self._sort_in()
            for addresses in list(self._free.values()):
                while addresses:
                    address = addresses[-1]
                    del addresses[-1]
                    try:
                        self._source.release(address)
                    except DeviceError:
                        addresses += (address,)
                        raise
            self._source.synchronize_all()  # only then the driver has it back

    def statistics(self) -> dict[str, int]:
        """JAX's names for how many bytes are held, could be held, were held at most, and wait to be used again."""
        with self._lock:
            self._sort_in()
            used = self._in_use
            waiting = sum(size * len(addresses) for size, addresses in self._free.items())
            return {
                "bytes_in_use": used,
                "peak_bytes_in_use": self.peak,
                "bytes_reserved": used + waiting,
                "bytes_limit": self._capacity()[1],
                "num_allocs": len(self._held),
            }

    def _sort_in(self) -> None:
        while self.returned:
            piece = self.returned[0]
            address, size, shared = piece
            if shared:
                self._source.synchronize_all()  # if that fails, it waits for the next look
                if not self.returned or self.returned[0] is not piece:
                    continue
            free = self._free[size]
            del self.returned[0], self._held[address]
            self._in_use -= size
            free += (address,)

    def _add_fresh(self, wanted: Request, free: list[int]) -> None:
        """
        Raises:
            TooLargeError: there is none left.
        """
        try:
            free += (self._source.allocate(wanted.size),)
        except NoMemoryError:
            self.trim()
            try:
                free += (self._source.allocate(wanted.size),)
            except NoMemoryError:
                raise TooLargeError(self._explained(wanted.nbytes, *wanted.owner)) from None

    def _explained(self, nbytes: int, what: str, by: str) -> str:
        free, total = self._capacity()
        groups: dict[Owner, list[int]] = {}
        for held in self._held.values():
            groups.setdefault(held.owner, []).append(held.size)
        largest = sorted(groups.items(), key=lambda item: -sum(item[1]))[:_SHOWN]
        lines = [f"  {_readable(sum(sizes))}: {len(sizes)} × {what_}, {by_}" for (what_, by_), sizes in largest]
        if len(groups) > _SHOWN:
            rest = sum(sum(sizes) for sizes in groups.values()) - sum(sum(sizes) for _, sizes in largest)
            lines.append(f"  {_readable(rest)}: others")
        return (
            f"{self._device} has no memory left for {_readable(nbytes)} ({what}, {by}). Of its {_readable(total)}, "
            f"{_readable(free)} are free for one more piece, and functad holds {_readable(self._in_use)}:\n"
            + "\n".join(lines or ["  nothing"])
            + "\nDelete arrays that are not needed, donate those that a jitted function replaces (donate_argnums), "
            "make batches smaller, or keep residuals from being stored with functad.checkpoint"
        )


_SHOWN = 8


def size_class(nbytes: int) -> int:
    """The size of the piece that is taken for so many bytes: sizes close to each other share pieces.

    >>> size_class(1), size_class(5000), size_class(3_000_000)
    (512, 5120, 3145728)
    """
    step = machine_model.CUDA_POOL_BYTES
    while step * machine_model.CUDA_POOL_STEPS < nbytes:
        step *= 2
    return max(-(-nbytes // step), 1) * step


def _readable(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} bytes"
