"""Values for each pair of points: their short axes are written out, and no buffer holds them where they are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import machine_model

POINTS = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
WEIGHTS = np.linspace(0.5, 1.5, 200, dtype=np.float32)


def _squared(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def gaussian(x: Any, y: Any, w: Any) -> Any:
    return (jnp.exp(-_squared(x, y)) @ w).sum()


def coulomb(x: Any, y: Any, w: Any) -> Any:
    return (w / jnp.sqrt(_squared(x, y) + 0.1)).sum()


def softmax(x: Any, y: Any, w: Any) -> Any:
    return (jnp.log(jnp.exp(-_squared(x, y)).sum(1)) * w).sum()


def exponents(x: Any, y: Any, w: Any) -> Any:
    return (jnp.exp(0.1 * (x @ y.T)) @ w).sum()


def nearest(x: Any, y: Any, w: Any) -> Any:
    return (jnp.abs(x[:, None] - y[None]).max(-1).min(1) * w).sum()


def _largest_buffer(gradient: Any) -> int:
    plan = functad.jit(lambda *args: gradient(*args)).lower(POINTS, POINTS[::-1] * 0.5, WEIGHTS).memory_plan
    return max(storage.nbytes for storage in plan.offsets)


def test_an_empty_part_of_what_has_one_row_is_empty() -> None:
    for cut in (np.s_[0:0], np.s_[:, 0:0], np.s_[1:, 5:9]):
        fun = lambda cut=cut: (functad.lax.broadcasted_iota("float32", (1, 1000), 1) * 2)[cut]  # noqa: E731
        assert functad.jit(fun)().shape == fun().shape


@pytest.mark.parametrize("fun", [gaussian, coulomb, softmax, exponents])
def test_no_buffer_holds_what_is_for_each_pair(fun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = functad.grad(fun, argnums=(0, 1, 2))
    assert _largest_buffer(gradient) == 200 * 200 * 4  # as long as the caches hold them, but not 200 × 200 × 3
    monkeypatch.setattr(machine_model, "SMALLEST_RECOMPUTED", 200 * 200 * 4)
    assert _largest_buffer(gradient) <= 16 * 200 * 3 * 4


@pytest.mark.parametrize("least", [200 * 200 * 4, 1 << 28])
@pytest.mark.parametrize("fun", [gaussian, coulomb, softmax, exponents, nearest])
def test_results_are_those_without_jit(fun: Any, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "SMALLEST_RECOMPUTED", least)
    gradient = functad.grad(fun, argnums=(0, 1, 2))
    args = POINTS, POINTS[::-1] * 0.5, WEIGHTS
    for found, wanted in zip(functad.jit(lambda *args: gradient(*args))(*args), gradient(*args)):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_long_expressions_take_no_more_equations_than_they_have() -> None:
    u, v = np.linspace(-1, 1, 64, dtype=np.float32)[:, None], np.linspace(-1, 1, 64, dtype=np.float32)

    def often(times: int, wanted: Any) -> Any:
        def f(u: Any, v: Any) -> Any:
            x = u + v
            for _ in range(times):
                x = jnp.tanh(x) * x
            return wanted(x)

        return f

    for times in (8, 30, 300):
        f = often(times, lambda x: x[:4])
        np.testing.assert_allclose(functad.jit(f)(u, v), f(u, v), rtol=1e-4, atol=1e-6)
    wide = functad.jit(lambda x: jnp.sum(jnp.exp(jnp.tanh(x[:, None] - x[None])), 1))
    for shape in ((64, 8), (32, 4, 8), (16, 2, 4, 8), (16, 8, 8, 8)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        wanted = np.exp(np.tanh(x[:, None] - x[None])).sum(1)
        np.testing.assert_allclose(wide(x), wanted, rtol=1e-5)


def test_what_many_read_is_cut_once_for_each() -> None:
    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + jnp.tanh(0.79788 * (x + 0.044715 * x * x * x)))

    def energy(x: Any) -> Any:
        return jnp.sqrt((gelu(gelu(x[:, None] - x[None])) ** 2).sum(-1) + 1e-3).sum()

    x = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    gradient = functad.grad(energy)
    np.testing.assert_allclose(functad.jit(gradient)(x), gradient(x), rtol=1e-4, atol=1e-4)
