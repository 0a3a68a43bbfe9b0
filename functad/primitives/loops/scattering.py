"""Where each update goes: of scatter, scatter-add, -mul, -min, -max, and of dynamic_update_slice.

Knows dimension numbers and index arithmetic; no loops but their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.lowering_rules import UpdateLoops
from functad.primitives.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers, may_meet
from functad.primitives.loops.gathering import fits
from functad.primitives.loops.moving import Index, clamped_text
from functad.records import Record


class _ScatterAxes(Record):
    """The axes of the updates, in the order of the loops over them.

    batch: those of the indices. window: for axes of the operand that a window has.
    own: leading axes of the operand that no update crosses, each of whose elements is written apart from the others;
    then the rest of the batch, then axes of a window that it does not span, then rows of a window.
    """

    batch: list[int]
    window: dict[int, int]
    own: list[int]
    crossed: list[int]
    rows: list[int]

    @property
    def order(self) -> list[int]:
        return [*self.own, *self.crossed, *self.rows]


def _axes(operand: Any, updates: Any, numbers: ScatterDimensionNumbers) -> _ScatterAxes:
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    rank = len(operand.shape)
    window = dict(zip([d for d in range(rank) if d not in dropped], numbers.update_window_dims))
    batch = [a for a in range(len(updates.shape)) if a not in numbers.update_window_dims]
    paired = {
        d: batch[k] for d, k in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    }
    whole = [d in window and updates.shape[window[d]] == operand.shape[d] for d in range(rank)]
    first_row = next((d for d in range(rank) if all(whole[d:])), rank)
    own: list[int] = []
    for d in range(first_row):
        if d not in paired and not whole[d]:
            break
        own.append(paired[d] if d in paired else window[d])
    crossed = [a for a in batch if a not in own]
    crossed += [window[d] for d in range(len(own), first_row) if d in window]
    return _ScatterAxes(batch, window, own, crossed, [window[d] for d in range(first_row, rank)])


def scatter_loops(
    operand: Any,
    indices: Any,
    updates: Any,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> UpdateLoops:
    """The loops over a scatter's updates."""
    axes = _axes(operand, updates, dimension_numbers)
    meet = may_meet(indices.shape, dimension_numbers=dimension_numbers, **params)
    return UpdateLoops(
        tuple([updates.shape[a] for a in axes.order]), tuple([meet and a in axes.crossed for a in axes.order])
    )


def scatter_rule(
    context: Any, index: Index, *, dimension_numbers: ScatterDimensionNumbers, mode: GatherScatterMode, **_: Any
) -> tuple[Sequence[Any], str, str]:
    numbers, (operand, indices, updates) = dimension_numbers, context.avals
    axes = _axes(operand, updates, numbers)
    at = dict(zip(axes.order, index, strict=True))
    batch = [at[a] for a in axes.batch]
    zero = context.flat(()) * 0
    place = [at[axes.window[d]] if d in axes.window else zero for d in range(len(operand.shape))]
    for d, k in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims):
        place[d] = batch[k]
    conditions = []
    for component, d in enumerate(numbers.scatter_dims_to_operand_dims):
        last = operand.shape[d] - (updates.shape[axes.window[d]] if d in axes.window else 1)
        number = context.read(1, (*batch, zero + component))
        if mode is not GatherScatterMode.CLIP:
            conditions += fits(number, indices.dtype, last)
        if last:
            start = clamped_text(number, indices.dtype, last) if mode is GatherScatterMode.CLIP else f"i64({number})"
            place[d] = place[d] + context.index(context.let(start), 0, last)
    guard = context.let(" & ".join(conditions)) if conditions else ""
    return place, guard, context.read(2, [at[a] for a in range(len(updates.shape))])


def slice_loops(operand: Any, update: Any, *starts: Any) -> UpdateLoops:
    """The loops over a slice that is replaced: each of its elements goes to a place of its own."""
    return UpdateLoops(tuple(update.shape), (False,) * len(update.shape))


def update_slice_at_rule(context: Any, index: Index) -> tuple[Sequence[Any], str, str]:
    _, update, *starts = context.avals
    place = []
    for d, (i, n, size, aval) in enumerate(zip(index, context.out.shape, update.shape, starts)):
        start = clamped_text(context.read(2 + d, ()), aval.dtype, n - size)
        place.append(i + context.index(context.let(start), 0, n - size) if n > size else i)
    return place, "", context.read(1, index)
