"""Python's search for garbage, which waits while much is made that stays: modules, and what a compiler works on.

Knows nothing of either.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for garbage within the block; threads may be in several such blocks at once.

    Numba's modules and the objects of a compilation are so many that Python would search the whole heap several times:
    an eighth of the first compilation of a process.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def count_as_old() -> None:
    """Let Python search what there is now last, as if it had outlived many searches; none is made for that.

    Unless the program itself keeps objects out of all searches (`gc.freeze`), which cannot be told from others then.
    """
    if gc.get_freeze_count() <= _FROZEN:
        gc.freeze()
        gc.unfreeze()


_FROZEN = gc.get_freeze_count()  # by Python, when it started
