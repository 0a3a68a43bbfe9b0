"""Attention: in blocks as at once, layers against their formulas, caches, positions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn, random
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError
from functad.nn import attention

rng = np.random.default_rng(0)


def normal(*shape, dtype=np.float64):
    return jnp.asarray(rng.normal(size=shape).astype(dtype))


B, T, S, N, K, H = 2, 7, 11, 4, 2, 6
QUERY, KEY, VALUE = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, H)
OPTIONS = {
    "plain": {},
    "bias and mask": {"bias": normal(1, N, T, S), "mask": jnp.asarray(rng.random((B, 1, T, S)) > 0.3)},
    "narrow bias": {"bias": normal(N, 1, S), "scale": 0.1},
    "bias that hides whole blocks": {"bias": jnp.where(jnp.arange(S) < 9, -jnp.inf, 0.5)},
    "causal": {"is_causal": True},
    "window": {"local_window_size": (3, 2)},
    "lengths": {"query_seq_lengths": np.array([3, 7]), "key_value_seq_lengths": np.array([11, 4])},
    "nothing to see": {"mask": jnp.zeros((1, 1, T, S), bool)},
}


@pytest.mark.parametrize("options", list(OPTIONS.values()), ids=list(OPTIONS))
@pytest.mark.parametrize("sizes", [(4, 8), (3, 5), (100, 4), (2, 100)])
def test_blocks_give_what_all_logits_at_once_give(options, sizes, monkeypatch):
    def everything(q, k, v):
        def loss(q, k, v):
            y, residual = nn.dot_product_attention(q, k, v, return_residual=True, **options)
            return (jnp.sin(y) * jnp.arange(1.0, H + 1)).sum(), (y, residual)

        return functad.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)

    wanted = everything(QUERY, KEY, VALUE)
    monkeypatch.setattr(attention, "_LOGITS_BYTES", 0)
    monkeypatch.setattr(attention, "_QUERIES", sizes[0])
    monkeypatch.setattr(attention, "_KEYS", sizes[1])
    found = everything(QUERY, KEY, VALUE)
    for a, b in zip(functad.tree.leaves(found), functad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_blocks_have_derivatives_of_both_modes_and_of_second_order(monkeypatch):
    monkeypatch.setattr(attention, "_LOGITS_BYTES", 0)
    monkeypatch.setattr(attention, "_QUERIES", 2)
    monkeypatch.setattr(attention, "_KEYS", 3)
    args = normal(1, 3, 1, 2), normal(1, 4, 1, 2), normal(1, 4, 1, 2)
    functad.test_util.check_grads(lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), args, order=2)


def test_memory_grows_with_the_length_not_with_its_square():
    def temporary(steps):
        x = functad.ShapeDtypeStruct((1, steps, 2, 16), "float32")
        step = functad.grad(lambda q, k, v: nn.dot_product_attention(q, k, v).sum(), argnums=(0, 1, 2))
        return functad.jit(step).lower(x, x, x).memory_plan.arena_bytes

    assert 10 * temporary(4096) < 4 * 2 * 4096**2
    assert temporary(16_384) < 2.1 * temporary(8192)


@pytest.mark.parametrize("steps", [1500, 2048, 4096])
def test_nor_does_it_without_a_derivative(steps):
    """Though loops of few blocks are written out, and what several steps have in common could leave them."""
    x = functad.ShapeDtypeStruct((1, steps, 2, 16), "float32")
    attend = functad.jit(lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True))
    assert attend.lower(x, x, x).memory_plan.arena_bytes < 2.6e3 * steps


def dense(params, x):
    return np.asarray(x) @ np.asarray(params["kernel"]) + np.asarray(params.get("bias", 0))


def reference(params, x, context, heads, seen):
    q, k, v = (dense(params[part], y) for part, y in (("query", x), ("key", context), ("value", context)))
    parts = []
    for q_, k_, v_ in zip(*(np.split(y, heads, -1) for y in (q, k, v))):
        logits = np.where(seen, q_ @ np.swapaxes(k_, -1, -2) / math.sqrt(q_.shape[-1]), -1e300)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        parts.append(p / p.sum(-1, keepdims=True) @ v_)
    return dense(params["out"], np.concatenate(parts, -1))


X, CONTEXT = normal(2, 5, 12), normal(2, 8, 12)


@pytest.mark.parametrize("features", [None, 6])
@pytest.mark.parametrize("use_bias", [True, False])
def test_multi_head_attention(features, use_bias):
    layer = nn.MultiHeadAttention(3, features, use_bias=use_bias)
    params = layer.init(random.key(0), X)
    params = functad.tree.map(lambda p: normal(*p.shape), params)
    assert params["query"]["kernel"].shape == (12, features or 12)
    np.testing.assert_allclose(layer.apply(params, X), reference(params, X, X, 3, True), rtol=1e-10)
    wanted = reference(params, X, CONTEXT, 3, True)
    np.testing.assert_allclose(layer.apply(params, X, context=CONTEXT), wanted, rtol=1e-10)
    mask = rng.random((5, 8)) > 0.4
    mask[:, 0] = True
    found = layer.apply(params, X, context=CONTEXT, mask=mask[None, None])
    np.testing.assert_allclose(found, reference(params, X, CONTEXT, 3, mask), rtol=1e-10)
    causal = nn.MultiHeadAttention(3, features, use_bias=use_bias, is_causal=True)
    np.testing.assert_allclose(causal.apply(params, X), reference(params, X, X, 3, np.tri(5, dtype=bool)), rtol=1e-10)


def test_transformer_block():
    block = nn.TransformerBlock(3, 20, is_causal=True)
    params = functad.tree.map(lambda p: normal(*p.shape) * 0.3, block.init(random.key(0), X))

    def norm(p, x):
        x = np.asarray(x)
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * np.asarray(p["scale"]) + np.asarray(p["bias"])

    y = norm(params["attention_norm"], X)
    x = np.asarray(X) + reference(params["attention"], y, y, 3, np.tri(5, dtype=bool))
    wanted = x + dense(params["out"], nn.gelu(dense(params["hidden"], norm(params["norm"], x))))
    np.testing.assert_allclose(block.apply(params, X), wanted, rtol=1e-9)


@pytest.mark.parametrize("make", [nn.MultiHeadAttention, nn.TransformerBlock])
@pytest.mark.parametrize("rotary", [True, False])
def test_steps_one_by_one_give_what_all_at_once_give(make, rotary):
    layer = make(3, is_causal=True, rotary=rotary)
    x = normal(2, 6, 12)
    params = layer.init(random.key(0), x)
    whole = layer.apply(params, x)
    for parts in ([1] * 6, [4, 1, 1], [6]):
        cache, found, first = nn.empty_cache(2, 6, 3, 4, "float64"), [], 0
        step = functad.jit(lambda p, x, c: layer.apply(p, x, cache=c))
        for size in parts:
            y, cache = step(params, x[:, first : first + size], cache)
            found.append(y)
            first += size
        np.testing.assert_allclose(jnp.concatenate(found, 1), whole, rtol=1e-9)
        assert int(cache.length) == 6


@pytest.mark.parametrize("make", [nn.MultiHeadAttention, nn.TransformerBlock])
def test_steps_beyond_the_room_of_a_cache_give_nan(make):
    layer, x = make(3, is_causal=True), normal(2, 5, 12)
    params = layer.init(random.key(0), x)
    for call in (layer.apply, functad.jit(layer.apply)):
        y, cache = call(params, x[:, :4], cache=nn.empty_cache(2, 4, 3, 4, "float64"))
        assert jnp.isfinite(y).all()
        y, cache = call(params, x[:, 4:], cache=cache)
        assert jnp.isnan(y).all() and int(cache.length) == 5


def test_dropout_needs_a_key_and_acts_in_training_only():
    block = nn.TransformerBlock(3, dropout=0.5)
    params = block.init(random.key(0), X)
    still = block.apply(params, X)
    assert (block.apply(params, X, key=random.key(1)) == still).all()
    assert (block.apply(params, X, key=random.key(1), train=True) != still).any()
    with pytest.raises(ArgumentError, match="training needs a random key"):
        block.apply(params, X, train=True)


def test_rotary_products_depend_on_the_distance():
    q, k = normal(1, 1, 1, 8), normal(1, 1, 1, 8)

    def product(i, j):
        return float((nn.rotary_embedding(q, i) * nn.rotary_embedding(k, j)).sum())

    assert product(3, 1) == pytest.approx(product(12, 10), rel=1e-6)
    assert product(3, 1) != pytest.approx(product(4, 1), rel=1e-3)
    x = normal(2, 5, 3, 8)
    np.testing.assert_allclose(nn.rotary_embedding(x)[:, 2:], nn.rotary_embedding(x[:, 2:], 2), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose((nn.rotary_embedding(x) ** 2).sum(-1), (x**2).sum(-1), rtol=1e-6)


def test_positions_are_added():
    x = normal(2, 5, 6, dtype=np.float32)
    layer = nn.LearnedPositions(9)
    params = layer.init(random.key(0), x)
    np.testing.assert_array_equal(layer.apply(params, x), x + params["embedding"][:5])
    with pytest.raises(ShapeError, match="at most 9 steps"):
        layer.apply(params, normal(1, 10, 6))
    k, i = np.arange(5)[:, None], np.arange(3)
    wanted = np.zeros((5, 6))
    wanted[:, 0::2] = np.sin(k / 10_000 ** (2 * i / 6))
    wanted[:, 1::2] = np.cos(k / 10_000 ** (2 * i / 6))
    np.testing.assert_allclose(nn.SinusoidalPositions().apply((), jnp.zeros((5, 6))), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nn.MultiHeadAttention(0), ArgumentError, "heads must be an int"),
        (lambda: nn.MultiHeadAttention(5).init(random.key(0), X), ShapeError, "12 features do not part into 5 heads"),
        (lambda: nn.MultiHeadAttention(4, rotary=True).init(random.key(0), X), ShapeError, "each of an even number"),
        (lambda: nn.MultiHeadAttention(3).init(random.key(0), X[0]), ShapeError, r"\(batch, steps, features\)"),
        (lambda: nn.MultiHeadAttention(3).apply((), X), TreeError, "returned, a dict with 'query' and 'key'"),
        (lambda: nn.TransformerBlock(3).apply({"a": 1}, X), TreeError, "are a dict with 'a'; pass what"),
        (lambda: with_cache(nn.empty_cache(2, 4, 3, 4)), ArgumentError, "room for 4 steps, fewer than these 5"),
        (lambda: with_cache(nn.empty_cache(1, 9, 3, 4)), ShapeError, r"nn.empty_cache\(2, steps, 3, 4\)"),
        (lambda: with_cache(nn.empty_cache(2, 9, 3, 4), context=X), ArgumentError, "cannot be used with a context"),
        (lambda: nn.rotary_embedding(jnp.ones((2, 2, 3))), ShapeError, "even extent"),
    ],
)
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


def with_cache(cache, context=None):
    layer = nn.MultiHeadAttention(3)
    return layer.apply(layer.init(random.key(0), X), X, cache=cache, context=context)


def test_positions_are_those_of_the_papers():
    steps, features = 300, 8
    table = np.array(
        [
            [(np.cos, np.sin)[d % 2 == 0](p / 10_000 ** ((d - d % 2) / features)) for d in range(features)]
            for p in range(steps)
        ]
    )
    np.testing.assert_allclose(nn.sinusoidal_positions(steps, features), table, atol=1e-6)
    x = normal(steps, 2, features)
    turns = np.exp(1j * np.arange(steps)[:, None] * 10_000.0 ** (-np.arange(features // 2) / (features // 2)))
    z = (x[..., : features // 2] + 1j * x[..., features // 2 :]) * turns[:, None]
    np.testing.assert_allclose(nn.rotary_embedding(x), np.concatenate([z.real, z.imag], -1), atol=1e-4)


def test_a_cache_of_another_dtype_is_named():
    layer, x = nn.MultiHeadAttention(3), normal(2, 5, 12).astype("float16")
    params = layer.init(random.key(0), x)
    message = (
        r"holds keys of float32, but these steps have float16; .*nn.empty_cache\(2, steps, 3, 4, dtype='float16'\)"
    )
    with pytest.raises(DTypeError, match=message):
        layer.apply(params, x, cache=nn.empty_cache(2, 5, 3, 4))
    y, _ = layer.apply(params, x, cache=nn.empty_cache(2, 5, 3, 4, dtype="float16"))
    assert y.dtype == x.dtype
