"""Reductions of segments, under the names that `jax.ops` gives them.

Knows arrays and their updates.

Args:
    data: an array of which parts along the first axis are combined.
    segment_ids: integers, one a part: to which segment it belongs.
    num_segments: how many there are; needed where the numbers are traced.
    indices_are_sorted, unique_indices, bucket_size, mode: as in `segment_sum`.

Shapes:
    The result has the shape of the data, but `num_segments` along the first axis.

Raises:
    ShapeError: there is not one number for each part of the data.
    DTypeError: the numbers are no integers.
    ArgumentError: `num_segments` is negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.core import is_concrete
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Array:
    """The sum of each segment of an array along its first axis.

    Args:
        data: array of shape (n, …).
        segment_ids: integers of shape (n,): to which segment each part belongs. What is not in 0 … num_segments − 1
            belongs to none.
        num_segments: how many there are; by default one more than the largest number, which must then be known.
        indices_are_sorted, unique_indices, bucket_size: accepted for JAX's sake; no result depends on them.
        mode: what becomes of numbers that are too large: see `x.at[…].add`; by default they are dropped.

    Returns:
        array of shape (num_segments, …); 0 where a segment has no part.

    >>> import functad, functad.numpy as jnp
    >>> functad.ops.segment_sum(jnp.array([1., 2., 3.]), jnp.array([0, 2, 0]))
    Array([4., 0., 2.], dtype=float32)
    """
    return _reduced("segment_sum", data, segment_ids, num_segments, mode)


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Array:
    """The product of each segment, 1 where it has no part; arguments as for `segment_sum`.

    >>> import functad, functad.numpy as jnp
    >>> functad.ops.segment_prod(jnp.array([2, 3, 4]), jnp.array([0, 0, 1]), 3)
    Array([6, 4, 1], dtype=int32)
    """
    return _reduced("segment_prod", data, segment_ids, num_segments, mode)


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Array:
    """The largest element of each segment, the least number of the dtype where it has no part; as `segment_sum`.

    >>> import functad, functad.numpy as jnp
    >>> functad.ops.segment_max(jnp.array([2, 3, 4]), jnp.array([0, 0, 1]), 2)
    Array([3, 4], dtype=int32)
    """
    return _reduced("segment_max", data, segment_ids, num_segments, mode)


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Array:
    """The least element of each segment, the largest number of the dtype where it has no part; as `segment_sum`.

    >>> import functad, functad.numpy as jnp
    >>> functad.ops.segment_min(jnp.array([2, 3, 4]), jnp.array([0, 0, 1]), 2)
    Array([2, 4], dtype=int32)
    """
    return _reduced("segment_min", data, segment_ids, num_segments, mode)


def _reduced(name: str, data: Any, segment_ids: Any, num_segments: int | None, mode: Any) -> Array:
    x, ids = jnp.asarray(data), jnp.asarray(segment_ids)
    if kind_of(ids.dtype) not in "iu":
        raise DTypeError(f"{name}: segment_ids must be integers, got {ids.dtype}")
    if ids.ndim != 1 or x.shape[:1] != ids.shape:
        raise ShapeError(f"{name}: segment_ids has shape {ids.shape}, data {x.shape}: give one number a part of data")
    if num_segments is None:
        if not is_concrete(ids):
            raise ArgumentError(
                f"{name}: give num_segments=, an int: the largest number is not known while it is traced"
            )
        num_segments = int(np.max(np.asarray(ids), initial=-1)) + 1
    if num_segments < 0:
        raise ArgumentError(f"{name}: num_segments={num_segments} must not be negative")
    start = jnp.full((num_segments, *x.shape[1:]), _neutral(name, x.dtype), x.dtype).at[ids]
    updates = {"sum": start.add, "prod": start.multiply, "max": start.max, "min": start.min}
    mode = "drop" if mode is None else mode
    return updates[name.removeprefix("segment_")](x, mode=mode, wrap_negative_indices=False)


def _neutral(name: str, dtype: np.dtype) -> Any:
    """What changes no result."""
    if name in ("segment_sum", "segment_prod"):
        return name == "segment_prod"
    sign = -1 if name == "segment_max" else 1
    if kind_of(dtype) in "fc":
        return sign * np.inf
    if kind_of(dtype) == "b":
        return sign > 0
    return np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max


__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
