"""Reductions and matrix products of any size by pieces, between which Python handles signals: Ctrl-C comes through.

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


_LARGEST_PRODUCT = 1 << 34  # multiplications of float32 in one go: some 300 ms on two cores
# How much longer a multiplication of another dtype takes; what no BLAS multiplies takes longest.
_COST = {np.dtype(t): cost for t, cost in ((np.float32, 1), (np.float64, 2), (np.complex64, 4), (np.complex128, 8))}
_COST_OF_OTHERS = 32
# BLAS packs the other operand anew for each piece, so that a piece has at least so many rows or columns.
_LEAST = 256


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The products of stacks `(*batch, m, k)` and `(*batch, k, n)` of matrices; large ones by pieces of the result."""
    if _work(a, b) <= _LARGEST_PRODUCT:
        return np.asarray(np.matmul(a, b))
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    _fill(out, a, b)
    return out


def _work(a: np.ndarray, b: np.ndarray) -> int:
    return int(a.size * b.shape[-1] * _COST.get(a.dtype, _COST_OF_OTHERS))


def _fill(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Store the products in `out`: of halves, as long as these are large."""
    batch, (m, n) = out.shape[:-2], out.shape[-2:]
    if _work(a, b) <= _LARGEST_PRODUCT or max((*batch, m // _LEAST, n // _LEAST)) < 2:
        np.matmul(a, b, out=out)
    elif batch and max(batch) > 1:
        axis = batch.index(max(batch))
        for part in _halves(batch[axis], 1):
            at = (slice(None),) * axis + (part,)
            _fill(out[at], a[at], b[at])
    elif _are_transposes(a, b):  # half of the product mirrors the other
        first, last = _halves(m, _LEAST)
        rows, columns = a[..., first, :], a[..., last, :]
        _fill(out[..., first, first], rows, rows.swapaxes(-1, -2))
        _fill(out[..., last, first], columns, rows.swapaxes(-1, -2))
        out[..., first, last] = out[..., last, first].swapaxes(-1, -2)
        _fill(out[..., last, last], columns, columns.swapaxes(-1, -2))
    elif m >= n:
        for part in _halves(m, _LEAST):
            _fill(out[..., part, :], a[..., part, :], b)
    else:
        for part in _halves(n, _LEAST):
            _fill(out[..., part], a, b[..., part])


def _halves(size: int, unit: int) -> tuple[slice, slice]:
    half = -(-size // 2 // unit) * unit
    return slice(half), slice(half, size)


def _are_transposes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b is a view of the same memory as a, transposed."""
    mirrored = b.swapaxes(-1, -2)
    return a.__array_interface__["data"] == b.__array_interface__["data"] and (a.shape, a.strides) == (
        mirrored.shape,
        mirrored.strides,
    )
