"""`dot_product_attention`: heads, groups of heads that share keys, and who may look at whom.

Knows nothing of layers.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.api.checkpointing import checkpoint
from functad.array import Array
from functad.calls.compound import compound
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.nn.functions import logsumexp, softmax
from functad.nn.ragged import length_mask
from functad.records import NamedTuple

# Bytes of logits up to which they are computed at once, and how many queries and keys a block has beyond.
_LOGITS_BYTES = 1 << 24
_QUERIES, _KEYS = 128, 512


@compound
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """For each query the mean of the values, weighted by the softmax of its products with the keys.

    Where the logits of all heads would take more than 16 MiB, they are computed block by block, forward and backward,
    and memory grows with T + S, not with T S.

    In the shapes below stand B for the batch, T and S for the lengths of queries and keys, N for heads of queries,
    K for those of keys and values, H for the extent of a head. If K is less than N, which it must divide, N / K heads
    in turn share keys and values. Logits and softmax are of float32 at least; JAX computes the softmax of float64 in
    float32 too, functad in float64.

    Args:
        query: floats of shape (B, T, N, H), or (T, N, H).
        key, value: of the dtype of `query` and of shape (B, S, K, H), or (S, K, H).
        bias: added to the logits; broadcasts to (B, N, T, S).
        mask: booleans that broadcast to (B, N, T, S): whether a query may look at a key. A query that may look at none
            looks at all alike.
        scale: of the logits; 1 / sqrt(H) if None.
        is_causal: whether query t may only look at the keys 0 to t.
        query_seq_lengths, key_value_seq_lengths: integers of shape (B,), how many steps of each sequence count. The
            results of other queries are zero.
        local_window_size: (left, right), or one number for both: how far before and after t query t may look.
        implementation: None or `"xla"`, which mean the same here.
        return_residual: whether to return also the logarithm of the sum of the exponentials of each query's logits, of
            shape (B, T, N), or (T, N); it has no derivative.

    Returns:
        The shape and dtype of `query`.

    Raises:
        ShapeError: shapes that do not fit together, as said above.
        DTypeError: `query`, `key` and `value` differ in dtype, or `mask` is not of booleans.
        ArgumentError: an implementation that is not here.

    Source: Vaswani et al., Attention is all you need, 2017; Ainslie et al., GQA, 2023, on shared keys.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> q, k, v = functad.random.normal(functad.random.key(0), (3, 2, 5, 4, 8))
    >>> y = nn.dot_product_attention(q, k, v, is_causal=True)
    >>> y.shape, bool(jnp.allclose(y[:, 0], v[:, 0]))
    ((2, 5, 4, 8), True)
    """
    if implementation not in (None, "xla"):
        raise ArgumentError(f"dot_product_attention has no implementation {implementation!r}: leave it out")
    query = jnp.asarray(query)
    shape = query.shape
    query, key, value = (_with_batch(name, x) for name, x in (("query", query), ("key", key), ("value", value)))
    _check(query, key, value)
    batch, steps, heads, extent = query.shape
    shared, keys = key.shape[2], key.shape[1]
    query = query.reshape(batch, steps, shared, heads // shared, extent)
    logits = (batch, shared, heads // shared, steps, keys)
    lengths = _lengths("query_seq_lengths", query_seq_lengths, batch)
    masks = _Masks(
        None if bias is None else _grouped("bias", bias, logits),
        None if mask is None else _grouped("mask", _booleans(mask), logits),
        is_causal,
        _window(local_window_size),
        lengths,
        _lengths("key_value_seq_lengths", key_value_seq_lengths, batch),
    )
    factor = 1 / math.sqrt(extent) if scale is None else scale
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    attend = _attended if math.prod(logits) * dtype.itemsize <= _LOGITS_BYTES else _attended_in_blocks
    result, residual = attend(query, key, value, factor, masks, dtype)
    result = result.astype(value.dtype)
    if lengths is not None:
        result = result * length_mask(lengths, steps)[:, :, None, None, None].astype(result.dtype)
    result = result.reshape(shape)
    if not return_residual:
        return result
    return result, lax.stop_gradient(residual.astype(key.dtype).reshape(shape[:-1]))


class _Masks(NamedTuple):
    """What is added to logits, and which keys a query may look at."""

    bias: Array | None
    mask: Array | None
    is_causal: bool
    window: tuple[int, int] | None
    lengths: Array | None
    key_lengths: Array | None

    def applied(self, logits: Array, rows: Any, columns: Any) -> Array:
        """Logits of shape (B, K, N / K, t, s) of the queries `rows` and the keys `columns`, of (t,) and (s,)."""
        if self.bias is not None:
            logits = (logits + _part(self.bias, rows, columns)).astype(logits.dtype)
        seen = self._seen(rows, columns)
        if seen is None:
            return logits
        # Finite, so that a query that may look at nothing gives a mean and no NaN.
        lowest = -0.7 * float(jnp.finfo(jnp.float32).max)
        return jnp.where(seen, logits, jnp.asarray(lowest, logits.dtype))

    def _seen(self, rows: Any, columns: Any) -> Array | None:
        parts: list[Any] = []
        if self.mask is not None:
            parts.append(_part(self.mask, rows, columns))
        after = columns[None, :] - rows[:, None]  # how far a key lies behind a query
        if self.is_causal:
            parts.append(after <= 0)
        if self.window is not None:
            parts.append((after >= -self.window[0]) & (after <= self.window[1]))
        if self.lengths is not None:
            parts.append((rows < self.lengths[:, None])[:, None, None, :, None])
        if self.key_lengths is not None:
            parts.append((columns < self.key_lengths[:, None])[:, None, None, None, :])
        seen: Any = None
        for part in parts:
            seen = part if seen is None else seen & part
        return seen


def _attended(query: Array, key: Array, value: Array, scale: Any, masks: _Masks, dtype: Any) -> tuple[Array, Array]:
    """Results, (B, T, K, N / K, H), and the logarithms of the sums, (B, T, K, N / K), from all logits at once."""
    logits = _logits(query, key, scale, dtype)
    logits = masks.applied(logits, jnp.arange(logits.shape[3]), jnp.arange(logits.shape[4]))
    result = jnp.einsum("bkgts,bskh->btkgh", softmax(logits, axis=-1).astype(value.dtype), value)
    return result, jnp.moveaxis(logsumexp(logits, axis=-1), 3, 1)


def _attended_in_blocks(
    query: Array, key: Array, value: Array, scale: Any, masks: _Masks, dtype: Any
) -> tuple[Array, Array]:
    """The same from a block of logits at a time (Milakov & Gimelshein 2018; Rabe & Staats 2021; Dao et al. 2022).

    A block of queries goes over all blocks of keys with a running maximum m, total and sum of values a. Its steps are
    computed again for its derivative, so that no more is ever stored than for one block of queries.
    """
    steps, keys = query.shape[1], key.shape[1]
    queries_in = _blocks(query, _QUERIES)
    keys_in, values_in = _blocks(key, _KEYS), _blocks(value, _KEYS)

    @checkpoint
    def block(rows_of: Any) -> Any:
        q, first = lax.optimization_barrier(rows_of)  # else what all blocks have in common is computed at once
        rows = jnp.minimum(first + jnp.arange(q.shape[1]), steps - 1)

        def step(carry: Any, columns_of: Any) -> Any:
            m, total, a = carry
            k, v, first = columns_of
            columns = first + jnp.arange(k.shape[1])
            logits = masks.applied(_logits(q, k, scale, dtype), rows, jnp.minimum(columns, keys - 1))
            logits = jnp.where(columns < keys, logits, -jnp.inf)
            top = lax.stop_gradient(jnp.maximum(m, logits.max(-1)))
            p = jnp.exp(logits - top[..., None])
            shrink = jnp.exp(m - top)
            a = a * shrink[..., None] + jnp.einsum("bkgts,bskh->bkgth", p, v.astype(dtype))
            return (top, total * shrink + p.sum(-1), a), None

        shape = (q.shape[0], *q.shape[2:4], q.shape[1])
        # Finite, so that keys that may all not be seen, by a bias of -inf, have the weight 0 and no NaN.
        m = jnp.full(shape, jnp.finfo(dtype).min, dtype)
        start = m, jnp.zeros(shape, dtype), jnp.zeros((*shape, q.shape[4]), dtype)
        (m, total, a), _ = lax.scan(step, start, (keys_in, values_in, jnp.arange(len(keys_in)) * keys_in.shape[2]))
        return jnp.moveaxis(a / total[..., None], 3, 1), jnp.moveaxis(m + jnp.log(total), 3, 1)

    found = lax.map(block, (queries_in, jnp.arange(len(queries_in)) * queries_in.shape[2]))
    result, residual = (jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1, *x.shape[3:])[:, :steps] for x in found)
    return result, residual


def _blocks(x: Array, size: int) -> Array:
    """(B, steps, …) as (blocks, B, size, …), zeros behind the last step."""
    size = min(size, x.shape[1])
    count = -(-x.shape[1] // size)
    x = jnp.pad(x, [(0, 0), (0, count * size - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    return jnp.moveaxis(x.reshape(x.shape[0], count, size, *x.shape[2:]), 1, 0)


def _logits(query: Array, key: Array, scale: Any, dtype: Any) -> Array:
    return jnp.einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=dtype) * jnp.asarray(scale, dtype)


def _part(x: Array, rows: Any, columns: Any) -> Array:
    """The rows and columns of an array that broadcasts to the logits."""
    if x.shape[3] != 1:
        x = jnp.take(x, rows, axis=3)
    return x if x.shape[4] == 1 else jnp.take(x, columns, axis=4)


def _with_batch(name: str, x: Any) -> Array:
    x = jnp.asarray(x)
    if x.ndim not in (3, 4):
        raise ShapeError(
            f"dot_product_attention takes arrays of shape (batch, steps, heads, extent), or of (steps, heads, extent); "
            f"{name} is of shape {x.shape}"
        )
    return x if x.ndim == 4 else x[None]


def _check(query: Array, key: Array, value: Array) -> None:
    if not query.dtype == key.dtype == value.dtype:
        raise DTypeError(
            "dot_product_attention takes query, key and value of one dtype, not of "
            f"{query.dtype}, {key.dtype} and {value.dtype}: convert with .astype"
        )
    shapes = f"query is of shape {query.shape}, key of {key.shape}, value of {value.shape}"
    if key.shape != value.shape:
        raise ShapeError(f"dot_product_attention takes as many values as keys, of the same shape: {shapes}")
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise ShapeError(
            f"dot_product_attention takes query and key of the same batch (first axis) and extent (last axis): {shapes}"
        )
    if key.shape[2] == 0 or query.shape[2] % key.shape[2]:
        raise ShapeError(
            f"the {query.shape[2]} heads of query cannot share the {key.shape[2]} of key alike: give query a multiple"
        )


def _grouped(name: str, x: Any, logits: tuple[int, ...]) -> Array:
    """An array that broadcasts to (B, N, T, S) as one that broadcasts to (B, K, N / K, T, S)."""
    x = jnp.asarray(x)
    batch, shared, each, steps, keys = logits
    wanted, given = (batch, shared * each, steps, keys), x.shape
    x = x.reshape((1,) * (4 - x.ndim) + x.shape)
    if x.ndim > 4 or any(a not in (1, b) for a, b in zip(x.shape, wanted)):
        of_keys = f"; of shape (batch, keys) it is {name}[:, None, None, :]" if given == (batch, keys) else ""
        raise ShapeError(f"{name} of dot_product_attention must broadcast to {wanted}, its shape is {given}{of_keys}")
    heads = (1, 1) if x.shape[1] == 1 else (shared, each)
    return x.reshape(x.shape[0], *heads, *x.shape[2:])


def _booleans(mask: Any) -> Array:
    mask = jnp.asarray(mask)
    if mask.dtype != bool:
        raise DTypeError(
            f"mask of dot_product_attention must be of booleans, not of {mask.dtype}; what is added to the logits is "
            "bias"
        )
    return mask


def _window(size: Any) -> Any:
    """How far a query may look before and after itself; as Python's ints, as some of NumPy's have no negative ones."""
    if size is None:
        return None
    sides = (size, size) if isinstance(size, Integral) else size
    return tuple(int(side) if isinstance(side, Integral) else side for side in sides)


def _lengths(name: str, lengths: Any, batch: int) -> Array | None:
    if lengths is None:
        return None
    lengths = jnp.asarray(lengths)
    if lengths.shape != (batch,) or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ShapeError(
            f"{name} of dot_product_attention must be integers of shape ({batch},), one for each sequence of the "
            f"batch, not {lengths.dtype} of shape {lengths.shape}"
        )
    return lengths
