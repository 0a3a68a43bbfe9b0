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
