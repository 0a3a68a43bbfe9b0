"""Convolution and window reductions: sliding windows as strided slices, matrix products for the sums.

It must not know layouts other than batch/feature/spatial, nor tracing and derivatives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, is_narrow_float, kind_of
from functad.primitives.kernels.extrema import folded
from functad.records import NamedTuple

Padding = Sequence[tuple[int, int]]
SliceIndex = tuple[slice | EllipsisType, ...]


class _Windows(NamedTuple):
    """Where windows lie in an already padded array, along its last axes; `shape` counts them along each."""

    window: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]

    def at_offset(self, offset: Sequence[int]) -> SliceIndex:
        """The element at `offset` of every window."""
        slices = (
            slice(o * d, o * d + max(0, (n - 1) * s + 1), s)
            for o, n, s, d in zip(offset, self.shape, self.strides, self.dilation, strict=True)
        )
        return (..., *slices)

    def at_position(self, position: Sequence[int]) -> SliceIndex:
        """Every element of the window at `position`."""
        slices = (
            slice(p * s, p * s + (w - 1) * d + 1, d)
            for p, w, s, d in zip(position, self.window, self.strides, self.dilation, strict=True)
        )
        return (..., *slices)

    def offsets(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.window))

    def positions(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.shape))


def conv_general_dilated(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> np.ndarray:
    """Cross-correlate `lhs (N, C, *spatial)` with `rhs (O, C / feature_group_count, *window)`.

    Padding may be negative; narrow floats are accumulated in float32. Returns `(N / batch_group_count, O, *out)`.
    """
    dtype = np.result_type(lhs, rhs)
    if is_narrow_float(dtype):
        lhs, rhs = lhs.astype(np.float32), rhs.astype(np.float32)
    groups = feature_group_count
    if batch_group_count > 1:
        lhs, groups = _batch_groups_as_features(lhs, batch_group_count), batch_group_count
    lhs = dilate_and_pad(lhs, ((0, 0), (0, 0), *padding), (1, 1, *lhs_dilation), 0)
    windows = _windows(lhs.shape[2:], rhs.shape[2:], window_strides, rhs_dilation)
    batch, features = len(lhs), rhs.shape[0]
    if 0 in (lhs.size, rhs.size, *windows.shape):
        return np.zeros((batch, features, *windows.shape), dtype)
    lhs = lhs.reshape(batch, groups, -1, *lhs.shape[2:])
    rhs = rhs.reshape(groups, features // groups, *rhs.shape[1:])
    out = _contraction(rhs, windows)(lhs, rhs, windows)
    return out.reshape(batch, features, *windows.shape).astype(dtype, copy=False)


def reduce_window(
    x: np.ndarray,
    op: str,
    init_value: float,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> np.ndarray:
    """Reduce every window with `op` ("max", "min" or "sum"), from `init_value`; padding adds nothing.

    The three operations are separable, so the axes are reduced one after the other.
    """
    ones = (1,) * x.ndim
    dilation = window_dilation or ones

    def fold(ufunc: np.ufunc, x: np.ndarray, initial: np.ndarray) -> np.ndarray:
        out = dilate_and_pad(x, padding, base_dilation or ones, 0 if op == "sum" else initial.item())
        for axis, along in enumerate(zip(window_dimensions, window_strides, dilation, strict=True)):
            one = slice(axis, axis + 1)
            windows = _windows(out.shape[one], *[(part,) for part in along])
            out = _reduce_axis(out, ufunc, windows, axis)
        return np.asarray(ufunc(out, initial))

    if op == "sum":
        wide = compute_dtype(x.dtype)
        out = fold(np.add, x.astype(wide, copy=False), np.asarray(init_value, wide))
        return out.astype(x.dtype, copy=False)
    ufunc = {"max": np.maximum, "min": np.minimum}[op]
    return np.asarray(folded(ufunc, fold, x, np.asarray(init_value, x.dtype)))


def select_and_scatter_add(
    source: np.ndarray,
    operand: np.ndarray,
    *,
    select: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> np.ndarray:
    """Add each element of `source` to the place of its window's selected element of `operand`.

    `select` is "ge" (maximum) or "le" (minimum). Ties go to the first element in row-major order; padding,
    which has the value selected last, takes part, and its share is dropped. The gradient of max-pooling.
    """
    if source.size == 0:
        return np.zeros(operand.shape, source.dtype)
    ones = (1,) * operand.ndim
    padded = dilate_and_pad(operand, padding, ones, _selected_last(operand.dtype, select))
    windows = _windows(padded.shape, window_dimensions, window_strides, ones)
    accumulate = compute_dtype(source.dtype)
    values = source.astype(accumulate, copy=False)
    out = np.zeros(padded.shape, accumulate)
    for place, mask in _selected(padded, select, windows):
        out[place] += _keep(values, mask)
    # Undo the padding: a positive one is cut off, a negative one grows back as zeros.
    back = [(-low, -high) for low, high in padding]
    return dilate_and_pad(out, back, ones, 0).astype(source.dtype, copy=False)


def select_and_gather_add(
    tangents: np.ndarray,
    operand: np.ndarray,
    *,
    select: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> np.ndarray:
    """The element of `tangents` at the place of each window's selected element of `operand`; 0 in padding.

    The derivative of max-pooling applied to a tangent; linear in `tangents`.
    """
    ones = (1,) * operand.ndim
    base, dilation = base_dilation or ones, window_dilation or ones
    padded = dilate_and_pad(operand, padding, base, _selected_last(operand.dtype, select))
    windows = _windows(padded.shape, window_dimensions, window_strides, dilation)
    moved = dilate_and_pad(tangents, padding, base, 0)
    out = np.zeros(windows.shape, tangents.dtype)
    for place, mask in _selected(padded, select, windows):
        out += _keep(moved[place], mask)
    return out


def dilate_and_pad(x: np.ndarray, padding: Padding, dilation: Sequence[int], fill: float | np.generic) -> np.ndarray:
    """Put `dilation - 1` fills between the elements of each axis, then pad; negative padding crops.

    Returns `x` itself, or a view of it, where nothing is filled.
    """
    shape, target, source = [], [], []
    for size, (low, high), step in zip(x.shape, padding, dilation, strict=True):
        total = max(0, low + max(0, (size - 1) * step + 1) + high)
        first = -(min(low, 0) // step)
        last = max(first, min(size, -((low - total) // step)))
        start = low + first * step
        stop = start + (last - first - 1) * step + 1
        shape.append(total)
        source.append(slice(first, last))
        target.append(slice(start, stop, step) if last > first else slice(0, 0))
    inner = x[tuple(source)]
    if inner.shape == tuple(shape):
        return inner
    out = np.full(shape, fill, x.dtype)
    out[tuple(target)] = inner
    return out


def _windows(sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> _Windows:
    count = tuple(
        max(0, (n - (w - 1) * d - 1) // s + 1) for n, w, s, d in zip(sizes, window, strides, dilation, strict=True)
    )
    return _Windows(tuple(window), count, tuple(strides), tuple(dilation))


def _batch_groups_as_features(lhs: np.ndarray, groups: int) -> np.ndarray:
    """A convolution with batch groups is one with feature groups, whose features are (group, feature)."""
    size = len(lhs) // groups
    split = lhs.reshape(groups, size, *lhs.shape[1:])
    return np.moveaxis(split, 0, 1).reshape(size, groups * lhs.shape[1], *lhs.shape[2:])


def _contraction(rhs: np.ndarray, windows: _Windows) -> Callable[[np.ndarray, np.ndarray, _Windows], np.ndarray]:
    """The cheapest of three ways to unroll, by how much each has to copy."""
    outputs_each, features_each = rhs.shape[1], rhs.shape[2]
    if math.prod(windows.shape) < math.prod(windows.window):
        return _conv_by_position
    if 2 * outputs_each <= features_each and set(windows.strides) <= {1}:
        return _conv_by_shifting
    return _conv_by_offset


def _conv_by_offset(lhs: np.ndarray, rhs: np.ndarray, windows: _Windows) -> np.ndarray:
    """Unroll the windows offset by offset, then multiply: for windows smaller than the output."""
    batch, groups, features = lhs.shape[:3]
    outputs, count = rhs.shape[1], math.prod(windows.shape)
    contracted = features * math.prod(windows.window)
    weights = rhs.reshape(groups, outputs, contracted)
    if math.prod(windows.window) == 1 and lhs.shape[3:] == windows.shape:
        product: np.ndarray = np.matmul(weights, lhs.reshape(batch, groups, features, count))
        return product
    together = count < machine_model.WINDOWS_FEW_OUTPUTS
    image_bytes = groups * contracted * count * lhs.itemsize
    images = _at_most(batch, machine_model.WINDOWS_BLOCK_BYTES // image_bytes)
    out = np.empty((batch, groups, outputs, count), lhs.dtype)
    workspace = np.empty(0, lhs.dtype)
    for start in range(0, batch, images):
        block, target = lhs[start : start + images], out[start : start + images]
        for positions, rows, part in _row_blocks(windows, machine_model.WINDOWS_BLOCK_BYTES / image_bytes):
            size = len(block) * groups * contracted * math.prod(part.shape)
            if workspace.size < size:
                workspace = np.empty(size, lhs.dtype)
            multiply = _product_of_all if together else _product_each
            multiply(weights, block[rows], part, workspace[:size], target[..., positions])
    return out


def _product_each(
    weights: np.ndarray, block: np.ndarray, windows: _Windows, workspace: np.ndarray, out: np.ndarray
) -> None:
    """One matrix product an image and group, written in place."""
    images, groups, features = block.shape[:3]
    columns = workspace.reshape(images, groups, features, -1, *windows.shape)
    for k, offset in enumerate(windows.offsets()):
        columns[:, :, :, k] = block[windows.at_offset(offset)]
    np.matmul(weights, columns.reshape(images, groups, -1, math.prod(windows.shape)), out=out)


def _product_of_all(
    weights: np.ndarray, block: np.ndarray, windows: _Windows, workspace: np.ndarray, out: np.ndarray
) -> None:
    """One matrix product a group over all images; better where an image has few outputs."""
    images, groups, features = block.shape[:3]
    columns = workspace.reshape(groups, features, -1, images, *windows.shape)
    for k, offset in enumerate(windows.offsets()):
        columns[:, :, k] = np.moveaxis(block[windows.at_offset(offset)], 0, 2)
    product = np.matmul(weights, columns.reshape(groups, -1, images * math.prod(windows.shape)))
    out[...] = np.moveaxis(product.reshape(groups, -1, images, out.shape[-1]), 2, 0)


def _conv_by_position(lhs: np.ndarray, rhs: np.ndarray, windows: _Windows) -> np.ndarray:
    """Unroll the windows output by output, in blocks of features: for windows larger than the output.

    Such are the gradients with respect to the weights.
    """
    batch, groups, features = lhs.shape[:3]
    outputs = rhs.shape[1]
    count, window = math.prod(windows.shape), math.prod(windows.window)
    feature_bytes = count * batch * groups * window * lhs.itemsize
    step = _at_most(features, machine_model.WINDOWS_BLOCK_BYTES // feature_bytes)
    total: np.ndarray = np.zeros((groups, count * batch, outputs), lhs.dtype)
    for start in range(0, features, step):
        block = lhs[:, :, start : start + step]
        size = block.shape[2]
        rows = np.empty((groups, count, batch, size, *windows.window), lhs.dtype)
        for p, position in enumerate(windows.positions()):
            rows[:, p] = np.moveaxis(block[windows.at_position(position)], 0, 1)
        weights: np.ndarray = rhs[:, :, start : start + step].reshape(groups, outputs, size * window)
        total += np.matmul(rows.reshape(groups, count * batch, size * window), np.swapaxes(weights, 1, 2))
    # (group, position, image, output) to (image, group, output, position).
    out: np.ndarray = total.reshape(groups, count, batch, outputs).transpose(2, 0, 3, 1)
    return out


def _conv_by_shifting(lhs: np.ndarray, rhs: np.ndarray, windows: _Windows) -> np.ndarray:
    """One matrix product over the features, then a shifted sum: for fewer outputs than features, stride 1."""
    batch, groups, features = lhs.shape[:3]
    outputs, sizes = rhs.shape[1], lhs.shape[3:]
    window = math.prod(windows.window)
    # (group, output, feature, offset) to (group, offset * output, feature).
    by_offset = rhs.reshape(groups, outputs, features, window).transpose(0, 3, 1, 2)
    weights = by_offset.reshape(groups, window * outputs, features)
    out = np.zeros((batch, groups, outputs, *windows.shape), lhs.dtype)
    image_bytes = groups * window * outputs * math.prod(sizes) * lhs.itemsize
    images = _at_most(batch, machine_model.WINDOWS_BLOCK_BYTES // image_bytes)
    for start in range(0, batch, images):
        block = lhs[start : start + images]
        products = np.matmul(weights, block.reshape(len(block), groups, features, -1))
        products = products.reshape(len(block), groups, window, outputs, *sizes)
        target = out[start : start + images]
        for k, offset in enumerate(windows.offsets()):
            target += products[:, :, k][windows.at_offset(offset)]
    return out


def _row_blocks(windows: _Windows, share: float) -> Iterator[tuple[slice, SliceIndex, _Windows]]:
    """Split the first output axis into blocks of at most `share` of it.

    Yields each block's outputs (as a slice of the flat positions), its part of the input, and its windows.
    """
    if not windows.shape:
        yield slice(None), (...,), windows
        return
    (size, *others), stride = windows.shape, windows.strides[0]
    rows = _at_most(size, int(size * share))
    reach = (windows.window[0] - 1) * windows.dilation[0] + 1
    for first in range(0, size, rows):
        last = min(first + rows, size)
        rest = (slice(None),) * len(others)
        inputs: SliceIndex = (..., slice(first * stride, (last - 1) * stride + reach), *rest)
        width = math.prod(others)
        yield slice(first * width, last * width), inputs, windows._replace(shape=(last - first, *others))


def _reduce_axis(x: np.ndarray, ufunc: np.ufunc, windows: _Windows, axis: int) -> np.ndarray:
    """Reduce the windows along one axis, over whichever are fewer: offsets in a window, or windows."""
    (window,), (count,) = windows.window, windows.shape
    if window == 1 and windows.strides == (1,):
        return x
    along = np.moveaxis(x, axis, -1)
    if window <= count:
        out = along[windows.at_offset((0,))].copy(order="K")
        for offset in range(1, window):
            ufunc(out, along[windows.at_offset((offset,))], out=out)
        return np.moveaxis(out, -1, axis)
    out = np.empty((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
    for position in range(count):
        part = along[windows.at_position((position,))]
        ufunc.reduce(part, axis=-1, out=np.moveaxis(out, axis, -1)[..., position])
    return out


def _selected_last(dtype: np.dtype, select: str) -> float | int:
    if kind_of(dtype) == "f":
        return -math.inf if select == "ge" else math.inf
    if kind_of(dtype) == "b":
        return select == "le"
    return int(np.iinfo(dtype).min if select == "ge" else np.iinfo(dtype).max)


def _selected(padded: np.ndarray, select: str, windows: _Windows) -> Iterator[tuple[SliceIndex, np.ndarray]]:
    """For every offset in a window: its elements' place, and which of them their window selects."""
    if 0 in windows.shape:
        return
    ufunc = {"ge": np.maximum, "le": np.minimum}[select]
    best = padded
    for axis, along in enumerate(zip(*windows, strict=True)):
        best = _reduce_axis(best, ufunc, _Windows(*((part,) for part in along)), axis)
    if kind_of(best.dtype) == "f" and np.isnan(best).any():
        yield from _selected_among_nans(padded, select, windows)
        return
    free = np.ones(windows.shape, np.bool_)
    for offset in windows.offsets():
        place = windows.at_offset(offset)
        mask = padded[place] == best
        mask &= free
        free ^= mask
        yield place, mask


