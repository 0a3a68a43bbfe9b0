"""Structural primitives: they cut, pad and reorder arrays, moving elements without changing them.

Knows no positions that are computed: those belong to `dynamic_slicing` and `indexing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, JointlyLinear, OwnDerivative, Primitive, UndefinedPrimal, ZeroDerivative
from functad.lowering_rules import Indexed
from functad.primitives import elementwise
from functad.primitives.common import (
    broadcast_in_dim,
    full,
    full_like,
    instantiate,
    integers,
    move_batch_axis_to_front,
    normal,
    reduce_sum,
    reshape,
    scalar_like,
    transpose,
)
from functad.primitives.joining import (
    check_axes,
    check_one_dtype,
    concatenate,
    insert,
    split,
    stack,
    tile,
    unstack,
)
from functad.primitives.loops import moving
from functad.tracing import bind

__all__ = [
    "broadcast_in_dim",
    "concatenate",
    "expand_dims",
    "iota",
    "pad",
    "reshape",
    "rev",
    "slice_",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]

PaddingConfig = Sequence[tuple[int, int, int]]

# --- squeeze and expand_dims --------------------------------------------------------------------------


def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Drop axes of size 1."""
    dimensions = tuple(dimensions)
    return bind(squeeze_p, array, dimensions=dimensions) if dimensions else array


def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Insert axes of size 1, which are axes `dimensions` of the result."""
    shape = aval_of(array).shape
    rank = len(shape) + len(dimensions)
    kept = [d for d in range(rank) if d not in dimensions]
    expanded = [1] * rank
    for d, n in zip(kept, shape):
        expanded[d] = n
    return broadcast_in_dim(array, shape=expanded, broadcast_dimensions=kept)


def _squeeze_aval(x: Aval, *, dimensions: tuple[int, ...]) -> Aval:
    check_axes("squeeze", "dimensions", dimensions, x)
    for d in dimensions:
        if x.shape[d] != 1:
            raise ShapeError(
                f"squeeze: axis {d} of an operand of shape {x.shape} has size {x.shape[d]}; "
                "only axes of size 1 can be dropped"
            )
    return Aval([n for i, n in enumerate(x.shape) if i not in dimensions], x.dtype)


def _squeeze_impl(x: np.ndarray, *, dimensions: tuple[int, ...]) -> np.ndarray:
    return x.squeeze(dimensions)


def _squeeze_batch(axis_size: int, args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> tuple[Any, int]:
    (d,) = dims
    shifted = tuple(i + (i >= d) for i in dimensions)
    return squeeze(args[0], shifted), d - sum(i < d for i in shifted)


squeeze_p = Primitive(
    name="squeeze",
    doc="Drop axes of size 1.",
    multiple_results=False,
    abstract_eval=_squeeze_aval,
    impl=_squeeze_impl,
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, dimensions: [expand_dims(ct, dimensions)],
    batch=_squeeze_batch,
    lower=Indexed(moving.same_order_rule, free=True, same_memory=True),
    examples=lambda: [
        Example(args=(normal(1, 3, 1),), params={"dimensions": (0, 2)}),
        Example(args=(normal(2, 1, 1),), params={"dimensions": (1,)}),
        Example(args=(integers(1),), params={"dimensions": (0,)}, differentiable=False),
    ],
)

# --- slice --------------------------------------------------------------------------------------------


def slice_(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Every `strides[i]`-th element from `start_indices[i]` to before `limit_indices[i]` along each axis."""
    return bind(
        slice_p,
        operand,
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=None if strides is None else tuple(strides),
    )


