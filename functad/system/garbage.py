"""Python's search for garbage, which waits while much is made that stays: modules, and what a compiler works on.

Knows nothing of either.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _PausedSearches:
    """How many blocks of all threads want no search now, and whether there are searches without them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._enabled = True

    def begin(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._enabled = gc.isenabled()
                gc.disable()
            self._blocks += 1

    def end(self) -> None:
        with self._lock:
            self._blocks = max(self._blocks - 1, 0)
            if self._blocks == 0 and self._enabled:
                gc.enable()

    def after_fork_in_child(self) -> None:
        """Its other threads are gone, and will not end their blocks."""
        self._lock = threading.Lock()
        if self._blocks:
            self._blocks = 0
            if self._enabled:
                gc.enable()


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for garbage as long as any thread is in such a block. The last one switches searches on again.

    So what others do about that meanwhile (`gc.enable`, `gc.disable`) does not outlast the blocks.

    Numba's modules and the objects of a compilation are so many that Python would search the whole heap several times:
    an eighth of the first compilation of a process.
    """
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


def spare_from_search() -> None:
    """Let the next searches pass over everything that there is now: only a search of the whole heap comes to it again.

    Where the user has set objects apart himself (`gc.freeze`), nothing is done: they would be searched again.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()  # to the oldest, where Python itself would move them, one search after the other


_pause = _PausedSearches()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pause.after_fork_in_child)
