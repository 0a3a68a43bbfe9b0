"""`nn.dot_product_attention` beside JAX's: values, gradients, dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: it is what functad is compared with")

import functad  # noqa: E402
from functad import nn  # noqa: E402

rng = np.random.default_rng(1)


def arrays(dtype: str, batch: tuple[int, ...], shared: int) -> list[Any]:
    shapes = ((*batch, 7, 4, 8), (*batch, 9, shared, 8), (*batch, 9, shared, 8))
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bias": {"bias": rng.normal(size=(1, 4, 7, 9)).astype("f4"), "scale": 0.7},
    "mask": {"mask": rng.uniform(size=(3, 1, 7, 9)) < 0.5},
    "causal": {"is_causal": True, "local_window_size": 3},
    "lengths": {
        "query_seq_lengths": np.array([7, 1, 4], "i4"),
        "key_value_seq_lengths": np.array([2, 9, 5], "i4"),
        "local_window_size": (2, 4),
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shared", [4, 2, 1])
def test_values_and_gradients_are_those_of_jax(name: str, shared: int) -> None:
    options = CASES[name]
    given = arrays("f4", (3,), shared)
    theirs = jax.nn.dot_product_attention(*given, **options, return_residual=True)
    ours = functad.jit(lambda *x: nn.dot_product_attention(*x, **options, return_residual=True))(*given)
    for mine, other in zip(ours, theirs):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)
    for k in range(3):
        expected = jax.grad(lambda *x: (jax.nn.dot_product_attention(*x, **options) ** 2).sum(), k)(*given)
        slopes = functad.grad(lambda *x: (nn.dot_product_attention(*x, **options) ** 2).sum(), k)(*given)
        np.testing.assert_allclose(slopes, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_without_a_batch(dtype: str) -> None:
    given = arrays(dtype, (), 2)
    theirs = jax.nn.dot_product_attention(*given, is_causal=True)
    ours = nn.dot_product_attention(*given, is_causal=True)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3 if dtype == "f2" else 2e-5, atol=1e-3 if dtype == "f2" else 2e-6)
