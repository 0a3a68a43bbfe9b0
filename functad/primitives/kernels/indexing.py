"""Gather, scatter and dynamic slices on arrays, with the dimension numbers of XLA.

It must not know how indices are written by users (negative ones, slices, masks), nor tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.primitives.kernels.conversion import converted
from functad.primitives.kernels.extrema import folded
from functad.records import NamedTuple

Starts = Sequence[int] | Sequence[np.ndarray] | np.ndarray

_COMBINE: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def gather(
    operand: np.ndarray,
    start_indices: np.ndarray,
    *,
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    start_indices_batching_dims: Sequence[int] = (),
    slice_sizes: Sequence[int],
    mode: str = "fill",
    fill_value: float | None = None,
) -> np.ndarray:
    """Collect a slice of `slice_sizes` at each start in `start_indices (*batch, len(start_index_map))`.

    `mode` is "clip", "fill" or "promise_in_bounds" (then as "clip"). `fill_value` defaults to NaN, the lowest
    signed or the highest unsigned integer.
    """
    placing = _Placing(
        operand.shape,
        tuple(slice_sizes),
        tuple(start_index_map),
        (*collapsed_slice_dims, *operand_batching_dims),
        tuple(operand_batching_dims),
        tuple(start_indices_batching_dims),
    )
    batch = start_indices.shape[:-1]
    window = tuple(slice_sizes[d] for d in placing.kept())
    batch_positions = [d for d in range(len(batch) + len(offset_dims)) if d not in offset_dims]
    out = _gather_windows(operand, _starts(start_indices, placing), placing)
    if mode == "fill" and not (valid := _fitting(start_indices, placing)).all():
        fill = default_fill_value(operand.dtype) if fill_value is None else fill_value
        mask = valid.reshape(batch + (1,) * len(window))
        out = np.where(mask, out, converted(np.asarray(fill), operand.dtype))
    places = (*batch_positions, *offset_dims)
    return out if places == tuple(range(out.ndim)) else np.moveaxis(out, range(out.ndim), places)


def scatter(
    operand: np.ndarray,
    scatter_indices: np.ndarray,
    updates: np.ndarray,
    *,
    kind: str,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    scatter_indices_batching_dims: Sequence[int] = (),
    mode: str = "fill",
) -> np.ndarray:
    """Combine windows of `updates` into a copy of `operand`, by `kind` "set", "add", "mul", "min" or "max".

    `mode` is "clip", "fill" (windows that do not fit are dropped) or "promise_in_bounds" (then as "fill").
    Windows that overlap are applied in order.
    """
    dropped = (*inserted_window_dims, *operand_batching_dims)
    window = iter([updates.shape[d] for d in update_window_dims])
    slice_sizes = tuple(1 if d in dropped else next(window) for d in range(operand.ndim))
    placing = _Placing(
        operand.shape,
        slice_sizes,
        tuple(scatter_dims_to_operand_dims),
        dropped,
        tuple(operand_batching_dims),
        tuple(scatter_indices_batching_dims),
    )
    batch_positions = [d for d in range(updates.ndim) if d not in update_window_dims]
    windows = np.transpose(updates, (*batch_positions, *update_window_dims))
    starts = _starts(scatter_indices, placing)
    if mode != "clip" and not (valid := _fitting(scatter_indices, placing)).all():
        starts, windows = starts[valid], windows[valid]
    wide = scatter_accumulator(kind, operand, scatter_indices, updates, scatter_indices_batching_dims)
    put = partial(_scatter_windows, starts=starts, placing=placing, wide=wide)
    if kind in ("min", "max"):
        return folded(_COMBINE[kind], put, operand, windows)
    return put(_COMBINE.get(kind), operand, windows)


class _Sized(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def size(self) -> int: ...


def scatter_accumulator(
    kind: str, operand: _Sized, indices: _Sized, updates: _Sized, indices_batching: Sequence[int]
) -> np.dtype:
    """The dtype in which `scatter` combines the updates, before it rounds once.

    One element may take all windows: a float32 total that took in 2^24 ones takes in no more. Where updates seldom
    meet, because a table has many elements, its wider copy would cost more than they do.
    """
    dtype = operand.dtype
    if is_narrow_float(dtype) and kind in ("add", "mul"):
        return compute_dtype(dtype)
    meeting = math.prod(n for axis, n in enumerate(indices.shape[:-1]) if axis not in indices_batching)
    often = updates.size >= machine_model.UPDATES_WORTH_WIDTH * operand.size
    is_long = kind == "add" and often and meeting > machine_model.LONGEST_SUM
    return _WIDER.get(dtype, dtype) if is_long else dtype


_WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


def dynamic_slice(x: np.ndarray, starts: Starts, sizes: Sequence[int]) -> np.ndarray:
    """The slice of `sizes` at `starts`, which are clamped so that it fits; a view."""
    return x[_window_at(starts, sizes, x.shape)]


def dynamic_update_slice(x: np.ndarray, update: np.ndarray, starts: Starts) -> np.ndarray:
    """A copy of `x` with `update` written at `starts`, which are clamped so that it fits."""
    out = np.array(x)
    out[_window_at(starts, update.shape, x.shape)] = update
    return out


def default_fill_value(dtype: np.dtype) -> float | int | bool:
    """What "fill" gives out of bounds: NaN, the lowest signed or highest unsigned integer, True."""
    if kind_of(dtype) in "fc":
        return math.nan
    if kind_of(dtype) == "b":
        return True
    return int(np.iinfo(dtype).min if kind_of(dtype) == "i" else np.iinfo(dtype).max)


class _Placing(NamedTuple):
    """How windows lie in the operand: what `gather` and `scatter` share."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    index_map: tuple[int, ...]
    dropped: tuple[int, ...]
    operand_batching: tuple[int, ...]
    indices_batching: tuple[int, ...]

    def kept(self) -> list[int]:
        """The operand's dims that a window has."""
        return [d for d in range(len(self.shape)) if d not in self.dropped]

    def leading(self) -> int:
        """How many leading dims of the operand it takes to tell the windows apart; they cover the rest."""
        last = 0
        for dim, (size, part) in enumerate(zip(self.shape, self.sizes, strict=True), start=1):
            if size != part or dim - 1 in self.dropped:
                last = dim
        return last


