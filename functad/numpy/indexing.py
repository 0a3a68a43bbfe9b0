"""`x[index]`: an index expression is read into entries, and lowered to slices, a dynamic slice, or one gather.

Knows shapes and index arrays; updates of indexed elements are in `updates`, `take` and its like in `selecting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad.array import Array, ArrayImpl, detached
from functad.config import config
from functad.device_arrays import DeviceArray
from functad.dtypes import kind_of
from functad.eager import runs_bare
from functad.errors import ArgumentError, ConcretizationError, DTypeError, MaskError, OutOfBoundsError
from functad.evaluation import aval_of
from functad.numpy.building import filled
from functad.numpy.index_plan import (
    NEW,
    IndexEntry,
    index_layout,
    indices_of,
    joint_positions,
    position_dtype,
)
from functad.numpy.promotion import asarray
from functad.primitives import dynamic_slicing, gather_scatter, structure
from functad.primitives import elementwise as el
from functad.primitives.common import broadcast_in_dim, scalar_like
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from functad.records import NamedTuple
from functad.system.once import imported
from functad.tracing import Tracer

# --- reading an index expression --------------------------------------------------------------------


READING = "x.at[index].get(mode='clip'), or mode='fill'"
"""What to write where positions outside of the array are meant to be read; other operations have texts of their own."""


def read_index(
    shape: tuple[int, ...], index: Any, remedy: str | None = READING, wraps: bool = True
) -> list[IndexEntry]:
    """The entries of an index expression: one for each axis of the array, and one for each new axis.

    Integers and lists of Python's that lie outside of the array raise an error that recommends the remedy; with None
    they do not. Arrays do only with `config.debug_index`: they mean the same whether they are traced or not.
    Negative positions count from the end, unless `wraps` is False: then they lie outside. Bounds of slices always do.
    """
    parts: Sequence[Any] = index if isinstance(index, tuple) else (index,)
    if not _BASIC.issuperset(map(type, parts)):
        parts = _expand_masks(parts)
    consumed = ellipses = 0
    for part in parts:
        if part is Ellipsis:
            ellipses += 1
        elif part is not None:
            consumed += 1
    if consumed > len(shape):
        raise OutOfBoundsError(f"an array of shape {shape} has {len(shape)} axes, but {consumed} were indexed")
    if ellipses > 1:
        raise ArgumentError("an index takes one ellipsis (...) at most")
    entries: list[IndexEntry] = []
    axis = 0
    for part in parts if ellipses else (*parts, Ellipsis):
        if part is None:
            entries.append(NEW)
        elif part is Ellipsis:
            whole = shape[axis : axis + len(shape) - consumed]
            entries += map(_whole, whole)
            axis += len(whole)
        else:
            entries.append(_read_part(part, axis, shape, remedy, wraps))
            axis += 1
    return entries


_NOT_READ = (Tracer, DeviceArray)
"""What is not looked at: it has no elements, or they would have to be copied from a device."""

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})
"""The types of index parts that hold no array and no mask."""


def _expand_masks(parts: Sequence[Any]) -> list[Any]:
    """Replace each boolean mask by the integer arrays of its true positions."""
    expanded: list[Any] = []
    for part in parts:
        if isinstance(part, (list, tuple, range)):
            part = asarray(part) if len(part) else np.zeros(0, np.int32)
            if isinstance(part, ArrayImpl) and kind_of(part.dtype) in "iu":
                part = _Written(part._value)
        elif isinstance(part, np.ndarray):
            dtypes.dtype_of_ndarray(part)  # raises for a masked one
        if getattr(part, "dtype", None) == np.bool_:
            expanded.extend(_positions_of_mask(part))
        else:
            expanded.append(part)
    return expanded


def _positions_of_mask(mask: Any) -> list[Any]:
    if isinstance(mask, Tracer):
        known = mask.concrete("A boolean index", _MASK_REWRITE)
    else:
        known = np.asarray(mask)
    return [_NonzeroPositions(p, n) for p, n in zip(np.nonzero(known), known.shape)]


class _NonzeroPositions(NamedTuple):
    """The true positions of a mask along one axis, and the size that the mask has there."""

    values: np.ndarray
    size: int


class _Written(NamedTuple):
    """Positions that stand in the program as a list."""

    values: np.ndarray


_MASK_REWRITE = """The number of elements that a mask selects must be known. Instead of
    x[mask].sum()
write
    functad.numpy.where(mask, x, 0).sum()
    functad.numpy.sum(x, where=mask)
