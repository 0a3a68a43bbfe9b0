"""Reductions of arrays of any size by pieces, between which Python handles signals: Ctrl-C comes through.

It must not know primitives. An array that is broadcast may have many more elements than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_LARGEST = 1 << 27  # elements that NumPy takes in one go: some 100 ms


def in_pieces(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """The reduction `reduce(x, axes=axes)`, which halves large arrays and reduces what it makes of the halves."""

    def reduced(x: np.ndarray, *, axes: Sequence[int]) -> Any:
        axis = max(axes, key=lambda a: x.shape[a], default=0)
        if x.size <= _LARGEST or x.shape[axis] < 2:
            return reduce(x, axes=tuple(axes))
        half, last = x.shape[axis] // 2, x.shape[axis]
        parts = [(slice(None),) * axis + (bounds,) for bounds in (slice(half), slice(half, last))]
        return reduce(np.stack([reduced(x[part], axes=axes) for part in parts]), axes=(0,))

    return reduced
