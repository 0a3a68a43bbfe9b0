"""The words of kernels for copies between arrays of any layout, and zeros: what they do when text runs as plain Python.

In compiled code `copies_numba` calls one function for all copies. This file never imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def clear(to: Any, place: int, count: int) -> None:
    """Write zeros to `count` elements from a place on."""
    for k in range(place, place + count):
        to[k] = 0.0


def strided_copy(copier: Any, to: Any, to_place: int, source: Any, source_place: int, *axes: int) -> None:
    """Copy elements of one memory to another, along up to four axes.

    axes: for each axis, the outermost first, how many elements it has, and how far apart neighbours lie in `to` and in
    `source`. Nothing is copied if it has none, or fewer. `copier` is the handle of `Target.copier()`.
    """
    counts, to_steps, source_steps = axes[::3], axes[1::3], axes[2::3]
    for index in np.ndindex(*(max(count, 0) for count in counts)):
        place = to_place + sum(i * step for i, step in zip(index, to_steps))
        to[place] = source[source_place + sum(i * step for i, step in zip(index, source_steps))]