and instead of `x.at[mask].set(v)`
    functad.numpy.where(mask, v, x)"""


def _read_part(part: Any, axis: int, shape: tuple[int, ...], remedy: str | None, wraps: bool) -> IndexEntry:
    size = shape[axis]
    if type(part) is int:
        return IndexEntry("int", 0, 0, 1, _wrapped(part, axis, shape, remedy, wraps))
    if type(part) is slice:
        return _read_slice(part, size)
    if isinstance(part, _NonzeroPositions):
        if part.size not in (size, 0):  # one without elements selects none, as NumPy has it
            raise MaskError(
                f"a boolean index of size {part.size} does not fit axis {axis} of an array of shape {shape}"
            )
        return IndexEntry("array", value=ArrayImpl(part.values.astype(position_dtype(shape))))
    if isinstance(part, _Written):
        if remedy is not None:
            check_bounds(part.values, axis, shape, remedy, wraps)
        return IndexEntry("array", value=wrap_indices(part.values, axis, shape, None, wraps))
    if isinstance(part, (Tracer, ArrayImpl, np.ndarray, np.integer)):
        if kind_of(part.dtype) not in "iu":
            raise _not_an_index(part)
        if not part.shape and not isinstance(part, _NOT_READ):
            place = int(part)
            if remedy is None or _least(size, wraps) <= place < size:
                return IndexEntry("int", value=_wrapped(place, axis, shape, None, wraps))
        return IndexEntry("array", value=wrap_indices(part, axis, shape, remedy, wraps))
    if hasattr(part, "__index__"):
        return IndexEntry("int", value=_wrapped(part.__index__(), axis, shape, remedy, wraps))
    raise _not_an_index(part)


def _read_slice(part: slice, size: int) -> IndexEntry:
    try:
        start, stop, step = part.indices(size)
    except (TypeError, ValueError) as problem:
        for bound in (part.start, part.stop, part.step):
            if isinstance(bound, Tracer) and kind_of(bound.dtype) not in "iu":
                raise _not_an_index(bound) from None
        if isinstance(problem, ConcretizationError):
            raise
        raise ArgumentError(f"the slice {part} is no index: {problem}") from None
    length = len(range(start, stop, step))
    return IndexEntry("slice", start if length else 0, length, step if length else 1)


def _not_an_index(part: Any) -> Exception:
    what = aval_of(part).str_short() if hasattr(part, "dtype") else f"{part!r} of type {type(part).__name__}"
    return DTypeError(
        f"{what} is no index: an index is made of integers, slices, None, ..., and integer or boolean arrays; "
        "convert with x.astype(int) if whole numbers are meant"
    )


def _least(size: int, wraps: bool) -> int:
    """The least position on an axis of that size."""
    return -size if wraps else 0


def _wrapped(index: int, axis: int, shape: tuple[int, ...], remedy: str | None, wraps: bool) -> int:
    size = shape[axis]
    if remedy is not None and not _least(size, wraps) <= index < size:
        raise _out_of_bounds(index, axis, shape, remedy, wraps)
    place = index + size if wraps and index < 0 else index
    return min(max(place, -1), size)  # what lies outside still does


def wrap_indices(
    index: Any, axis: int, shape: tuple[int, ...], remedy: str | None = READING, wraps: bool = True
) -> Array:
    """An index array with negative positions counted from the end; as they are if `wraps` is False.

    With `config.debug_index` positions outside of the axis raise, unless remedy is None.
    """
    size = shape[axis]
    if remedy is not None and config.debug_index:
        error = partial(_out_of_bounds, axis=axis, shape=shape, remedy=remedy, wraps=wraps)
        imported("functad.debug.bounds").check_positions(index, _least(size, wraps), size - 1, error)
    if isinstance(index, _NOT_READ):
        if not wraps or kind_of(index.dtype) == "u":
            return index
        places = el.wide_indices(index, size)
        return el.select_n(el.lt(places, scalar_like(places, 0)), places, el.add(places, scalar_like(places, size)))
    known = index._value if type(index) is ArrayImpl else np.asarray(index)
    low, high = _range(known)
    if low < -size or high > size:
        known = np.clip(known, -size - 1, size)  # what lies outside still does
    places = known.astype(position_dtype(shape))
    return ArrayImpl(places if low >= 0 or not wraps else np.where(places < 0, places + size, places))


def _range(known: np.ndarray) -> tuple[int, int]:
    """The smallest and the largest element of integers; 0 of none."""
    if not known.size:
        return 0, 0
    return int(known.min()), int(known.max())


def check_bounds(index: np.ndarray, axis: int, shape: tuple[int, ...], remedy: str = "", wraps: bool = True) -> None:
    """Raise where a known index array points outside of an axis."""
    low, high = _range(index)
    if index.size and not _least(shape[axis], wraps) <= low <= high < shape[axis]:
        raise _out_of_bounds(high if high >= shape[axis] else low, axis, shape, remedy, wraps)


def _out_of_bounds(index: int, axis: int, shape: tuple[int, ...], remedy: str, wraps: bool) -> OutOfBoundsError:
    size = shape[axis]
    allowed = f"{_least(size, wraps)} to {size - 1}" if size else "none, the axis is empty"
    return OutOfBoundsError(
        f"index {index} is out of bounds for axis {axis} of size {size} of an array of shape {shape} "
        f"(allowed: {allowed})" + (f". If that is meant, say what happens there: {remedy}" if remedy else "")
    )


# --- x[index] ---------------------------------------------------------------------------------------


def without_single_masks(x: Any, index: Any) -> tuple[Any, Any]:
    """The array and index with a new axis for each single True or False, of which all or nothing is taken."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if not any(_is_single_mask(p) for p in parts):
        return x, index
    consumed = [_axes_of(p) for p in parts]
    axis, added = 0, []
    for position, part in enumerate(parts):
        if _is_single_mask(part):
            known = part.concrete("A boolean index", _MASK_REWRITE) if isinstance(part, Tracer) else np.asarray(part)
            parts[position] = np.zeros(int(known), np.int32)
            added.append(axis)
            axis += 1
        axis += consumed[position] if part is not Ellipsis else x.ndim - sum(consumed)
    return structure.expand_dims(x, tuple(added)), tuple(parts)


