"""How the axes of `x[index]` come from slices, strides and index arrays, in the terms of gather and scatter.

Knows the entries of an index already read; neither the array's values nor what is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functad.array import Array, ArrayImpl
from functad.device_arrays import DeviceArray
from functad.numpy.promotion import convert, joint_shape
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim
from functad.primitives.elementwise import wide_indices
from functad.records import NamedTuple
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
    known: Any  # integers; None: those of the index's own entry for that axis
    along: tuple[int, ...]


class IndexLayout(NamedTuple):
    """Where the elements that an index names lie; axes of the result are counted without new ones."""

    columns: tuple[Column, ...]  # of the index vectors
    batch: tuple[int, ...]  # the axes along which index vectors vary: their sizes
    window_dims: tuple[int, ...]  # axes of the result that run through a window
    collapsed: tuple[int, ...]  # axes of the array that have no window axis
    indexed: tuple[int, ...]  # axes of the array that the index vectors address
    sizes: tuple[int, ...]  # of the window along each axis of the array
    shape: tuple[int, ...]  # of the result
    reversed_dims: tuple[int, ...]  # axes of the result that run backwards
    new_axes: tuple[int, ...]  # axes of the whole result that are new
    array_shape: tuple[int, ...]  # of what is indexed
    distinct: bool  # no element is named twice


class Window(NamedTuple):
    """A part of an array at known places, every few elements of it; an axis at one position has size 1 there."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]


def window_of(shape: tuple[int, ...], entries: Sequence[IndexEntry]) -> Window | None:
    """The window that an index names, if it has slices, new axes and known positions within the array only."""
    ranges = []
    for n, entry in zip(shape, [e for e in entries if e.kind != "new"]):
        if entry.kind == "slice":
            ranges.append((*entry.ascending, entry.length) if entry.length else (0, 1, 0))
        elif entry.kind == "int" and 0 <= entry.value < n:
            ranges.append((entry.value, 1, 1))
        else:
            return None
    return Window(*map(tuple, zip(*ranges))) if ranges else Window((), (), ())


def position_dtype(shape: tuple[int, ...]) -> np.dtype:
    """The dtype that holds each position in an array of that shape, and one on either side."""
    return np.dtype(np.int32 if max(shape, default=0) < 2**31 else np.int64)


def joint_positions(shape: tuple[int, ...], positions: Sequence[Any]) -> list[Any]:
    """Positions along axes of an array, known or traced, in one dtype that holds all of them."""
    if len(positions) == 1 and isinstance(positions[0], Array):
        return [*positions]  # unsigned ones may stay so
    wide = [wide_indices(p, max(shape)) if isinstance(p, Array) else p for p in positions]
    dtype = np.result_type(position_dtype(shape), *{p.dtype for p in wide if isinstance(p, Array)})
    return [convert(p, dtype) if isinstance(p, Array) else np.asarray(p, dtype)[()] for p in wide]


def index_layout(shape: tuple[int, ...], entries: Sequence[IndexEntry]) -> IndexLayout:
    """Lay out the result of an index into an array of the given shape; positions in index arrays have no say."""
    return _layout_of(shape, tuple([e._replace(value=_shape_of(e)) for e in entries]))


def _shape_of(entry: IndexEntry) -> tuple[int, ...] | None:
    return entry.value.shape if entry.kind == "array" else () if entry.kind == "int" else None


@lru_cache(maxsize=1024)
def _layout_of(shape: tuple[int, ...], entries: Sequence[IndexEntry]) -> IndexLayout:
    """The layout, given entries with shapes in place of values."""
    has_arrays = any(e.kind == "array" and e.value for e in entries)
    # Beside index arrays a known integer counts as one, as in NumPy.
    advanced = [i for i, e in enumerate(entries) if has_arrays and e.kind in ("int", "array")]
    layout = _layout(entries, advanced, joint_shape("an index", [entries[i].value for i in advanced]))
    dense = [d for d in layout if d.kind != "new"]
    columns = _columns(shape, [e for e in entries if e.kind != "new"], [d for d in dense if d.kind != "window"])
    windows = {d.number: d.size for d in dense if d.kind == "window"}
    return IndexLayout(
        columns=tuple(columns),
        batch=tuple(d.size for d in dense if d.kind != "window"),
        window_dims=tuple(i for i, d in enumerate(dense) if d.kind == "window"),
        collapsed=tuple(a for a in range(len(shape)) if a not in windows),
        indexed=tuple(c.axis for c in columns),
        sizes=tuple(windows.get(a, 1) for a in range(len(shape))),
        shape=tuple(d.size for d in dense),
        reversed_dims=tuple(i for i, d in enumerate(dense) if d.backwards),
        new_axes=tuple(i for i, d in enumerate(layout) if d.kind == "new"),
        array_shape=shape,
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


def _columns(shape: tuple[int, ...], consuming: Sequence[IndexEntry], batch: Sequence[Dim]) -> list[Column]:
    arrays = tuple(i for i, d in enumerate(batch) if d.kind == "batch")
    strided = {d.number: i for i, d in enumerate(batch) if d.kind == "stride"}
    columns = []
    for axis, entry in enumerate(consuming):
        if entry.kind != "slice":
            columns.append(Column(axis, None, arrays[len(arrays) - len(entry.value) :]))
            continue
        first, step = entry.ascending
        if axis in strided:
            positions = first + step * np.arange(entry.length, dtype=position_dtype(shape))
            columns.append(Column(axis, positions, (strided[axis],)))
        elif entry.length != shape[axis]:
            columns.append(Column(axis, first, ()))
    return columns


def indices_of(layout: IndexLayout, entries: Sequence[IndexEntry]) -> Array:
    """The index vectors `(*batch, number of columns)`: each column repeated to the batch shape."""
    own = [e.value for e in entries if e.kind != "new"]
    values = joint_positions(layout.array_shape, [own[c.axis] if c.known is None else c.known for c in layout.columns])
    if any(isinstance(value, (Tracer, DeviceArray)) for value in values):
        return _traced_indices(layout, values)
    known = np.empty((*layout.batch, len(values)), values[0].dtype if values else np.int32)
    for i, (column, value) in enumerate(zip(layout.columns, values)):
        sizes = [1] * len(layout.batch)
        value = value._value if isinstance(value, ArrayImpl) else value
        for d, n in zip(column.along, value.shape):
            sizes[d] = n
        known[..., i] = value.reshape(sizes)
    if known.shape == (1,):
        return broadcast_in_dim(known[0], shape=(1,), broadcast_dimensions=())
    return ArrayImpl(known)


def _traced_indices(layout: IndexLayout, values: Sequence[Any]) -> Any:
    rank = len(layout.batch)
    parts = []
    for column, value in zip(layout.columns, values):
        value = value if isinstance(value, Array) or not value.shape else ArrayImpl(value)
        spread = broadcast_in_dim(value, shape=layout.batch, broadcast_dimensions=column.along)
        parts.append(structure.expand_dims(spread, (rank,)))
    return parts[0] if len(parts) == 1 else joining.concatenate(parts, rank)
