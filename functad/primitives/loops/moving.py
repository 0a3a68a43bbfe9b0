"""Where each element of a result comes from, for the primitives that cut, pad, reverse, repeat and reinterpret arrays.

Knows index arithmetic only; positions that are read from an array of indices belong to `placing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from functad.dtypes import is_narrow_float, kind_of
from functad.primitives.loops.text import cast, put_to, rounding

Index = tuple[Any, ...]


def slice_rule(
    context: Any,
    index: Index,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> str:
    steps = strides or (1,) * len(index)
    return _read(context, tuple(i * step + start for i, step, start in zip(index, steps, start_indices)))


def rev_rule(context: Any, index: Index, *, dimensions: Sequence[int]) -> str:
    shape = context.out.shape
    return _read(context, tuple(shape[d] - 1 - i if d in dimensions else i for d, i in enumerate(index)))


def same_order_rule(context: Any, index: Index, **_: Any) -> str:
    """The elements in the same row-major order: reshape, squeeze."""
    return str(context.read_flat(0, context.flat(index)))


def iota_rule(context: Any, index: Index, *, dtype: np.dtype, shape: Sequence[int], dimension: int) -> str:
    return f"{rounding(dtype)}(i64({context.text(index[dimension])}))"


def tile_rule(context: Any, index: Index, *, reps: Sequence[int]) -> str:
    sizes = context.avals[0].shape
    return _read(context, tuple(i if r == 1 else i % n for i, n, r in zip(index, sizes, reps)))


def pad_rule(context: Any, index: Index, *, padding_config: Sequence[tuple[int, int, int]]) -> str:
    padding = str(context.read(1, ()))
    starts, steps = [low for low, _, _ in padding_config], [interior + 1 for _, _, interior in padding_config]
    found = _in_lattice(context, index, context.avals[0].shape, starts, steps)
    if found is None:
        return padding
    source, conditions = found
    element = _read(context, source)
    return f"where({' & '.join(conditions)}, {element}, {padding})" if conditions else element


def update_slice_rule(
    context: Any, index: Index, *, start_indices: Sequence[int], strides: Sequence[int] | None, kind: str
) -> str:
    steps = strides or (1,) * len(index)
    found = _in_lattice(context, index, context.avals[1].shape, start_indices, steps)
    if found is None:
        return _read(context, index)
    source, conditions = found
    if kind == "set" and not conditions:
        return str(context.read(1, source))
    before = _read(context, index)
    after = put_to(kind, context.out.dtype, before, str(context.read(1, source)))
    if kind != "set" and is_narrow_float(context.out.dtype):
        after = f"{rounding(context.out.dtype)}({after})"
    return f"where({' & '.join(conditions)}, {after}, {before})" if conditions else after


def _in_lattice(
    context: Any, index: Index, shape: Sequence[int], starts: Sequence[int], steps: Sequence[int]
) -> tuple[Index, list[str]] | None:
    """Where elements that lie `steps` apart, from `starts` on, are found: an index among them, and when it counts.

    None if the index names none of them in this piece of the result; the conditions are those that hold at some points.
    """
    source, conditions = [], []
    for i, n, start, step in zip(index, shape, starts, steps):
        last = start + (n - 1) * step
        is_before, is_within = context.less(i, start), context.less(i, last + 1)
        inside = context.clamp(i - start, 0, last - start) if n else i
        meets = context.multiple(inside, step)
        if is_before is True or is_within is False or meets is False or not n:
            return None
        if is_before is None:
            conditions.append(f"({context.text(i)} >= {start})")
        if is_within is None:
            conditions.append(f"({context.text(i)} <= {last})")
        if meets is None:
            conditions.append(f"({context.text(inside % step)} == 0)")
        source.append(inside // step)
    return tuple(source), conditions


def dynamic_slice_rule(context: Any, index: Index, *, slice_sizes: Sequence[int]) -> str:
    starts = [context.avals[1 + d] for d in range(len(index))]
    source = []
    for d, (i, n, size, aval) in enumerate(zip(index, context.avals[0].shape, slice_sizes, starts)):
        if n == size:
            source.append(i)
            continue
        start = context.let(clamped_text(context.read(1 + d, ()), aval.dtype, n - size))
        source.append(i + context.index(start, 0, n - size))
    return _read(context, tuple(source))


def concatenate_rule(context: Any, index: Index, *, dimension: int) -> str:
    sizes = [aval.shape[dimension] for aval in context.avals]

    def element(k: int, place: Any) -> str:
        return str(context.read(k, (*index[:dimension], place, *index[dimension + 1 :])))

    return _of_joined(context, index[dimension], sizes, element)


def stack_rule(context: Any, index: Index, *, axis: int) -> str:
    def element(k: int, place: Any) -> str:
        return str(context.read(k, (*index[:axis], *index[axis + 1 :])))

    return _of_joined(context, index[axis], [1] * len(context.avals), element)


def _of_joined(context: Any, place: Any, sizes: Sequence[int], element: Callable[[int, Any], str]) -> str:
    """The element at a place along the axis of arrays that lie one behind another there."""
    ends = list(accumulate(sizes))
    found = []
    for k, (size, end) in enumerate(zip(sizes, ends)):
        is_before = context.less(place, end) if size else False
        if is_before is not False:
            found.append((element(k, context.clamp(place - (end - size), 0, size - 1)), end))
        if is_before is True:
            break
    text, _ = found.pop()
    for other, end in reversed(found):
        text = f"where({context.text(place)} < {end}, {other}, {text})"
    return text


def split_rule(context: Any, index: Index, *, sizes: Sequence[int], axis: int, result: int) -> str:
    first = [0, *accumulate(sizes)][result]
    return _read(context, (*index[:axis], index[axis] + first, *index[axis + 1 :]))


def unstack_rule(context: Any, index: Index, *, axis: int, result: int) -> str:
    place = context.flat(index) * 0 + result
    return _read(context, (*index[:axis], place, *index[axis:]))


def clamped_text(number: str, dtype: np.dtype, last: int) -> str:
    """The text of an integer of the given dtype, moved into `0..last`."""
    if kind_of(dtype) == "u":
        # Compared without a sign: the upper half of uint64 is no int64.
        return f"i64(minimum(u64({number}), u64({last})))"
    return f"maximum(minimum(i64({number}), i64({last})), i64(0))"


def _read(context: Any, index: Index) -> str:
    return str(context.read(0, index))


# --- bits read as another dtype -----------------------------------------------------------------------------


def bitcast_rule(context: Any, index: Index, *, new_dtype: np.dtype) -> str:
    old_dtype = context.avals[0].dtype
    if new_dtype == old_dtype:
        return _read(context, index)
    if new_dtype.itemsize == old_dtype.itemsize:
        return from_pattern(pattern_of(_read(context, index), old_dtype), new_dtype)
    if new_dtype.itemsize < old_dtype.itemsize:
        return _narrower(context, index, old_dtype, new_dtype)
    return _wider(context, index, old_dtype, new_dtype)


def _narrower(context: Any, index: Index, old_dtype: np.dtype, new_dtype: np.dtype) -> str:
    element = _read(context, index[:-1])
    part = context.text(index[-1])
    if kind_of(new_dtype) == "c":
        return f"where({part} == 0, {_half('real')}, {_half('imag')})".format(element)
    word = f"u{8 * old_dtype.itemsize}"
    shifted = f"{pattern_of(element, old_dtype)} >> {word}({8 * new_dtype.itemsize} * {part})"
    return from_pattern(f"u{8 * new_dtype.itemsize}({shifted})", new_dtype)


def _half(part: str) -> str:
    """One float64 of a complex128, as the bits of two float32."""
    pattern = f"bits({{0}}.{part})"
    return f"complex_of(from_bits_f32(u32({pattern})), from_bits_f32(u32({pattern} >> u64(32))))"


def _wider(context: Any, index: Index, old_dtype: np.dtype, new_dtype: np.dtype) -> str:
    count = new_dtype.itemsize // old_dtype.itemsize
    zero = context.flat(index) * 0
    parts = [_read(context, (*index, zero + j)) for j in range(count)]
    if kind_of(new_dtype) == "c":
        return f"complex_of({', '.join(map(_joined, parts))})"
    word = f"u{8 * new_dtype.itemsize}"
    shifted = [
        f"({word}({pattern_of(part, old_dtype)}) << {word}({8 * old_dtype.itemsize * j}))"
        for j, part in enumerate(parts)
    ]
    return from_pattern(f"{word}({' | '.join(shifted)})", new_dtype)


def _joined(element: str) -> str:
    """The bits of a complex64 as one float64."""
    return f"from_bits_f64(u64(bits({element}.real)) | (u64(bits({element}.imag)) << u64(32)))"


def pattern_of(element: str, dtype: np.dtype) -> str:
    """The text of the unsigned integer with the same bits."""
    if kind_of(dtype) in "bu":
        return element
    return f"bits_{rounding(dtype)}({element})" if is_narrow_float(dtype) else f"bits({element})"


def from_pattern(pattern: str, dtype: np.dtype) -> str:
    """The text of the value with the bits of an unsigned integer of the same size."""
    if kind_of(dtype) in "bu":
        return f"{cast(dtype)}({pattern})"
    return f"from_bits_{rounding(dtype)}({pattern})"