def _window_at(starts: Starts, sizes: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    clamped = (min(max(int(start), 0), size - part) for start, part, size in zip(starts, sizes, shape, strict=True))
    return tuple(slice(start, start + part) for start, part in zip(clamped, sizes, strict=True))


def _starts(indices: np.ndarray, placing: _Placing) -> np.ndarray:
    """Each window's first index in every dim of the operand, clamped."""
    batch = indices.shape[:-1]
    starts = np.zeros((*batch, len(placing.shape)), np.intp)
    for column, dim in enumerate(placing.index_map):
        last = placing.shape[dim] - placing.sizes[dim]
        starts[..., dim] = np.maximum(np.minimum(_signed(indices[..., column]), last), 0)
    for dim, axis in zip(placing.operand_batching, placing.indices_batching, strict=True):
        steps = np.arange(batch[axis]).reshape(-1, *(1,) * (len(batch) - axis - 1))
        starts[..., dim] = steps
    return starts


def _fitting(indices: np.ndarray, placing: _Placing) -> np.ndarray:
    """Whether each window fitted without being clamped."""
    valid = np.ones(indices.shape[:-1], np.bool_)
    for column, dim in enumerate(placing.index_map):
        index = _signed(indices[..., column])
        valid &= (index >= 0) & (index <= placing.shape[dim] - placing.sizes[dim])
    return valid


def _signed(indices: np.ndarray) -> np.ndarray:
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    return indices.astype(np.int64)


def _rows(starts: np.ndarray, placing: _Placing) -> np.ndarray:
    """The rows that each window consists of, once the operand's leading dims are flattened."""
    count = placing.leading()
    kept = [d for d in placing.kept() if d < count]
    batch = starts.shape[:-1]
    rows = np.zeros(batch + (1,) * len(kept), np.intp)
    for dim in range(count):
        rows = rows * placing.shape[dim] + starts[..., dim].reshape(batch + (1,) * len(kept))
        if dim in kept:
            after = len(kept) - kept.index(dim) - 1
            rows = rows + np.arange(placing.sizes[dim]).reshape(-1, *(1,) * after)
    return rows


def _gather_windows(operand: np.ndarray, starts: np.ndarray, placing: _Placing) -> np.ndarray:
    """The windows, as (*batch, *window)."""
    batch = starts.shape[:-1]
    shape = batch + tuple(placing.sizes[d] for d in placing.kept())
    if 0 in shape:
        return np.zeros(shape, operand.dtype)
    if math.prod(batch) == 1:
        return dynamic_slice(operand, starts.reshape(-1), placing.sizes).reshape(shape)
    length = math.prod(placing.shape[placing.leading() :])
    table = operand.reshape(-1, length) if length > 1 else operand.reshape(-1)
    # The rows are in bounds; "clip" only spares NumPy the check.
    return table.take(_rows(starts, placing), axis=0, mode="clip").reshape(shape)


def _scatter_windows(
    ufunc: np.ufunc | None,
    operand: np.ndarray,
    windows: np.ndarray,
    starts: np.ndarray,
    placing: _Placing,
    wide: np.dtype | None = None,
) -> np.ndarray:
    """A copy of the operand with the windows put to it by the ufunc, in a wider dtype; without one they are written."""
    out = np.array(operand, wide or operand.dtype, order="C")
    if windows.size == 0 or out.size == 0:
        return out.astype(operand.dtype, copy=False)
    if math.prod(starts.shape[:-1]) == 1:
        place: tuple[Any, ...] = (*_window_at(starts.reshape(-1), placing.sizes, placing.shape), ...)
        target: np.ndarray = out[place]
        update = windows.reshape(placing.sizes)
        target[...] = update if ufunc is None else ufunc(target, update)
        return out.astype(operand.dtype, copy=False)
    length = math.prod(placing.shape[placing.leading() :])
    rows, values = _rows(starts, placing).reshape(-1), windows.reshape(-1, length)
    if ufunc is None:
        out.reshape(-1, length)[rows] = values
        return out
    # Element by element: the one-dimensional `ufunc.at` is several times as fast as the one over rows.
    flat, within = out.reshape(-1), np.arange(length)
    step = max(1, machine_model.GATHER_BLOCK // length)
    for start in range(0, len(rows), step):
        places = rows[start : start + step, None] * length + within
        block = values[start : start + step].reshape(-1)  # `ufunc.at` is slow where it converts
        ufunc.at(flat, places.reshape(-1), block.astype(out.dtype, copy=False))
    return out.astype(operand.dtype, copy=False)
