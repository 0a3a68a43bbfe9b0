"""Layers of attention: several heads, and the block of a transformer.

Knows `dot_product_attention` and dense layers; nothing of what sequences mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from functad import lax, random
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, check_int
from functad.nn.attention import dot_product_attention
from functad.nn.combining import split_key
from functad.nn.dropout import Dropout
from functad.nn.functions import gelu
from functad.nn.initializers import Initializer, glorot_uniform
from functad.nn.layer import Layer, apply_part, check_floats, check_keys, struct_of
from functad.nn.linear import Dense
from functad.nn.normalization import LayerNorm
from functad.nn.positions import rotary_embedding
from functad.records import NamedTuple

_GLOROT = glorot_uniform()


class KeyValueCache(NamedTuple):
    """The keys and values of the steps so far, for text that is written step by step.

    Attributes:
        keys, values: of shape (batch, steps, heads, extent), zeros from step `length` on.
        length: how many steps there are, an int32 scalar.

    >>> import functad, functad.numpy as jnp
    >>> cache = functad.nn.KeyValueCache(jnp.zeros((1, 8, 2, 4)), jnp.zeros((1, 8, 2, 4)), jnp.int32(0))
    >>> cache._replace(length=cache.length + 1).length
    Array(1, dtype=int32)
    """

    keys: Any
    values: Any
    length: Any


class AttentionApply(Protocol):
    """The second half of a layer of attention."""

    def __call__(
        self,
        params: Any,
        x: Any,
        *,
        context: Any = None,
        mask: Any = None,
        cache: KeyValueCache | None = None,
        key: Any = None,
        train: bool = False,
    ) -> Any: ...


class Attention(Layer):
    """A layer that looks at other steps: what `MultiHeadAttention` and `TransformerBlock` make.

    `apply` is that of every layer, with three keywords more:

        apply(params, x, *, context=None, mask=None, cache=None, key=None, train=False)

    - context: the sequences to look at, (batch, S, features); None: x itself.
    - mask: booleans that broadcast to (batch, heads, T, S): whether a step of x may look at one of the context.
    - cache: a `KeyValueCache`, of `empty_cache` at first: x are the next steps, which look at all steps so far and at
      themselves. The result is then a pair, (y, new cache). Steps beyond what the cache holds give NaN, since how many
      there were is not known under `jit`. A cache goes without context.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> layer = nn.MultiHeadAttention(2, is_causal=True)
    >>> x = functad.random.normal(functad.random.key(0), (1, 5, 8))
    >>> params = layer.init(functad.random.key(1), x)
    >>> cache, steps = nn.empty_cache(1, 5, 2, 4), []
    >>> for i in range(5):
    ...     y, cache = layer.apply(params, x[:, i : i + 1], cache=cache)
    ...     steps.append(y)
    >>> bool(jnp.allclose(jnp.concatenate(steps, 1), layer.apply(params, x), atol=1e-6))
    True
    """

    __slots__ = ()
    apply: AttentionApply


def empty_cache(batch: int, steps: int, heads: int, extent: int, dtype: Any = None) -> KeyValueCache:
    """The cache before the first step.

    Args:
        batch, steps, heads, extent: of its arrays; `steps` is the most that it holds. `extent` is features / heads.
        dtype: by default the default float.

    >>> empty_cache(2, 8, 4, 16).keys.shape
    (2, 8, 4, 16)
    """
    zeros = jnp.zeros((batch, steps, heads, extent), dtype)
    return KeyValueCache(zeros, zeros, jnp.zeros((), "int32"))


def MultiHeadAttention(
    heads: int,
    features: int | None = None,
    *,
    is_causal: bool = False,
    use_bias: bool = True,
    rotary: bool = False,
    dropout: float = 0.0,
    kernel_init: Initializer = _GLOROT,
) -> Attention:
    """Attention by several heads (Vaswani et al. 2017): each looks at the steps of a sequence in a way of its own.

    Args:
        heads: how many.
        features: of queries, keys and values of all heads together; those of the input if None.
        is_causal: whether a step may look at itself and those before only.
        use_bias: whether the four dense layers have a bias.
        rotary: turn queries and keys by their positions (Su et al. 2021), see `rotary_embedding`.
        dropout: the share of the output that is dropped in training.
        kernel_init: called as `init(key, shape, dtype)`.

    Returns:
        A layer (see `Attention`) from (batch, T, inputs) to the same shape. Its params are a dict of those of `Dense`:
        "query", "key", "value", "out".

    Raises:
        ArgumentError: a number is no positive int. ShapeError: the heads do not divide the features, or an input does
            not fit. DTypeError: the input holds no floats. TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = MultiHeadAttention(4)
    >>> x, memory = jnp.ones((2, 5, 16)), jnp.ones((2, 7, 16))
    >>> params = layer.init(functad.random.key(0), x)
    >>> layer.apply(params, x).shape, layer.apply(params, x, context=memory).shape
    ((2, 5, 16), (2, 5, 16))
    """
    name = f"MultiHeadAttention({heads})"
    heads = check_int(heads, "MultiHeadAttention: heads", low=1)
    drop = Dropout(dropout)

    def dense(size: int) -> Layer:
        return Dense(size, use_bias=use_bias, kernel_init=kernel_init)

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        size = _size_of_heads(x, heads, features, rotary, name)
        inner = jnp.zeros((1, size), x.dtype)
        keys = random.split(key, 4)
        params = {part: dense(size).init(k, x) for part, k in zip(("query", "key", "value"), keys)}
        return {**params, "out": dense(x.shape[2]).init(keys[3], inner)}

    def run(params: Any, x: Any, seen: _LookedAt, key: Any, train: bool) -> tuple[Any, KeyValueCache | None]:
        check_keys(params, ("query", "key", "value", "out"), name)
        size = _size_of_heads(x, heads, features, rotary, name)
        other, cache, mask = _looked_at(x, seen, name), seen.cache, seen.mask

        def projected(part: str, y: Any) -> Any:
            return apply_part(dense(size), part, params[part], y).reshape(*y.shape[:2], heads, size // heads)

        q, k, v = projected("query", x), projected("key", other), projected("value", other)
        first = 0 if cache is None else cache.length
        if rotary:
            q, k = rotary_embedding(q, first), rotary_embedding(k, first)
        if cache is not None:
            k, v, mask, cache = _remembered(k, v, mask, cache, x.shape[1], is_causal)
        y = dot_product_attention(q, k, v, mask=mask, is_causal=is_causal and cache is None)
        if cache is not None:
            y = jnp.where(cache.length <= cache.keys.shape[1], y, jnp.nan)
        y = apply_part(dense(x.shape[2]), "out", params["out"], y.reshape(*x.shape[:2], size))
        y = drop.apply((), y, key=key, train=train)
        return y, cache

    return _attention_layer(name, init, run)


class _LookedAt(NamedTuple):
    """What the steps of an input look at: see `Attention`."""

    context: Any
    mask: Any
    cache: KeyValueCache | None


def _attention_layer(
    name: str, init: Callable[[Any, Any], Any], run: Callable[..., tuple[Any, KeyValueCache | None]]
) -> Attention:
    """The layer of `run(params, x, seen, key, train)`, which gives (output, new cache if there is one)."""

    def apply(
        params: Any,
        x: Any,
        *,
        context: Any = None,
        mask: Any = None,
        cache: KeyValueCache | None = None,
        key: Any = None,
        train: bool = False,
    ) -> Any:
        y, after = run(params, jnp.asarray(x), _LookedAt(context, mask, cache), key, train)
        return y if cache is None else (y, after)

    return Attention(init, apply, name)


def _looked_at(x: Any, seen: _LookedAt, name: str) -> Any:
    context = seen.context
    if seen.cache is not None and context is not None:
        raise ArgumentError(
            f"{name}: a cache holds steps of x, so it cannot be used with a context; leave out one of them"
        )
    return x if context is None else jnp.asarray(context)


def _size_of_heads(x: Any, heads: int, features: int | None, rotary: bool, name: str) -> int:
    """The features of all heads together, for an input that fits."""
    check_floats(x, name)
    if len(x.shape) != 3:
        raise ShapeError(f"{name}: the input must have shape (batch, steps, features), but has {tuple(x.shape)}")
    size: int = features or x.shape[2]
    if size % heads or (rotary and size // heads % 2):
        even = ", each of an even number" if rotary else ""
        raise ShapeError(f"{name}: the {size} features do not part into {heads} heads{even}")
    return size


def TransformerBlock(
    heads: int,
    hidden: int | None = None,
    *,
    is_causal: bool = False,
    rotary: bool = False,
    dropout: float = 0.0,
    activation: Callable[[Any], Any] = gelu,
    norm: Callable[[], Layer] = LayerNorm,
) -> Attention:
    """Attention and two dense layers, each after a normalisation and around a residual (Xiong et al. 2020).

    Args:
        heads, is_causal, rotary, dropout: as in `MultiHeadAttention`.
        hidden: the features between the dense layers; four times those of the input if None.
        activation: between them.
        norm: makes the normalisations, such as `nn.RMSNorm`.

    Returns:
        A layer (see `Attention`) that keeps the shape (batch, T, features). Its params are a dict: "attention",
        "attention_norm", "hidden", "out", "norm".

    Raises:
        ArgumentError: a number is no positive int. ShapeError: the heads do not divide the features, or an input does
            not fit. DTypeError: the input holds no floats. TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> block = TransformerBlock(4, is_causal=True)
    >>> x = jnp.ones((2, 5, 16))
    >>> params = block.init(functad.random.key(0), x)
    >>> block.apply(params, x).shape, sorted(params)
    ((2, 5, 16), ['attention', 'attention_norm', 'hidden', 'norm', 'out'])
    """
    name = f"TransformerBlock({heads})"
    attention = MultiHeadAttention(heads, is_causal=is_causal, rotary=rotary, dropout=dropout)
    drop, normal = Dropout(dropout), norm()

    def layers(features: int) -> dict[str, Layer]:
        width = hidden or 4 * features
        return {
            "attention_norm": normal,
            "attention": attention,
            "norm": normal,
            "hidden": Dense(width, kernel_init=_GLOROT),
            "out": Dense(features, kernel_init=_GLOROT),
        }

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        keys = random.split(key, 5)
        parts = layers(x.shape[-1])
        inner = jnp.zeros((1, hidden or 4 * x.shape[-1]), x.dtype)
        return {n: part.init(k, inner if n == "out" else x) for (n, part), k in zip(parts.items(), keys)}

    def run(params: Any, x: Any, seen: _LookedAt, key: Any, train: bool) -> tuple[Any, KeyValueCache | None]:
        parts = layers(x.shape[-1])
        check_keys(params, tuple(parts), name)
        keys = split_key(key, 2)

        def through(part: str, y: Any, **options: Any) -> Any:
            return apply_part(parts[part], part, params[part], y, **options)

        y = through("attention", through("attention_norm", x), **seen._asdict(), key=keys[0], train=train)
        y, cache = (y, None) if seen.cache is None else y
        x = x + y
        y = activation(through("hidden", through("norm", x)))
        return x + drop.apply((), through("out", y), key=keys[1], train=train), cache

    return _attention_layer(name, init, run)


def _remembered(
    keys: Any, values: Any, mask: Any, cache: KeyValueCache, steps: int, is_causal: bool
) -> tuple[Any, Any, Any, KeyValueCache]:
    """All keys and values so far, who may look at them, and the new cache."""
    room = cache.keys.shape[1]
    if cache.keys.shape != (keys.shape[0], room, *keys.shape[2:]):
        raise ShapeError(
            f"the cache holds keys of shape {cache.keys.shape}, but these steps have {keys.shape}; make it with "
            f"nn.empty_cache({keys.shape[0]}, steps, {keys.shape[2]}, {keys.shape[3]})"
        )
    if steps > room:
        raise ArgumentError(f"the cache has room for {room} steps, fewer than these {steps}; make a larger one")
    if cache.keys.dtype != keys.dtype or cache.values.dtype != values.dtype:
        raise DTypeError(
            f"the cache holds keys of {cache.keys.dtype}, but these steps have {keys.dtype}; make it with "
            f"nn.empty_cache({keys.shape[0]}, steps, {keys.shape[2]}, {keys.shape[3]}, dtype={keys.dtype.name!r})"
        )
    first = cache.length
    k, v = (
        lax.dynamic_update_slice(old, new, (0, first, 0, 0))
        for old, new in ((cache.keys, keys), (cache.values, values))
    )
    at = jnp.arange(room)
    last = first + (jnp.arange(steps)[:, None] if is_causal else steps - 1)
    seen = jnp.broadcast_to(at <= last, (steps, room))[None, None]
    if mask is not None:
        seen = seen & jnp.asarray(mask)
    return k, v, seen, KeyValueCache(k, v, first + steps)