def _slice_aval(
    x: Aval,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> Aval:
    steps = strides or (1,) * len(start_indices)
    if not len(start_indices) == len(limit_indices) == len(steps) == x.ndim:
        raise ShapeError(
            f"slice: start_indices={start_indices}, limit_indices={limit_indices} and strides={strides} must "
            f"have one entry for each axis of an operand of shape {x.shape}"
        )
    for axis, (start, limit, step, n) in enumerate(zip(start_indices, limit_indices, steps, x.shape)):
        if not 0 <= start <= limit <= n or step < 1:
            raise ShapeError(
                f"slice: axis {axis} of an operand of shape {x.shape} cannot be cut from {start} to {limit} "
                f"in steps of {step}: it needs 0 <= start <= limit <= {n} and a positive stride"
            )
    return Aval([-((start - limit) // s) for start, limit, s in zip(start_indices, limit_indices, steps)], x.dtype)


def _slice_impl(
    x: np.ndarray,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> np.ndarray:
    if strides is None:
        return x[tuple(map(slice, start_indices, limit_indices))]
    return x[tuple(map(slice, start_indices, limit_indices, strides))]


def _slice_transpose(
    ct: Any,
    x: UndefinedPrimal,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> list[Any]:
    return [pad(ct, scalar_like(ct, 0), padding_around(x.shape, ct.shape, start_indices, strides))]


def padding_around(
    shape: Sequence[int], part: Sequence[int], start_indices: Sequence[int], strides: Sequence[int] | None
) -> list[tuple[int, int, int]]:
    """What must be put around a part of an array, and between its elements, so that they come to lie where they did."""
    config = []
    for n, m, start, step in zip(shape, part, start_indices, strides or (1,) * len(shape)):
        reached = start + (m - 1) * step + 1 if m else start
        config.append((start, n - reached, step - 1))
    return config


def _slice_batch(
    axis_size: int,
    args: Any,
    dims: Any,
    *,
    start_indices: tuple[int, ...],
    limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> tuple[Any, int]:
    (d,) = dims
    new_strides = None if strides is None else insert(strides, d, 1)
    return slice_(args[0], insert(start_indices, d, 0), insert(limit_indices, d, axis_size), new_strides), d


slice_p = Primitive(
    name="slice",
    doc="A rectangular part of an array, possibly with strides.",
    multiple_results=False,
    abstract_eval=_slice_aval,
    impl=_slice_impl,
    jvp=OwnDerivative(),
    transpose=_slice_transpose,
    batch=_slice_batch,
    lower=Indexed(moving.slice_rule, free=True),
    examples=lambda: [
        Example(
            args=(normal(3, 4),),
            params={"start_indices": (1, 0), "limit_indices": (3, 3), "strides": None},
        ),
        Example(
            args=(normal(6, 5),),
            params={"start_indices": (1, 0), "limit_indices": (6, 4), "strides": (2, 3)},
        ),
        Example(args=(normal(3),), params={"start_indices": (2,), "limit_indices": (2,), "strides": (2,)}),
        Example(args=(normal(),), params={"start_indices": (), "limit_indices": (), "strides": None}),
        Example(
            args=(integers(3),),
            params={"start_indices": (0,), "limit_indices": (2,), "strides": None},
            differentiable=False,
        ),
    ],
)

# --- pad ----------------------------------------------------------------------------------------------


def pad(operand: Any, padding_value: Any, padding_config: PaddingConfig) -> Any:
    """Put `(low, high, interior)` elements before, after and between those of an axis; negative ones cut."""
    config = tuple((low, high, interior) for low, high, interior in padding_config)
    return bind(pad_p, operand, padding_value, padding_config=config)


def _padded_size(n: int, low: int, high: int, interior: int) -> int:
    return low + n + max(n - 1, 0) * interior + high


def _pad_aval(x: Aval, value: Aval, *, padding_config: tuple[tuple[int, int, int], ...]) -> Aval:
    check_one_dtype("pad", (x, value))
    if value.shape:
        raise ShapeError(f"pad: padding_value must be a scalar, but has shape {value.shape}")
    if len(padding_config) != x.ndim:
        raise ShapeError(
            f"pad: padding_config={padding_config} must have one (low, high, interior) for each axis of an "
            f"operand of shape {x.shape}"
        )
    shape = [_padded_size(n, *config) for n, config in zip(x.shape, padding_config)]
    for axis, (n, (low, high, interior)) in enumerate(zip(shape, padding_config)):
        if n < 0 or interior < 0:
            raise ShapeError(
                f"pad: axis {axis} of an operand of shape {x.shape} cannot be padded by low={low}, "
                f"high={high} and interior={interior}: the interior and the resulting size, {n}, must not be "
                "negative"
            )
    return Aval(shape, x.dtype)


def _pad_impl(x: np.ndarray, value: np.ndarray, *, padding_config: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    shape = [_padded_size(n, *config) for n, config in zip(x.shape, padding_config)]
    source, target = [], []
    for n, m, (low, _, interior) in zip(x.shape, shape, padding_config):
        step = interior + 1
        first = max(0, -(low // step))  # the first and last element that are not cut off
        last = min(n, (m - 1 - low) // step + 1)
        if first >= last:
            return np.full(shape, value, x.dtype)
        source.append(slice(first, last))
        target.append(slice(low + first * step, low + (last - 1) * step + 1, step))
    inside = x[tuple(source)]
    if inside.shape == tuple(shape):
        return inside
    out = np.full(shape, value, x.dtype)
    out[tuple(target)] = inside
    return out


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> list[Any]:
    operand_ct = _unpad(ct, padding_config)
    if not isinstance(value, UndefinedPrimal):
        return [operand_ct, None]
    # Summed where padding is: a difference of sums would lose what is small beside the others, or infinite.
    is_padding = pad(full(operand_ct.shape, np.bool_(False)), np.bool_(True), padding_config)
    value_ct = reduce_sum(elementwise.select_n(is_padding, full_like(ct, 0), ct), axes=range(len(padding_config)))
    return [operand_ct if isinstance(x, UndefinedPrimal) else None, value_ct]


def _unpad(ct: Any, padding_config: tuple[tuple[int, int, int], ...]) -> Any:
    """The elements of a padded array that are not padding, with zeros where they were cut off."""
    if any(low or high for low, high, _ in padding_config):
        ct = pad(ct, scalar_like(ct, 0), [(-low, -high, 0) for low, high, _ in padding_config])
    if not any(interior for _, _, interior in padding_config):
        return ct
    strides = [interior + 1 for _, _, interior in padding_config]
    return slice_(ct, (0,) * len(strides), ct.shape, strides)


def _pad_batch(
    axis_size: int, args: Any, dims: Any, *, padding_config: tuple[tuple[int, int, int], ...]
) -> tuple[Any, int]:
    (x, value), (d, value_dim) = args, dims
    if value_dim is None:
        return pad(x, value, insert(padding_config, d, (0, 0, 0))), d
    x = move_batch_axis_to_front(x, d, axis_size)
    config = insert(padding_config, 0, (0, 0, 0))
    padded = pad(x, scalar_like(x, 0), config)
    is_padding = pad(full(x.shape, np.bool_(False)), np.bool_(True), config)
    values = broadcast_in_dim(value, shape=padded.shape, broadcast_dimensions=(0,))
    return elementwise.select_n(is_padding, padded, values), 0


pad_p = Primitive(
    name="pad",
    doc="Put elements around and between those of an array, or cut off its edges.",
    multiple_results=False,
    abstract_eval=_pad_aval,
    impl=_pad_impl,
    jvp=JointlyLinear(
        lambda primals, out, tangents, *, padding_config: pad(
            instantiate(tangents[0]), instantiate(tangents[1]), padding_config
        ),
        slice(None),
    ),
    transpose=_pad_transpose,
    batch=_pad_batch,
    lower=Indexed(moving.pad_rule, once=True),
    examples=lambda: [
        Example(args=(normal(2, 3), normal()), params={"padding_config": ((1, 2, 0), (0, 1, 2))}),
        Example(args=(normal(4, 3), normal()), params={"padding_config": ((-1, -1, 0), (2, -1, 0))}),
        Example(args=(normal(4), normal()), params={"padding_config": ((-2, 1, 2),)}),
        Example(args=(normal(2), normal()), params={"padding_config": ((-3, 2, 0),)}),
        Example(args=(normal(0, 2), normal()), params={"padding_config": ((1, 1, 3), (0, 0, 1))}),
        Example(args=(normal(), normal(seed=1)), params={"padding_config": ()}),
        Example(args=(integers(2), np.int32(7)), params={"padding_config": ((1, 0, 1),)}, differentiable=False),
    ],
)

# --- rev and iota -------------------------------------------------------------------------------------


def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Reverse the order of the elements along some axes."""
    dimensions = tuple(dimensions)
    return bind(rev_p, operand, dimensions=dimensions) if dimensions else operand


def _rev_aval(x: Aval, *, dimensions: tuple[int, ...]) -> Aval:
    check_axes("rev", "dimensions", dimensions, x)
    return Aval(x.shape, x.dtype)


def _rev_batch(axis_size: int, args: Any, dims: Any, *, dimensions: tuple[int, ...]) -> tuple[Any, int]:
    (d,) = dims
    return rev(args[0], [i + (i >= d) for i in dimensions]), d


rev_p = Primitive(
    name="rev",
    doc="Reverse the order of the elements along some axes.",
    multiple_results=False,
    abstract_eval=_rev_aval,
    impl=lambda x, *, dimensions: np.flip(x, dimensions),
    jvp=OwnDerivative(),
    transpose=lambda ct, x, *, dimensions: [rev(ct, dimensions)],
    batch=_rev_batch,
    lower=Indexed(moving.rev_rule, free=True),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"dimensions": (1,)}),
        Example(args=(normal(2, 2, 2),), params={"dimensions": (0, 2)}),
        Example(args=(integers(0, 3),), params={"dimensions": (0,)}, differentiable=False),
    ],
)


def iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """The numbers 0, 1, 2, … along axis `dimension` of an array."""
    return bind(iota_p, dtype=np.dtype(dtype), shape=tuple(shape), dimension=dimension)


def _iota_aval(*, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> Aval:
    if kind_of(dtype) not in "iufc":
        raise DTypeError(f"iota makes numbers, not {dtype}; choose an integer or floating dtype")
    if not 0 <= dimension < len(shape) or any(n < 0 for n in shape):
        raise ShapeError(f"iota: dimension={dimension} is no axis of shape={shape}, whose sizes must not be negative")
    return Aval(shape, dtype)


def _iota_impl(*, dtype: np.dtype, shape: tuple[int, ...], dimension: int) -> np.ndarray:
    line = np.arange(shape[dimension]).astype(dtype)
    line = line.reshape(-1, *(1,) * (len(shape) - dimension - 1))
    return line if line.shape == shape else np.broadcast_to(line, shape)


iota_p = Primitive(
    name="iota",
    doc="The numbers 0, 1, 2, … along an axis.",
    multiple_results=False,
    abstract_eval=_iota_aval,
    impl=_iota_impl,
    jvp=ZeroDerivative("it has no operand"),
    transpose=Absent("iota has no operand, so there is nothing to transpose"),
    batch=Absent("iota has no operand, so there is nothing to map over"),
    lower=Indexed(moving.iota_rule, free=True),
    examples=lambda: [
        Example(args=(), params={"dtype": np.dtype("int32"), "shape": (5,), "dimension": 0}),
        Example(args=(), params={"dtype": np.dtype("float32"), "shape": (2, 3, 4), "dimension": 1}),
        Example(args=(), params={"dtype": np.dtype("uint8"), "shape": (300, 0), "dimension": 0}),
    ],
)
