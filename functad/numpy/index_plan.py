"""How the axes of `x[index]` come from slices, strides and index arrays, in the terms of gather and scatter.

Knows the entries of an index already read; neither the array's values nor what is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.evaluation import aval_of
from functad.numpy.promotion import convert, joint_shape
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim
from functad.tracing import Tracer


class IndexEntry(NamedTuple):
    """One part of an index: `kind` is "new", "slice", "int" (known) or "array" (also a traced scalar)."""

    kind: str
    start: int = 0
    length: int = 0
    step: int = 1
    value: Any = None  # the known integer, or the index array with negative positions already wrapped

    @property
    def ascending(self) -> tuple[int, int]:
        """The lowest position of a slice, and its step counted upwards."""
        if self.step > 0:
            return self.start, self.step
        return self.start + (self.length - 1) * self.step, -self.step


NEW = IndexEntry("new")


class Dim(NamedTuple):
    """One axis of the result.

    kind: "window" (runs along axis `number` of the array), "stride" (along every few elements of that axis),
    "batch" (axis `number` of the broadcast index arrays) or "new".
    """

    kind: str
    number: int
    size: int
    backwards: bool


class Column(NamedTuple):
    """The positions along one axis of the array, and the batch axes along which they vary."""

    axis: int
    value: Any
    along: Sequence[Dim]


class IndexPlan(NamedTuple):
    """Where the elements that an index names lie; axes of the result are counted without new ones."""

    indices: Any  # integers of shape (*batch, number of indexed axes)
    window_dims: tuple[int, ...]  # axes of the result that run through a window
    collapsed: tuple[int, ...]  # axes of the array that have no window axis
    indexed: tuple[int, ...]  # axes of the array that `indices` address
    sizes: tuple[int, ...]  # of the window along each axis of the array
    shape: tuple[int, ...]  # of the result
    reversed_dims: tuple[int, ...]  # axes of the result that run backwards
    new_axes: tuple[int, ...]  # axes of the whole result that are new
    distinct: bool  # no element is named twice


def plan_of(shape: tuple[int, ...], entries: Sequence[IndexEntry]) -> IndexPlan:
    """Lay out the result of an index into an array of the given shape."""
    has_arrays = any(e.kind == "array" and aval_of(e.value).shape for e in entries)
    # Beside index arrays a known integer counts as one, as in NumPy.
    advanced = [i for i, e in enumerate(entries) if has_arrays and e.kind in ("int", "array")]
    batch = joint_shape("an index", [aval_of(entries[i].value).shape for i in advanced])
    layout = _layout(entries, advanced, batch)
    dense = [d for d in layout if d.kind != "new"]
    consuming = [e for e in entries if e.kind != "new"]
    columns = _columns(shape, consuming, dense)
    windows = {d.number: d.size for d in dense if d.kind == "window"}
    return IndexPlan(
        indices=_indices(columns, [d for d in dense if d.kind != "window"]),
        window_dims=tuple(i for i, d in enumerate(dense) if d.kind == "window"),
        collapsed=tuple(a for a in range(len(shape)) if a not in windows),
        indexed=tuple(c.axis for c in columns),
        sizes=tuple(windows.get(a, 1) for a in range(len(shape))),
        shape=tuple(d.size for d in dense),
        reversed_dims=tuple(i for i, d in enumerate(dense) if d.backwards),
        new_axes=tuple(i for i, d in enumerate(layout) if d.kind == "new"),
        distinct=not has_arrays,
    )


def _layout(entries: Sequence[IndexEntry], advanced: Sequence[int], batch: tuple[int, ...]) -> list[Dim]:
    """The axes of the result: those of index arrays stand where the arrays do, or in front if they are apart."""
    adjacent = advanced and list(advanced) == list(range(advanced[0], advanced[-1] + 1))
    place = advanced[0] if adjacent else 0
    layout: list[Dim] = []
    axis = 0
    for position, entry in enumerate(entries):
        if advanced and position == place:
            layout += [Dim("batch", i, n, False) for i, n in enumerate(batch)]
        if entry.kind == "new":
            layout.append(Dim("new", position, 1, False))
            continue
        if entry.kind == "slice":
            kind = "window" if entry.ascending[1] == 1 or entry.length <= 1 else "stride"
            layout.append(Dim(kind, axis, entry.length, entry.step < 0))
        axis += 1
    return layout


def _columns(shape: tuple[int, ...], consuming: Sequence[IndexEntry], dense: Sequence[Dim]) -> list[Column]:
    batch_dims = [d for d in dense if d.kind == "batch"]
    strided = {d.number: d for d in dense if d.kind == "stride"}
    columns = []
    for axis, entry in enumerate(consuming):
        if entry.kind != "slice":
            rank = len(aval_of(entry.value).shape)
            columns.append(Column(axis, entry.value, batch_dims[len(batch_dims) - rank :]))
            continue
        first, step = entry.ascending
        if axis in strided:
            positions = first + step * np.arange(entry.length, dtype=np.int32)
            columns.append(Column(axis, positions, [strided[axis]]))
        elif entry.length != shape[axis]:
            columns.append(Column(axis, first, ()))
    return columns


def _indices(columns: Sequence[Column], batch: Sequence[Dim]) -> Any:
    """The index vectors: one column an indexed axis, each repeated to the batch shape."""
    shape = tuple(d.size for d in batch)
    if not any(isinstance(c.value, Tracer) for c in columns):
        known = np.zeros((*shape, len(columns)), np.int32)
        for i, column in enumerate(columns):
            sizes = [d.size if d in column.along else 1 for d in batch]
            known[..., i] = np.broadcast_to(np.reshape(_repeated(column), sizes), shape)
        if known.shape == (1,):
            return broadcast_in_dim(known[0], shape=(1,), broadcast_dimensions=())
        return ArrayImpl(known)
    common = dtypes.lattice_join(*{(c.value.dtype, False) for c in columns if isinstance(c.value, Array)})[0]
    parts = []
    for column in columns:
        value = column.value
        value = convert(value, common) if isinstance(value, Array) else np.asarray(value, common)
        places = [batch.index(d) for d in column.along]
        value = value if isinstance(value, Array) else ArrayImpl(value) if value.shape else value[()]
        spread = broadcast_in_dim(value, shape=shape, broadcast_dimensions=places)
        parts.append(structure.expand_dims(spread, (len(shape),)))
    return parts[0] if len(parts) == 1 else joining.concatenate(parts, len(shape))


def _repeated(column: Column) -> np.ndarray:
    """The positions with their size-1 axes repeated to the sizes of the batch axes."""
    return np.broadcast_to(np.asarray(column.value), tuple(d.size for d in column.along))
