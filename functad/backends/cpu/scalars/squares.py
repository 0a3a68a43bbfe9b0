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


def _band(side: int) -> Callable[..., Any]:
    def band(elements: Any, first: int, pitch: int, count: int) -> Any:
        """`count` such squares of rows that follow each other, side by side: element (i, j) lies at `count·side·i + j`.

        count: no more than `machine_model.SQUARES_TOGETHER` says.
        """
        length = count * side
        return np.array([elements[first + pitch * j + i] for i in range(side) for j in range(length)])

    band.__name__ = band.__qualname__ = f"transposed_band_{side}"
    return band


def _stream(side: int) -> Callable[..., Any]:
    def stream(band: Any, elements: Any, first: int, pitch: int, count: int) -> None:
        """Write squares that lie side by side to rows that begin at `first`, `pitch` apart.

        Compiled code passes by the caches.
        """
        length = count * side
        for i in range(side):
            elements[first + pitch * i : first + pitch * i + length] = band[length * i : length * (i + 1)]

    stream.__name__ = stream.__qualname__ = f"stream_{side}"
    stream.is_loop = True  # type: ignore[attr-defined]  # of compiled code, where the call stands
    return stream


def packed_tile(elements: Any, first: int, pitch: int, rows: int, columns: int) -> Any:
    """A copy of so many rows, of which the first begins at `first`, `pitch` apart: what `write_transposed` takes."""
    return np.array([elements[first + pitch * i : first + pitch * i + columns] for i in range(rows)])


def write_transposed(tile: Any, elements: Any, first: int, pitch: int, rows: int, columns: int) -> None:
    """Write the columns of a packed tile to rows that begin at `first`, `pitch` apart."""
    for j in range(columns):
        elements[first + pitch * j : first + pitch * j + rows] = tile[:, j]


packed_tile.is_loop = write_transposed.is_loop = True  # type: ignore[attr-defined]  # of compiled code
transposed_2, transposed_4, transposed_8, transposed_16 = map(_transposed, (2, 4, 8, 16))
SIDES = {2: transposed_2, 4: transposed_4, 8: transposed_8, 16: transposed_16}
transposed_band_8, transposed_band_16 = map(_band, (8, 16))
BANDS = {8: transposed_band_8, 16: transposed_band_16}
stream_8, stream_16 = map(_stream, (8, 16))
STREAMS = {8: stream_8, 16: stream_16}
