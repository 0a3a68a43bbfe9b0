"""`dot_product_attention`: heads, groups of heads that share keys, and who may look at whom.

Knows nothing of layers.
"""

from __future__ import annotations

import math
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.nn.functions import logsumexp, softmax
from functad.nn.ragged import length_mask


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
    shared = key.shape[2]
    query = query.reshape(batch, steps, shared, heads // shared, extent)
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    logits = jnp.einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=dtype)
    logits = logits * jnp.asarray(1 / math.sqrt(extent) if scale is None else scale, dtype)
    if bias is not None:
        logits = (logits + _grouped("bias", bias, logits.shape)).astype(dtype)
    lengths = _lengths("query_seq_lengths", query_seq_lengths, batch)
    key_lengths = _lengths("key_value_seq_lengths", key_value_seq_lengths, batch)
    seen = _seen(logits.shape, mask, is_causal, local_window_size, lengths, key_lengths)
    if seen is not None:
        # Finite, so that a query that may look at nothing gives a mean and no NaN.
        lowest = -0.7 * float(jnp.finfo(jnp.float32).max)
        logits = jnp.where(seen, logits, jnp.asarray(lowest, dtype))
    result = jnp.einsum("bkgts,bskh->btkgh", softmax(logits, axis=-1).astype(value.dtype), value)
    if lengths is not None:
        result = result * length_mask(lengths, steps)[:, :, None, None, None].astype(result.dtype)
    result = result.reshape(shape)
    if not return_residual:
        return result
    residual = jnp.moveaxis(logsumexp(logits, axis=-1), 3, 1).astype(key.dtype)
    return result, lax.stop_gradient(residual.reshape(shape[:-1]))


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
    wanted = (batch, shared * each, steps, keys)
    x = x.reshape((1,) * (4 - x.ndim) + x.shape)
    if x.ndim > 4 or any(a not in (1, b) for a, b in zip(x.shape, wanted)):
        raise ShapeError(f"{name} of dot_product_attention must broadcast to {wanted}, its shape is {x.shape}")
    heads = (1, 1) if x.shape[1] == 1 else (shared, each)
    return x.reshape(x.shape[0], *heads, *x.shape[2:])


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


def _seen(
    logits: tuple[int, ...],
    mask: Any,
    is_causal: bool,
    window: int | tuple[int, int] | None,
    lengths: Array | None,
    key_lengths: Array | None,
) -> Array | None:
    """Which keys each query may look at, broadcasting to the shape of the logits; None for all."""
    steps, keys = logits[3:]
    parts: list[Any] = []
    if mask is not None:
        if jnp.asarray(mask).dtype != bool:
            raise DTypeError(
                f"mask of dot_product_attention must be of booleans, not of {jnp.asarray(mask).dtype}; what is added "
                "to the logits is bias"
            )
        parts.append(_grouped("mask", mask, logits))
    after = jnp.arange(keys)[None, :] - jnp.arange(steps)[:, None]  # how far a key lies behind a query
    if is_causal:
        parts.append(after <= 0)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        parts.append((after >= -left) & (after <= right))
    if lengths is not None:
        parts.append(length_mask(lengths, steps)[:, None, None, :, None])
    if key_lengths is not None:
        parts.append(length_mask(key_lengths, keys)[:, None, None, None, :])
    seen: Any = None
    for part in parts:
        seen = part if seen is None else seen & part
    return seen
