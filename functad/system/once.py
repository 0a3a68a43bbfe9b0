"""Work that several threads ask for at the same time is done by one of them; and no fork comes in the midst of work.

Knows keys, and functions that find and make values; not what they are. A thread never waits for one that waits for it:
then it does the work itself, as it does if the first one fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


# What a fork waits for, in the order in which threads take it. Otherwise a child might find it taken by a thread that
# it does not have, and what it guards half done.
_held: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
_taken: list[Callable[[], Any]] = []


def hold_over_forks(take: Callable[[], Any], give_back: Callable[[], Any], *, inner: bool = False) -> None:
    """Take something before each fork, and give it back after it, in parent and child.

    inner: whether threads take it while they have what was registered before; else that while they have this.
    """
    _held.insert(len(_held) if inner else 0, (take, give_back))


def _before_fork() -> None:
    for take, give_back in list(_held):
        take()
        _taken.append(give_back)


def _give_back() -> None:
    while _taken:
        _taken.pop()()


# Taken by whoever imports or compiles. A thread may take it several times; and before Numba's lock and those of other
# compilers, never while it has one of them, as what they run may import.
unforked = threading.RLock()
hold_over_forks(unforked.acquire, unforked.release)


def imported(name: str) -> Any:
    """A module, which is imported at its first use: a child would else wait for ever for a thread that it has not."""
    with unforked:
        return import_module(name)


class _Making:
    """What a thread makes just now."""

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.done = threading.Event()


_lock = threading.RLock()  # of the next two
_under_way: dict[Hashable, _Making] = {}
_waits: dict[int, _Making] = {}  # for what each waiting thread waits


class Turn:
    """`with Turn(key, find) as found`: what `find` gives; None if it is this thread's turn to make it, in the block.

    From then on `find` must give it. What is made in the block lies as deep in Python's stack as what is around it.
    """

    def __init__(self, key: Hashable, find: Callable[[], T | None]) -> None:
        self._key = key
        self._find: Callable[[], Any] = find
        self._mine = _Making(threading.get_ident())

    def __enter__(self) -> Any:
        try:
            return self._found()
        except BaseException:
            self._end()
            raise

    def __exit__(self, *error: Any) -> None:
        self._end()

    def _found(self) -> Any:
        mine = self._mine
        while True:
            found = self._find()
            if found is not None:
                return found
            with _lock:
                work = _under_way.setdefault(self._key, mine)
                if work is not mine and not _waits_for(work.owner, mine.owner):
                    _waits[mine.owner] = work
            if mine.owner not in _waits:
                # Another thread may have been ready between the look and the claim.
                return self._find()
            try:
                work.done.wait()
            finally:
                _waits.pop(mine.owner)

    def _end(self) -> None:
        with _lock:
            if _under_way.get(self._key) is self._mine:
                del _under_way[self._key]
        self._mine.done.set()


def once(key: Hashable, find: Callable[[], T | None], make: Callable[[], T]) -> T:
    """What `find` gives, or else what `make` makes, so that `find` gives it from then on.

    >>> known = {}
    >>> once("two", lambda: known.get("two"), lambda: known.setdefault("two", 1 + 1))
    2
    >>> once("two", lambda: known.get("two"), lambda: 1 / 0)
    2
    """
    with Turn(key, find) as found:
        return make() if found is None else found


def _waits_for(thread: int, me: int) -> bool:
    """Whether a thread is this one, or waits, through others perhaps, for this one."""
    while thread != me:
        work = _waits.get(thread)
        if work is None:
            return False
        thread = work.owner
    return True


def _after_fork() -> None:
    # The other threads, and what they had under way, are gone.
    global _lock
    _lock = threading.RLock()
    me = threading.get_ident()
    _waits.clear()
    for key in [key for key, work in _under_way.items() if work.owner != me]:
        del _under_way[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_give_back, after_in_child=_give_back)
    os.register_at_fork(after_in_child=_after_fork)
