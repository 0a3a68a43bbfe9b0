"""Rules for scatters: those that write one element of each row of zeros, and those that are made for some rows only.

Knows dimension numbers and which axes of a choice repeat; nothing of the loops that a choice comes from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import machine_model
from functad.editing.rewriting import View, spliced
from functad.ir import Atom, Eqn, Var
from functad.optimize.algebra import is_zeros
from functad.primitives.arithmetic import add
from functad.primitives.common import broadcast_in_dim, broadcast_in_dim_p, full, full_like, reshape, scalar_like
from functad.primitives.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers, slice_sizes
from functad.primitives.dynamic_slicing import dynamic_slice, dynamic_update_slice, dynamic_update_slice_p
from functad.primitives.gather_scatter import scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p
from functad.primitives.joining import concatenate
from functad.primitives.logic import eq, select_n
from functad.primitives.ordering import clamp, wide_indices
from functad.primitives.slice_update import add_to_slice_p, slice_like, update_slice, update_slice_p
from functad.primitives.structure import iota
from functad.records import Record
from functad.tracing import bind

CLIP, FILL_OR_DROP, _ = GatherScatterMode
SCATTERS = (scatter_p, scatter_add_p, scatter_mul_p, scatter_min_p, scatter_max_p)
SLICES = (dynamic_update_slice_p, update_slice_p, add_to_slice_p)


def one_of_each_row(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A choice instead of a scatter: the derivative of picking a label's score."""
    operand, indices, updates = eqn.invars
    numbers = eqn.params["dimension_numbers"]
    shape, rows_at = operand.aval.shape, numbers.operand_batching_dims
    rows = tuple(shape[d] for d in rows_at)
    axes = tuple(d for d in range(len(shape)) if d not in rows_at)
    if not (
        is_zeros(operand, view)
        and len(axes) == 1
        and numbers[:3] == ((), axes, axes)
        and updates.aval.size == indices.aval.size == math.prod(rows)  # one for each row
        and list(numbers.scatter_indices_batching_dims) == sorted(numbers.scatter_indices_batching_dims)
        and shape[axes[0]] <= min(machine_model.LARGEST_ONE_HOT, np.iinfo(indices.aval.dtype).max)
        and eqn.params["mode"] is not CLIP
    ):
        return None
    (axis,) = axes

    def choose(indices: Any, updates: Any) -> list[Any]:
        indices = wide_indices(indices, shape[axis])
        places = broadcast_in_dim(reshape(indices, rows), shape=shape, broadcast_dimensions=rows_at)
        values = add(reshape(updates, rows), scalar_like(updates, 0))  # 0 + −0 is 0
        values = broadcast_in_dim(values, shape=shape, broadcast_dimensions=rows_at)
        here = eq(iota(indices.dtype, shape, axis), places)
        return [select_n(here, full(shape, scalar_like(updates, 0)), values)]

    return spliced(choose, [indices, updates], eqn)


# --- updates for some rows --------------------------------------------------------------------------------


class _Flag(Record):
    """A choice between two arrays that is the same along all axes but a few.

    atom: what chooses, without the other axes; axes: those that it has; first: which case is the old array
    """

    atom: Atom
    axes: tuple[int, ...]
    first: int

    def cases(self, old: Any, new: Any) -> tuple[Any, Any]:
        return (new, old) if self.first else (old, new)


def made_for_some_rows(eqn: Eqn, view: View) -> list[Eqn] | None:
    """An update that is made for some rows instead of a choice between all of the old array and the updated one.

    So a mapped loop writes into its carry in place, whichever examples have ended.
    """
    which, *cases = eqn.invars
    if len(cases) != 2 or which.aval.dtype != bool:
        return None
    for first, (old, new) in enumerate((cases, cases[::-1])):
        update = _last_update(new, old, view)
        flag = _flag_of(which, first, view) if update is not None else None
        if update is not None and flag is not None:
            of_kind = _of_scatter if update.primitive in SCATTERS else _of_slice
            return of_kind(eqn, flag, old, update)
    return None


def _flag_of(which: Atom, first: int, view: View) -> _Flag | None:
    if not which.aval.shape:
        return _Flag(which, (), first)
    repeated = view.definition(which, broadcast_in_dim_p)
    if repeated is None:
        return None
    (flag,), axes = repeated.invars, tuple(repeated.params["broadcast_dimensions"])
    is_whole = flag.aval.shape == tuple(which.aval.shape[d] for d in axes)
    return _Flag(flag, axes, first) if is_whole and list(axes) == sorted(axes) else None


