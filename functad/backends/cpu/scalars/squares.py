"""Squares of a matrix with rows and columns exchanged, for kernels: what they compute when text runs as plain Python.

In compiled code `squares_numba` moves whole rows through vector registers. This file never imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _transposed(side: int) -> Callable[..., Any]:
    def transposed(elements: Any, first: int, pitch: int, *result: Any) -> Any:
        """A copy of the square whose columns begin at `first`, `pitch` apart: element (i, j) lies at `side·i + j`.

        result: the memory where a square goes to, where that begins, and how far its rows lie apart: compiled code
        asks for what follows there before it is needed.
        """
        return np.array([elements[first + pitch * j + i] for i in range(side) for j in range(side)])

    transposed.__name__ = transposed.__qualname__ = f"transposed_{side}"
    return transposed


def _stream(side: int) -> Callable[..., Any]:
    def stream(square: Any, elements: Any, first: int, pitch: int) -> None:
        """Write a square to rows that begin at `first`, `pitch` apart; compiled code passes by the caches."""
        for i in range(side):
            elements[first + pitch * i : first + pitch * i + side] = square[side * i : side * (i + 1)]

    stream.__name__ = stream.__qualname__ = f"stream_{side}"
    return stream


transposed_2, transposed_4, transposed_8, transposed_16 = map(_transposed, (2, 4, 8, 16))
SIDES = {2: transposed_2, 4: transposed_4, 8: transposed_8, 16: transposed_16}
stream_8, stream_16 = map(_stream, (8, 16))
STREAMS = {8: stream_8, 16: stream_16}