def _selected_among_nans(padded: np.ndarray, select: str, windows: _Windows) -> Iterator[tuple[SliceIndex, np.ndarray]]:
    """As XLA: an element stays selected while it compares "ge" (or "le") with the next; NaN never does."""
    keeps = {"ge": np.greater_equal, "le": np.less_equal}[select]
    best = np.zeros(windows.shape, padded.dtype)
    chosen = np.zeros(windows.shape, np.intp)
    for k, offset in enumerate(windows.offsets()):
        place = windows.at_offset(offset)
        candidate = padded[place]
        takes = ~keeps(best, candidate) if k else np.ones(windows.shape, np.bool_)
        np.copyto(best, candidate, where=takes)
        np.copyto(chosen, k, where=takes)
    for k, offset in enumerate(windows.offsets()):
        yield windows.at_offset(offset), chosen == k


def _keep(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`values` where the mask holds, else 0 (also for NaN and infinities)."""
    if kind_of(values.dtype) == "f" and values.itemsize in (4, 8):
        # Without branches: on the bit patterns, several times as fast as `np.where` on an irregular mask.
        bits = np.dtype(f"u{values.itemsize}")
        kept: np.ndarray = (values.view(bits) & -mask.astype(bits)).view(values.dtype)
        return kept
    return np.where(mask, values, values.dtype.type(0))


def _at_most(size: int, wanted: int) -> int:
    return max(1, min(size, wanted))