def _last_update(new: Atom, old: Atom, view: View) -> Eqn | None:
    """The last of the updates that make one array of another, if nobody reads what lies between."""
    last, array = None, new
    while array is not old:
        update = view.definition(array, *SCATTERS, *SLICES)
        if update is None or not isinstance(array, Var) or view.uses[array] != 1:
            return None
        last, array = last or update, update.invars[0]
    return last


def _of_scatter(eqn: Eqn, flag: _Flag, old: Atom, update: Eqn) -> list[Eqn] | None:
    """A scatter that drops what it has for the other rows: their indices are none of the operand's."""
    operand, indices, updates = update.invars
    numbers, added = update.params["dimension_numbers"], []
    if not numbers.scatter_dims_to_operand_dims or 0 in operand.aval.shape:
        return None
    sizes = slice_sizes(operand.aval.shape, updates.aval.shape, numbers)
    for d in flag.axes:
        if d in numbers.operand_batching_dims:
            continue
        named = (*numbers.inserted_window_dims, *numbers.scatter_dims_to_operand_dims)
        if d in named or sizes[d] != operand.aval.shape[d]:
            return None
        numbers, place = _with_batch_axis(numbers, d)
        added.append((place, sizes[d]))
    pairs = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    at = [pairs[d] for d in flag.axes]
    if at != sorted(at):
        return None
    clips = update.params["mode"] is CLIP
    promises = {"indices_are_sorted": False, "unique_indices": update.params["unique_indices"] and not clips}

    def made(which: Any, flag_of_rows: Any, old: Any, operand: Any, indices: Any, updates: Any) -> list[Any]:
        indices = wide_indices(indices, max(operand.shape))
        if clips:
            lasts = [operand.shape[d] - sizes[d] for d in numbers.scatter_dims_to_operand_dims]
            parts = [full((*indices.shape[:-1], 1), np.asarray(last, indices.dtype)[()]) for last in lasts]
            indices = clamp(full_like(indices, 0), indices, concatenate(parts, dimension=indices.ndim - 1))
        for place, size in added:
            shape = (*indices.shape[:place], size, *indices.shape[place:])
            others = [a for a in range(len(shape)) if a != place]
            indices = broadcast_in_dim(indices, shape=shape, broadcast_dimensions=others)
        wide = broadcast_in_dim(flag_of_rows, shape=indices.shape, broadcast_dimensions=at)
        indices = select_n(wide, *flag.cases(full_like(indices, -1), indices))
        params = {**update.params, **promises, "dimension_numbers": numbers, "mode": FILL_OR_DROP}
        return [bind(update.primitive, select_n(which, *flag.cases(old, operand)), indices, updates, **params)]

    return spliced(made, [eqn.invars[0], flag.atom, old, operand, indices, updates], eqn)


def _with_batch_axis(numbers: ScatterDimensionNumbers, axis: int) -> tuple[ScatterDimensionNumbers, int]:
    """A scatter that pairs an axis of the operand with one of the indices, instead of writing all of it at once.

    Gives also the place of that axis among those of the indices.
    """
    windows, inserted, components, paired, places = numbers
    order = [d for d in range(len(windows) + len(inserted) + len(paired)) if d not in (*inserted, *paired)]
    own = windows[order.index(axis)]
    place = own - sum(w < own for w in windows)
    pairs = sorted([*zip(paired, (p + (p >= place) for p in places)), (axis, place)])
    left = tuple(w for w in windows if w != own)
    paired, places = zip(*pairs)
    return ScatterDimensionNumbers(left, inserted, components, paired, places), place


def _of_slice(eqn: Eqn, flag: _Flag, old: Atom, update: Eqn) -> list[Eqn] | None:
    """A slice that is replaced by itself in the other rows."""
    operand, part, *starts = update.invars
    places = update.params
    if any(part.aval.shape[d] != operand.aval.shape[d] for d in flag.axes):
        return None

    def made(which: Any, flag_of_rows: Any, old: Any, operand: Any, part: Any, *starts: Any) -> list[Any]:
        base = select_n(which, *flag.cases(old, operand))
        there = slice_like(base, part, **places) if places else dynamic_slice(base, starts, part.shape)
        wide = broadcast_in_dim(flag_of_rows, shape=part.shape, broadcast_dimensions=flag.axes)
        part = select_n(wide, *flag.cases(there, add(there, part) if update.primitive is add_to_slice_p else part))
        return [update_slice(base, part, **places) if places else dynamic_update_slice(base, part, starts)]

    return spliced(made, [eqn.invars[0], flag.atom, old, operand, part, *starts], eqn)
