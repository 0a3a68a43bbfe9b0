"""Statistics of samples: ranks, the most common value, the standard error of the mean.

Knows sorting and reductions.

Shapes:
    The axis is dropped, or stays with size 1 with `keepdims`; `rankdata` keeps it.

Raises:
    ArgumentError: `method` or `nan_policy` has a value that is not listed, or the axis has no elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import lax
from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError
from functad.records import NamedTuple


class ModeResult(NamedTuple):
    """The most common values, and how often they occur."""

    mode: Any
    count: Any


def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most common value along an axis (the least of several), and how often it occurs; a NaN equals no other.

    >>> import functad.numpy as jnp
    >>> mode(jnp.array([1, 2, 2, 3]))
    ModeResult(mode=Array(2, dtype=int32), count=Array(2, dtype=int32))
    """
    _only_propagate("mode", nan_policy)
    x = jnp.asarray(a)
    lines = x.ravel() if axis is None else jnp.moveaxis(x, axis, -1)
    if not lines.ndim:
        lines = lines[None]
    if lines.size == 0 and lines.shape[-1] == 0:
        raise ArgumentError(f"mode: an array of shape {x.shape} has no elements along axis={axis}")
    ordered = jnp.sort(lines, -1)
    places = jnp.broadcast_to(jnp.arange(lines.shape[-1], dtype=np.int32), lines.shape)
    is_new = jnp.concatenate([jnp.ones((*lines.shape[:-1], 1), bool), ordered[..., 1:] != ordered[..., :-1]], -1)
    counts = places - lax.cummax(jnp.where(is_new, places, 0), axis=lines.ndim - 1) + 1  # of its like so far
    place = jnp.argmax(counts, -1, keepdims=True)
    value, count = (jnp.take_along_axis(v, place, -1)[..., 0] for v in (ordered, counts))
    if keepdims:
        kept = (1,) * x.ndim if axis is None else tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape))
        value, count = value.reshape(kept), count.reshape(kept)
    return ModeResult(value, count)


def rankdata(a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """The ranks of elements, floats from 1 on, along an axis, or of all; those of equal elements by method.

    Args:
        method: "average", "min" or "max" of the ranks that equal elements take together, "dense": as if each value
            stood once, "ordinal": in order of their places.

    >>> import functad.numpy as jnp
    >>> rankdata(jnp.array([30., 10., 30.]))
    Array([2.5, 1. , 2.5], dtype=float32)
    """
    _only_propagate("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ArgumentError(f"rankdata: method={method!r} must be 'average', 'min', 'max', 'dense' or 'ordinal'")
    x = jnp.asarray(a)
    if axis is not None:
        return jnp.apply_along_axis(lambda line: rankdata(line, method), axis, x)
    return _ranks(x.ravel(), method).astype(jnp.result_type(float))


def _ranks(x: Any, method: str) -> Any:
    order = jnp.argsort(x)
    places = jnp.zeros_like(order).at[order].set(jnp.arange(x.size, dtype=order.dtype))
    if method == "ordinal":
        return places + 1
    ordered = x[order]
    first = jnp.concatenate([jnp.ones(min(x.size, 1), bool), ordered[1:] != ordered[:-1]])
    dense = jnp.cumsum(first)[places]
    if method == "dense":
        return dense
    starts = jnp.nonzero(first, size=x.size + 1, fill_value=x.size)[0]
    low, high = starts[dense - 1] + 1, starts[dense]
    return (low + high).astype(float) * 0.5 if method == "average" else low if method == "min" else high


def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean along an axis: the standard deviation divided by √n.

    Args:
        nan_policy: "propagate", or "omit": NaN take no part.

    >>> import functad.numpy as jnp
    >>> sem(jnp.array([1., 3.]))
    Array(1., dtype=float32)
    """
    x = jnp.asarray(a)
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(x), axis, keepdims=keepdims)
        deviation = jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
        return deviation / jnp.sqrt(count.astype(deviation.dtype))
    _only_propagate("sem", nan_policy)
    size = x.size if axis is None else x.shape[axis]
    deviation = jnp.std(x, axis, ddof=ddof, keepdims=keepdims)
    return deviation / jnp.sqrt(jnp.asarray(size, deviation.dtype))


def _only_propagate(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise ArgumentError(f"{name}: nan_policy={nan_policy!r} is not supported: take NaN out before the call")
