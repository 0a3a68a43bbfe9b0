"""The words of kernels for memory that is written in whole cache lines: what they do when text runs as plain Python.

In compiled code `lines_numba` writes past the caches: nothing is read first, and nothing else has to leave them. This
file never imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import machine_model


def write_line(target: Any, to: int, source: Any, at: int) -> int:
    """Copy as many elements as a cache line has. `store_fence` must come before others read them. Returns 0."""
    for k in range(machine_model.CACHE_LINE // np.asarray(source[at]).itemsize):
        target[to + k] = source[at + k]
    return 0


def line_start(source: Any, at: int, place: int, last: int) -> int:
    """The last place up to `place`, and from 0 to `last`, where a cache line begins, if element `at` lies at `place`.

    Only compiled code knows addresses: here lines begin everywhere.
    """
    return min(place, last)


def stream(room: Any, target: Any, to: int, count: int) -> None:
    """Copy `count` elements, which are whole cache lines, from the beginning of a room. `store_fence` as above."""
    target[to : to + count] = room[:count]


def store_fence() -> None:
    """Everything that was written past the caches is in memory when what follows is."""
