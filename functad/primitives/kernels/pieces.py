"""Reductions and matrix products of any size by pieces, between which Python handles signals: Ctrl-C comes through.

It must not know primitives. An array that is broadcast may have many more elements than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.system.blas_library import on_one_thread

_COSTS = {np.dtype(name): cost for name, cost in machine_model.PRODUCT_COST.items()}


def by_halves(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """The reduction `reduce(x, axes=axes, **params)` of large arrays: of what it makes of their halves."""

    def reduced(x: np.ndarray, *, axes: Sequence[int], **params: Any) -> Any:
        if x.size <= machine_model.PIECE_ELEMENTS:
            return reduce(x, axes=tuple(axes), **params)
        axis = max(axes, key=lambda a: x.shape[a], default=0)
        if x.shape[axis] < 2:
            return reduce(x, axes=tuple(axes), **params)
        half, last = x.shape[axis] // 2, x.shape[axis]
        parts = [(slice(None),) * axis + (bounds,) for bounds in (slice(half), slice(half, last))]
        return reduce(np.stack([reduced(x[part], axes=axes, **params) for part in parts]), axes=(0,), **params)

    return reduced


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The products of stacks `(*batch, m, k)` and `(*batch, k, n)` of matrices; large ones by pieces of the result."""
    work = _work(a, b)
    if machine_model.BLAS_THREADS_FROM < work <= machine_model.ONE_THREAD_PRODUCT:
        return np.asarray(on_one_thread(np.matmul, a, b))
    if work <= machine_model.PIECE_PRODUCT:
        return np.asarray(np.matmul(a, b))
    out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    _fill(out, a, b)
    return out


def _work(a: np.ndarray, b: np.ndarray) -> int:
    return int(a.size * b.shape[-1] * _COSTS.get(a.dtype, machine_model.OTHER_PRODUCT_COST))


def _fill(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Store the products in `out`: of halves, as long as these are large."""
    batch, (m, n) = out.shape[:-2], out.shape[-2:]
    least = machine_model.PIECE_ROWS
    if _work(a, b) <= machine_model.PIECE_PRODUCT or max((*batch, m // least, n // least)) < 2:
        np.matmul(a, b, out=out)
    elif batch and max(batch) > 1:
        axis = batch.index(max(batch))
        for part in _halves(batch[axis], 1):
            at = (slice(None),) * axis + (part,)
            _fill(out[at], a[at], b[at])
    elif _are_transposes(a, b):  # half of the product mirrors the other
        first, last = _halves(m, least)
        rows, columns = a[..., first, :], a[..., last, :]
        _fill(out[..., first, first], rows, rows.swapaxes(-1, -2))
        _fill(out[..., last, first], columns, rows.swapaxes(-1, -2))
        out[..., first, last] = out[..., last, first].swapaxes(-1, -2)
        _fill(out[..., last, last], columns, columns.swapaxes(-1, -2))
    elif m >= n:
        for part in _halves(m, least):
            _fill(out[..., part, :], a[..., part, :], b)
    else:
        for part in _halves(n, least):
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