def _is_single_mask(part: Any) -> bool:
    if isinstance(part, (bool, np.bool_)):
        return True
    return getattr(part, "dtype", None) == np.bool_ and getattr(part, "shape", None) == ()


def _axes_of(part: Any) -> int:
    """How many axes of the array a part of an index stands for."""
    if part is None or part is Ellipsis or _is_single_mask(part):
        return 0
    if isinstance(part, (list, tuple)):
        part = asarray(part)
    return len(part.shape) if getattr(part, "dtype", None) == np.bool_ else 1


def getitem(x: Any, index: Any) -> Array:
    """x[index], with NumPy's rules for basic and advanced indexing."""
    if type(x) is ArrayImpl and runs_bare():
        found = _by_numpy(x._value, index)
        if found is not None:
            return ArrayImpl(found, x.weak_type)
    if type(index) not in _BASIC and not (type(index) is tuple and _BASIC.issuperset(map(type, index))):
        x, index = without_single_masks(x, index)
    entries = read_index(x.shape, index)
    for entry in entries:
        if entry.kind == "array":
            break
    else:
        return slice_basic(x, entries)
    if all(aval_of(e.value).shape == () for e in entries if e.kind == "array"):
        return _dynamic(x, entries)
    return gather(x, entries, GatherScatterMode.PROMISE_IN_BOUNDS, None)


def _by_numpy(value: np.ndarray, index: Any) -> Any:
    """What NumPy finds there; None where it does not say what functad does: outside of the array, and in errors."""
    if type(index) not in _BASIC and not (type(index) is tuple and _BASIC.issuperset(map(type, index))):
        parts = [_known(part) for part in index] if type(index) is tuple else [_known(index)]
        for part in parts:
            if part is _UNKNOWN:
                return None
        index = tuple(parts)
    try:
        found = value[index]
        return found if value.nbytes <= machine_model.HELD_BY_A_VIEW_BYTES else detached(found)
    except (IndexError, TypeError, ValueError, OverflowError):
        return None


_UNKNOWN = object()


def _known(part: Any) -> Any:
    """A part of an index as NumPy takes it, if it is written without arrays, or one of positions or a mask."""
    kind = type(part)
    if kind in _BASIC:
        return part
    if kind is ArrayImpl:
        part = part._value
    elif kind is not np.ndarray:
        return _UNKNOWN
    return part if part.dtype.char in _POSITIONS else _UNKNOWN


_POSITIONS = frozenset("?bhilqBHI")
"""The dtypes of index arrays that NumPy reads without changing a number: unsigned 64 bits would become negative."""


