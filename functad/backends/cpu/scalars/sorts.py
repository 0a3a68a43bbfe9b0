"""The word of kernels for NumPy's own sort: what it does when kernel text runs as plain Python.

In compiled code `sorts_numba` calls NumPy's function by its address. This file never imports Numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def sort_numbers(handle: Any, elements: Any, first: int, count: int) -> int:
    """Put the `count` elements from `first` on in their order, NaN last; equal ones in any. Returns 0.

    `handle` is that of `Target.numpy_sort(dtype)`.
    """
    for k, number in enumerate(np.sort([elements[first + k] for k in range(count)])):
        elements[first + k] = number
    return 0
