"""Sorting of several arrays together, and running sums, products, maxima, minima and log-sum-exps.

It must not know tracing or derivatives. NumPy sorts a row without a look at signals: Ctrl-C comes through once it is
sorted. To sort pieces and merge them took four times as long, and the last merge alone as long as all of NumPy's sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.kernels.extrema import folded
from functad.primitives.kernels.special import cumulative_logsumexp

# Running sums and products are kept in this dtype, so that the error does not grow with the length.
_ACCUMULATOR: dict[np.dtype, np.dtype] = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}


def sort(operands: Sequence[np.ndarray], *, dimension: int, num_keys: int = 1) -> tuple[np.ndarray, ...]:
    """Sort arrays of equal shape together along `dimension`, by the first `num_keys` of them.

    Stable and lexicographic; NaN comes last and -0.0 equals 0.0.
    """
    keys = operands[:num_keys]
    if len(operands) == 1 and keys[0].ndim == 1:
        return (sort_values(keys[0]),)
    if len(operands) == 1:
        # The fastest sort is not stable, which shows only where equal elements can be told apart.
        kind: Literal["stable"] | None = "stable" if _equals_can_differ(keys[0]) else None
        return (np.sort(keys[0], axis=dimension, kind=kind),)
    if num_keys == 1:
        order = _stable_order(keys[0], dimension)
    else:
        order = np.lexsort(tuple(reversed(keys)), axis=dimension)
    return tuple(np.take_along_axis(operand, order, axis=dimension) for operand in operands)


def _stable_order(key: np.ndarray, axis: int) -> np.ndarray:
    """The positions of elements in their order along an axis.

    Numbers of 32 bits and their positions become words of 64, no two of which are equal: NumPy's fastest sort will do.
    """
    length = key.shape[axis]
    if key.dtype not in _HALF_WORDS or not machine_model.PAIRED_ROW <= length < 1 << 32:
        return np.argsort(key, axis=axis, kind="stable")
    positions = np.arange(length, dtype=np.uint64).reshape(-1, *[1] * (key.ndim - 1 - axis))
    pairs = _in_order(key).astype(np.uint64)
    pairs <<= np.uint64(32)
    pairs |= positions
    pairs.sort(axis=axis)
    pairs &= np.uint64(2**32 - 1)
    return pairs.view(np.int64)


_HALF_WORDS = frozenset(map(np.dtype, (np.float32, np.int32, np.uint32)))


def _in_order(x: np.ndarray) -> np.ndarray:
    """Words that are ordered as numbers of 32 bits are, and equal where they are, or both are NaN."""
    words: np.ndarray = x.view(np.uint32)
    top = np.uint32(1 << 31)
    if x.dtype == np.uint32:
        return words
    negative = np.right_shift(x.view(np.int32), 31).view(np.uint32) if x.dtype == np.float32 else top
    words = np.bitwise_xor(words, negative | top)
    if x.dtype == np.int32:
        return words
    words[x == 0] = top
    words[x != x] = np.uint32(2**32 - 1)
    return words


def sort_values(x: np.ndarray) -> np.ndarray:
    """All elements of an array in their order, as the stable sort has it, in its shape."""
    if kind_of(x.dtype) == "c":
        return np.sort(x, axis=None, kind="stable").reshape(x.shape)
    found = np.sort(x, axis=None)
    if kind_of(x.dtype) == "f":
        zero = x.dtype.type(0)
        first = int(found.searchsorted(zero))
        if first < len(found) and found[first] == zero:  # of equal elements only zeros can be told apart
            found[first : found.searchsorted(zero, "right")] = x[x == zero]
    return found.reshape(x.shape)


def cumsum(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    """Running sum along `axis`, from the end if `reverse`."""
    return _accumulate(np.add, x, axis, reverse, _ACCUMULATOR.get(x.dtype, x.dtype))


def cumprod(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    """Running product along `axis`, from the end if `reverse`."""
    return _accumulate(np.multiply, x, axis, reverse, _ACCUMULATOR.get(x.dtype, x.dtype))


def cummax(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    """Running maximum along `axis`, from the end if `reverse`; NaN persists."""
    return folded(np.maximum, partial(_extrema_along, axis, reverse), x)


def cummin(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    """Running minimum along `axis`, from the end if `reverse`; NaN persists."""
    return folded(np.minimum, partial(_extrema_along, axis, reverse), x)


def cumlogsumexp(x: np.ndarray, *, axis: int, reverse: bool = False) -> np.ndarray:
    """Running `log(sum(exp(x)))` along `axis`, from the end if `reverse`."""
    if not reverse:
        return cumulative_logsumexp(x, axis)
    return np.flip(cumulative_logsumexp(np.flip(x, axis), axis), axis)


def _equals_can_differ(x: np.ndarray) -> bool:
    if kind_of(x.dtype) == "c":
        return True
    return kind_of(x.dtype) == "f" and bool(np.any((x == 0) & np.signbit(x)))


def _extrema_along(axis: int, reverse: bool, ufunc: np.ufunc, x: np.ndarray) -> np.ndarray:
    return _accumulate(ufunc, x, axis, reverse, x.dtype)


def _accumulate(ufunc: np.ufunc, x: np.ndarray, axis: int, reverse: bool, accumulator: np.dtype) -> np.ndarray:
    source = np.flip(x, axis) if reverse else x
    out = ufunc.accumulate(source, axis=axis, dtype=accumulator).astype(x.dtype, copy=False)
    return np.flip(out, axis) if reverse else out
