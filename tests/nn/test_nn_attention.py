"""`dot_product_attention` beside one query at a time in float64, jitted, mapped, differentiated; and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn
from functad.errors import ArgumentError, DTypeError, ShapeError

B, T, S, N, K, H = 2, 5, 6, 4, 2, 3
rng = np.random.default_rng(0)
QUERY, KEY, VALUE = (rng.normal(size=shape) for shape in ((B, T, N, H), (B, S, K, H), (B, S, K, H)))
BIAS = rng.normal(size=(B, N, T, S))
MASK = rng.uniform(size=(1, N, T, S)) < 0.6
MASK[..., 0] = True  # no query without a key


def reference(query: Any, key: Any, value: Any, **options: Any) -> Any:
    out = np.zeros(query.shape)
    q_lengths = options.get("query_seq_lengths", np.full(B, T))
    k_lengths = options.get("key_value_seq_lengths", np.full(B, S))
    left, right = options.get("local_window_size", (S, S))
    for b, t, n in np.ndindex(B, T, N):
        if t >= q_lengths[b]:
            continue
        seen = [
            s
            for s in range(k_lengths[b])
            if t - left <= s <= t + right
            and not (options.get("is_causal") and s > t)
            and np.broadcast_to(options.get("mask", True), BIAS.shape)[b, n, t, s]
        ]
        group = n // (N // K)
        logits = options.get("scale", H**-0.5) * key[b, seen, group] @ query[b, t, n]
        logits = logits + np.broadcast_to(options.get("bias", 0.0), BIAS.shape)[b, n, t, seen]
        weights = np.exp(logits - logits.max())
        out[b, t, n] = weights @ value[b, seen, group] / weights.sum()
    return out


OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": BIAS},
    {"bias": BIAS[:1, :1], "scale": 0.3},
    {"mask": MASK},
    {"is_causal": True},
    {"local_window_size": (1, 2)},
    {"query_seq_lengths": np.array([5, 2]), "key_value_seq_lengths": np.array([3, 6])},
    {"bias": BIAS[0], "mask": MASK, "is_causal": True, "local_window_size": (4, 1), "scale": 2.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_each_query_looks_at_what_it_may(options: dict[str, Any]) -> None:
    expected = reference(QUERY, KEY, VALUE, **options)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, **options)

    np.testing.assert_allclose(attend(QUERY, KEY, VALUE), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(functad.jit(attend)(QUERY, KEY, VALUE), expected, rtol=1e-12, atol=1e-14)
    functad.test_util.check_grads(attend, (QUERY, KEY, VALUE), order=2, atol=1e-5, rtol=1e-5)
    single = functad.jit(attend)(*(x.astype("f4") for x in (QUERY, KEY, VALUE)))
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-5)


def test_one_number_for_both_sides_of_a_window() -> None:
    expected = reference(QUERY, KEY, VALUE, local_window_size=(1, 1))
    for size in (1, np.int64(1), np.uint8(1), (1, np.uint8(1))):
        found = nn.dot_product_attention(QUERY, KEY, VALUE, local_window_size=size)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_without_a_batch_and_mapped() -> None:
    expected = nn.dot_product_attention(QUERY, KEY, VALUE, is_causal=True)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, is_causal=True)

    alone = [attend(q, k, v) for q, k, v in zip(QUERY, KEY, VALUE)]
    np.testing.assert_allclose(alone, expected, rtol=1e-12)
    np.testing.assert_allclose(functad.vmap(attend)(QUERY, KEY, VALUE), expected, rtol=1e-12)


def test_the_residual_is_the_logarithm_of_the_sum_of_exponentials() -> None:
    out, residual = nn.dot_product_attention(QUERY, KEY, VALUE, return_residual=True)
    logits = np.einsum("btnh,bsnh->btns", QUERY, np.repeat(KEY, N // K, 2)) / np.sqrt(H)
    np.testing.assert_allclose(residual, np.log(np.exp(logits).sum(-1)), rtol=1e-12)
    np.testing.assert_allclose(out, reference(QUERY, KEY, VALUE), rtol=1e-12)
    slopes = functad.grad(lambda q: nn.dot_product_attention(q, KEY, VALUE, return_residual=True)[1].sum())(QUERY)
    assert not slopes.any()
    assert nn.dot_product_attention(QUERY[0], KEY[0], VALUE[0], return_residual=True)[1].shape == (T, N)


def test_a_query_that_may_look_at_nothing_looks_at_all_alike() -> None:
    out = nn.dot_product_attention(QUERY, KEY, VALUE, mask=np.zeros((1, 1, 1, 1), bool))
    mean = np.repeat(VALUE.mean(1, keepdims=True), N // K, 2)
    np.testing.assert_allclose(out, np.broadcast_to(mean, QUERY.shape), rtol=1e-12)


def test_half_precision_sums_in_float32() -> None:
    query, key, value = (jnp.asarray(x, "float16") for x in (QUERY * 30, KEY * 30, VALUE))
    out = nn.dot_product_attention(query, key, value)
    exact = reference(*(np.asarray(x, float) for x in (query, key, value)))
    assert out.dtype == np.float16
    np.testing.assert_allclose(np.asarray(out, float), exact, rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"implementation": "cudnn"}, ArgumentError, "no implementation 'cudnn'"),
        ({"query": QUERY[0, 0]}, ShapeError, "query is of shape"),
        ({"key": KEY.astype("f4")}, DTypeError, "one dtype"),
        ({"value": VALUE[:, 1:]}, ShapeError, "as many values as keys"),
        ({"query": QUERY[:1]}, ShapeError, "same batch"),
        ({"query": QUERY[:, :, :3]}, ShapeError, "3 heads of query cannot share the 2"),
        ({"bias": BIAS[:, :3]}, ShapeError, r"bias .* must broadcast to \(2, 4, 5, 6\)"),
        ({"mask": BIAS}, DTypeError, "booleans"),
        (
            {"mask": np.ones((2, 6), bool)},
            ShapeError,
            r"\(2, 4, 5, 6\), its shape is \(2, 6\); .*mask\[:, None, None, :\]",
        ),
        ({"query_seq_lengths": np.array([1, 2, 3])}, ShapeError, r"query_seq_lengths .* shape \(2,\)"),
        ({"key_value_seq_lengths": np.array([1.0, 2.0])}, ShapeError, "integers"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_named(change: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments = {"query": QUERY, "key": KEY, "value": VALUE, **change}
    with pytest.raises(error, match=words):
        nn.dot_product_attention(**arguments)
