"""Running sums, products and extrema of a block of a row, for kernels: what they compute as plain Python.

In compiled code `running_numba` combines the elements of vectors among themselves. This file never imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.text import CASTS

DTYPES = [np.dtype(name) for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")]


def room_size() -> int:
    """How many elements a kernel's own memory has."""
    squares = machine_model.SQUARES_TOGETHER[0] * machine_model.SQUARE_SIDES[0] ** 2
    return max(machine_model.RUNNING_BLOCK, squares)


def _room(dtype: np.dtype[Any]) -> Callable[[], Any]:
    def room() -> Any:
        """Memory of the kernel's own for a block of a row, or squares side by side, which holds anything."""
        return np.zeros(room_size(), dtype)

    room.__name__ = room.__qualname__ = f"room_{CASTS[dtype.name]}"
    return room


def _running(name: str, ufunc: np.ufunc) -> Callable[[Any, int, Any, int, int, Any], Any]:
    def running(source: Any, first: int, target: Any, place: int, count: int, before: Any) -> Any:
        """What has run up to each of so many elements of the source, from `before` on, put into the target.

        Returns the last.
        """
        given = np.concatenate([np.array([before], source.dtype), source[first : first + count]])
        total = ufunc.accumulate(given, dtype=source.dtype)
        target[place : place + count] = total[1:]
        return total[-1]

    running.__name__ = running.__qualname__ = f"running_{name}"
    return running


ROOMS = {dtype: _room(dtype) for dtype in DTYPES}
room_i8, room_i16, room_i32, room_i64, room_u8, room_u16, room_u32, room_u64, room_f32, room_f64 = ROOMS.values()

running_sum = _running("sum", np.add)
running_prod = _running("prod", np.multiply)
running_max = _running("max", np.maximum)  # of integers
running_min = _running("min", np.minimum)  # of integers
RUNNING = {"sum": running_sum, "prod": running_prod, "max": running_max, "min": running_min}
