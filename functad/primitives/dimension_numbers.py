"""How gather and scatter say which axes are indexed, which are windows, and what happens out of bounds.

Knows shapes only; the operations themselves are in `gather_scatter`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.ir import Aval
from functad.records import NamedTuple

Dims = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Which axes are what in a gather.

    offset_dims: the axes of the result along which the slices lie
    collapsed_slice_dims: the axes of the operand, of slice size 1, that the result lacks
    start_index_map: the axis of the operand that each component of an index vector counts along
    operand_batching_dims, start_indices_batching_dims: axes of operand and indices that are paired

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.arange(6.).reshape(3, 2), jnp.array([[2], [0]]), rows, (1, 2)).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are what in a scatter: as in the gather that would read what it writes.

    update_window_dims: the axes of the updates along which the slices lie
    inserted_window_dims: the axes of the operand, of slice size 1, that the updates lack
    scatter_dims_to_operand_dims: the axis of the operand that each component of an index vector counts along
    operand_batching_dims, scatter_indices_batching_dims: axes of operand and indices that are paired

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> rows = lax.ScatterDimensionNumbers(
    ...     update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> lax.scatter_add(jnp.zeros((3, 2)), jnp.array([[2]]), jnp.ones((1, 2)), rows).tolist()
    [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    """

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()


class GatherScatterMode(enum.Enum):
    """What happens to a slice that does not lie within the operand.

    CLIP: it is moved until it fits.
    FILL_OR_DROP: a gather fills it (NaN, the lowest or highest integer), a scatter leaves it out.
    PROMISE_IN_BOUNDS: the caller promises that there is none.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> rows = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> lax.gather(jnp.arange(3.), jnp.array([[7]]), rows, (1,), mode=lax.GatherScatterMode.CLIP).tolist()
    [2.0]
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()

    @staticmethod
    def from_any(mode: GatherScatterMode | str | None) -> GatherScatterMode:
        """The mode of that name: "clip", "fill" or "drop", "promise_in_bounds"; None is "fill".

        >>> GatherScatterMode.from_any("drop")
        <GatherScatterMode.FILL_OR_DROP: 2>
        """
        if isinstance(mode, GatherScatterMode):
            return mode
        if mode not in _MODES:
            names = ", ".join(repr(name) for name in _MODES if name)
            raise ArgumentError(f"mode must be one of {names} or a GatherScatterMode, got {mode!r}")
        return _MODES[mode]


_MODES: dict[str | None, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}

KERNEL_MODES = {
    GatherScatterMode.CLIP: "clip",
    GatherScatterMode.FILL_OR_DROP: "fill",
    GatherScatterMode.PROMISE_IN_BOUNDS: "promise_in_bounds",
}
"""The names by which the kernels know the modes."""


def gather_matching(numbers: ScatterDimensionNumbers) -> GatherDimensionNumbers:
    """The dimension numbers of the gather that reads what a scatter writes."""
    return GatherDimensionNumbers(*numbers)


def scatter_matching(numbers: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The dimension numbers of the scatter that writes where a gather reads."""
    return ScatterDimensionNumbers(*numbers)


def slice_sizes(shape: Dims, updates: Dims, numbers: ScatterDimensionNumbers) -> Dims:
    """The shape of the slices of an operand that a scatter of updates of that shape writes."""
    window = iter([updates[d] for d in numbers.update_window_dims])
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    return tuple(1 if d in dropped else next(window) for d in range(len(shape)))


def may_meet(
    indices: Dims,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    unique_indices: bool,
    mode: GatherScatterMode,
    **_: Any,
) -> bool:
    """Whether two updates of a scatter with indices of that shape may go to one place.

    Those that are moved into bounds may meet there, although their indices are unique.
    """
    paired = dimension_numbers.scatter_indices_batching_dims
    windows = math.prod(n for axis, n in enumerate(indices[:-1]) if axis not in paired)
    return windows != 1 and (not unique_indices or mode is GatherScatterMode.CLIP)


# --- shape rules ------------------------------------------------------------------------------------------