def slice_basic(x: Any, entries: Sequence[IndexEntry]) -> Array:
    """Apply slices, known integers and new axes: slice, reverse, squeeze, broadcast."""
    starts: list[int] = []
    limits, strides = [], []
    reversed_axes, dropped = [], []
    places = []  # of the axes that stay, in the result
    result_rank = 0
    for kind, first, count, step, value in entries:
        if kind == "new":
            result_rank += 1
            continue
        if kind == "int":
            first, count, step = value, 1, 1
            dropped.append(len(starts))
        else:
            places.append(result_rank)
            result_rank += 1
            if step < 0:
                reversed_axes.append(len(starts))
                first, step = first + (count - 1) * step, -step
        starts.append(first)
        limits.append(first + (count - 1) * step + 1 if count else first)
        strides.append(step if count > 1 else 1)
    contiguous = strides.count(1) == len(strides)
    if tuple(limits) != x.shape or any(starts) or not contiguous:
        x = structure.slice_(x, starts, limits, None if contiguous else strides)
    if reversed_axes:
        x = structure.rev(x, reversed_axes)
    if dropped:
        x = structure.squeeze(x, dropped)
    if result_rank != len(places):
        x = _with_new_axes(x, places, result_rank)
    return x


def _with_new_axes(x: Any, places: Sequence[int], rank: int) -> Any:
    sizes = [1] * rank
    for place, size in zip(places, x.shape):
        sizes[place] = size
    return broadcast_in_dim(x, shape=sizes, broadcast_dimensions=places)


def _sliced_first(x: Any, entries: Sequence[IndexEntry]) -> tuple[Any, list[IndexEntry]]:
    """Apply the slices only; the other entries then meet whole axes."""
    only_slices = [e if e.kind == "slice" else _whole(n) for e, n in zip(_without_new(entries), x.shape)]
    rest = [IndexEntry("slice", 0, e.length) if e.kind == "slice" else e for e in entries]
    return slice_basic(x, only_slices), rest


def _without_new(entries: Sequence[IndexEntry]) -> list[IndexEntry]:
    return [e for e in entries if e.kind != "new"]


@lru_cache(maxsize=256)
def _whole(size: int) -> IndexEntry:
    return IndexEntry("slice", 0, size)


def _dynamic(x: Any, entries: Sequence[IndexEntry]) -> Any:
    """Known and traced integers: one slice whose position is computed."""
    _refuse_empty(x.shape, entries)
    x, entries = _sliced_first(x, entries)
    consuming = _without_new(entries)
    starts = joint_positions(x.shape, [0 if e.kind == "slice" else e.value for e in consuming])
    sizes = [n if e.kind == "slice" else 1 for e, n in zip(consuming, x.shape)]
    x = dynamic_slicing.dynamic_slice(x, starts, sizes)
    return slice_basic(x, [e if e.kind in ("slice", "new") else IndexEntry("int", value=0) for e in entries])


def _refuse_empty(shape: tuple[int, ...], entries: Sequence[IndexEntry]) -> None:
    """Raise where elements of an axis that has none are asked for, whatever becomes of positions outside."""
    if 0 not in shape:
        return
    places = [(axis, e) for axis, e in enumerate(_without_new(entries)) if e.kind in ("int", "array")]
    if any(0 in aval_of(e.value).shape for _, e in places):
        return  # nothing is asked for
    for axis, _ in places:
        if shape[axis] == 0:
            raise OutOfBoundsError(
                f"axis {axis} of an array of shape {shape} is empty, so an index finds no element there; "
                "look at x.size or x.shape first, or do not index where there may be nothing"
            )


# --- index arrays -----------------------------------------------------------------------------------


def gather(x: Any, entries: Sequence[IndexEntry], mode: GatherScatterMode, fill_value: Any) -> Array:
    """The elements that index arrays name."""
    _refuse_empty(x.shape, entries)
    if 0 in x.shape and any(n == 0 and e.kind == "array" for n, e in zip(x.shape, _without_new(entries))):
        # None is asked for; a gather wants an axis to take none from.
        x = filled(x.dtype.type(0), tuple(n or int(e.kind == "array") for n, e in zip(x.shape, _without_new(entries))))
    x, entries = _sliced_first(x, entries)
    layout = index_layout(x.shape, entries)
    result = gather_scatter.gather(
        x,
        indices_of(layout, entries),
        dimension_numbers=GatherDimensionNumbers(layout.window_dims, layout.collapsed, layout.indexed, (), ()),
        slice_sizes=layout.sizes,
        indices_are_sorted=layout.distinct,
        unique_indices=layout.distinct,
        mode=mode,
        fill_value=fill_value,
    )
    return structure.expand_dims(result, layout.new_axes) if layout.new_axes else result
