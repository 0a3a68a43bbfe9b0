"""Sums of arrays over axes whose rounding errors grow as the logarithm of their length, whichever the axes are.

It must not know primitives. NumPy sums in pairs along adjacent memory only; over other axes it adds row after row to
the result, so that 2^25 ones of float32 give 2^24.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad.dtypes import kind_of

_BLOCK = 128  # rows that are added one after another


def sum_over(x: np.ndarray, axes: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """The sum over some axes, which are dropped, in that dtype."""
    short = x.size <= 8 * _BLOCK or (len(axes) == 1 and x.shape[axes[0]] <= _BLOCK)
    if short or kind_of(x.dtype) not in "fc":
        return np.asarray(np.add.reduce(x, axis=tuple(axes), dtype=dtype))
    adjacent: list[int] = []  # the reduced axes that NumPy sees as one, and sums in pairs
    for a in sorted((a for a in range(x.ndim) if x.shape[a] > 1), key=lambda a: abs(x.strides[a])):
        extent = x.strides[adjacent[-1]] * x.shape[adjacent[-1]] if adjacent else x.strides[a]
        if a not in axes or x.strides[a] != extent or extent == 0:
            break
        adjacent.append(a)
    total = np.add.reduce(x, axis=tuple(adjacent), dtype=dtype, keepdims=True) if adjacent else x
    for a in axes:
        total = _by_blocks(total, a, dtype)
    return np.asarray(total).reshape([n for a, n in enumerate(x.shape) if a not in axes])


def _by_blocks(x: np.ndarray, axis: int, dtype: np.dtype) -> np.ndarray:
    n = x.shape[axis]
    while n > _BLOCK:
        whole = n - n % _BLOCK
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        head, tail = np.split(x, [whole], axis)
        sums = np.add.reduce(head.reshape(*before, whole // _BLOCK, _BLOCK, *after), axis=axis + 1, dtype=dtype)
        rest = [np.add.reduce(tail, axis=axis, dtype=dtype, keepdims=True)] if whole < n else []
        x = np.concatenate([sums, *rest], axis)
        n = x.shape[axis]
    return np.asarray(np.add.reduce(x, axis=axis, dtype=dtype, keepdims=True))