def gather_shape(operand: Aval, indices: Aval, numbers: GatherDimensionNumbers, slice_sizes: Dims) -> tuple[int, ...]:
    """The shape of a gather's result, once its dimension numbers are found to fit the operands."""
    _check("gather", operand, indices, numbers)
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    if len(slice_sizes) != operand.ndim or any(not 0 <= s <= n for s, n in zip(slice_sizes, operand.shape)):
        raise ShapeError(
            f"gather: slice_sizes={slice_sizes} must have one size for each axis of an operand of shape "
            f"{operand.shape}, and not exceed it"
        )
    for d in dropped:
        if slice_sizes[d] > 1:
            raise ShapeError(f"gather: axis {d} is collapsed or batched, so its slice size must be 1: {slice_sizes}")
    window = [s for d, s in enumerate(slice_sizes) if d not in dropped]
    batch = indices.shape[:-1]
    _check_windows("gather", "offset_dims", numbers.offset_dims, len(window), len(window) + len(batch))
    sizes = {True: iter(window), False: iter(batch)}
    return tuple(next(sizes[d in numbers.offset_dims]) for d in range(len(window) + len(batch)))


def check_scatter(name: str, operand: Aval, indices: Aval, updates: Aval, numbers: ScatterDimensionNumbers) -> None:
    """Raise unless a scatter's dimension numbers fit its operands."""
    _check(name, operand, indices, gather_matching(numbers))
    if operand.dtype != updates.dtype:
        raise DTypeError(
            f"{name}: the updates have dtype {updates.dtype}, but the operand has {operand.dtype}; "
            f"use updates.astype({operand.dtype.name!r})"
        )
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    whole = [n for d, n in enumerate(operand.shape) if d not in dropped]
    window_dims, batch = numbers.update_window_dims, indices.shape[:-1]
    if updates.ndim != len(whole) + len(batch):
        raise ShapeError(
            f"{name}: updates of shape {updates.shape} must have {len(whole)} window axes and {len(batch)} "
            f"axes for the indices of shape {indices.shape}, with an operand of shape {operand.shape} and "
            f"{numbers}"
        )
    _check_windows(name, "update_window_dims", window_dims, len(whole), updates.ndim)
    window = [updates.shape[d] for d in window_dims]
    if any(part > n for part, n in zip(window, whole)):
        raise ShapeError(
            f"{name}: a window of shape {tuple(window)} in updates of shape {updates.shape} does not fit "
            f"into the indexed part, of shape {tuple(whole)}, of an operand of shape {operand.shape}"
        )
    rest = tuple(n for d, n in enumerate(updates.shape) if d not in window_dims)
    if rest != batch:
        raise ShapeError(
            f"{name}: the axes of the updates that are no window have shape {rest}, but the indices ask for "
            f"{batch} (all but the last axis of {indices.shape})"
        )


def _check(name: str, operand: Aval, indices: Aval, numbers: GatherDimensionNumbers) -> None:
    """What gather and scatter have in common."""
    _, collapsed, index_map, operand_batching, indices_batching = numbers
    if kind_of(indices.dtype) not in "iu":
        raise DTypeError(f"{name}: indices must be integers, got {indices.str_short()}")
    if indices.ndim == 0 or indices.shape[-1] != len(index_map):
        raise ShapeError(
            f"{name}: the last axis of the indices holds the components of an index vector, of which there "
            f"are {len(index_map)} (for the operand's axes {index_map}), but they have shape {indices.shape}"
        )
    _check_distinct(name, operand.ndim, "index_map", index_map)
    _check_distinct(name, operand.ndim, "collapsed, inserted or batching dims", (*collapsed, *operand_batching))
    _check_distinct(name, indices.ndim - 1, "indices batching dims", indices_batching)
    if set(index_map) & set(operand_batching):
        raise ShapeError(f"{name}: an axis of the operand is both batched and indexed: {numbers}")
    paired = [operand.shape[d] for d in operand_batching], [indices.shape[d] for d in indices_batching]
    if paired[0] != paired[1]:
        raise ShapeError(
            f"{name}: the batching axes must pair up axes of equal size, but those of the operand have sizes "
            f"{paired[0]}, those of the indices {paired[1]}"
        )


def _check_distinct(name: str, ndim: int, what: str, axes: Sequence[int]) -> None:
    if len(set(axes)) != len(axes) or any(not 0 <= d < ndim for d in axes):
        raise ShapeError(f"{name}: {what} {tuple(axes)} must be distinct and lie in 0..{ndim - 1}")


def _check_windows(name: str, what: str, dims: Dims, count: int, ndim: int) -> None:
    if len(dims) != count or list(dims) != sorted(set(dims)) or any(not 0 <= d < ndim for d in dims):
        raise ShapeError(
            f"{name}: {what}={dims} must be {count} increasing axes in 0..{ndim - 1}, one for each axis of a slice"
        )
