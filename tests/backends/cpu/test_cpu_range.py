"""Overflow, underflow, infinity and NaN: compiled programs have them where un-jitted ones have, and nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

import functad
import functad.numpy as jnp
from functad import lax
from functad.tracing import Tracer

SPECIAL = np.float32(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 1e20, -1e20, 1e-20, 88.8, -104, 0.5]
)
X, Y = (np.array(side) for side in zip(*itertools.product(SPECIAL, SPECIAL)))


def classes(x: Any) -> np.ndarray:
    """0 for numbers, of which those below the normal range count as 0, ±1 for infinities, 2 for NaN; 0.5 for zero."""
    x = np.asarray(x)
    found = np.where(np.isnan(x), 2.0, np.where(np.isinf(x), np.sign(x), 0.0))
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0.5, found)


def assert_same_range(fun: Callable[..., Any], *args: Any) -> None:
    with np.errstate(all="ignore"):
        want = np.asarray(fun(*map(jnp.asarray, args)))
    got = np.asarray(functad.jit(fun)(*args))
    np.testing.assert_array_equal(classes(got), classes(want))


def test_the_check_objects_to_an_overflow() -> None:
    with pytest.raises(AssertionError):
        assert_same_range(lambda x: x * 1e30 if isinstance(x, Tracer) else x, np.float32([1e30]))
    assert classes(np.float32([1, 0, 1e-44, np.inf, -np.inf, np.nan])).tolist() == [0, 0.5, 0.5, 1, -1, 2]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "constants": lambda x, y: x * 1e30 * 1e-30,
    "constants, small first": lambda x, y: (x * 1e-30) * 1e30,
    "quotients": lambda x, y: x / 1e30 / 1e30 * 1e30,
    "division by a large constant": lambda x, y: x / 3e38,
    "division by a subnormal constant": lambda x, y: x / 1e-45,
    "x - x": lambda x, y: x - x + y,
    "x * 0": lambda x, y: x * 0 + y,
    "x / x": lambda x, y: x / x,
    "roots": lambda x, y: jnp.sqrt(x) * jnp.sqrt(x),
    "exp log": lambda x, y: jnp.exp(jnp.log(x)),
    "log exp": lambda x, y: jnp.log(jnp.exp(x)),
    "(x + y) - x": lambda x, y: (x + y) - x,
    "scaled product": lambda x, y: (x * 2) * y * 0.5,
    "power": lambda x, y: jnp.abs(x) ** y,
    "integer powers": lambda x, y: jnp.stack([x**n for n in range(-9, 20)]),
    "hypot": lambda x, y: jnp.hypot(x, y),
    "rsqrt": lambda x, y: lax.rsqrt(x),
    "mean": lambda x, y: jnp.mean(jnp.stack([x, y]), 0),
    "softmax": lambda x, y: functad.nn.softmax(jnp.stack([x, y]), 0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_special_values(name: str) -> None:
    assert_same_range(OPERATIONS[name], X, Y)


def balanced(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of all sizes and their reciprocals, in random order: products of some overflow, of all do not."""
    sizes = rng.uniform(-20, 20, (*shape[:-1], shape[-1] // 2))
    return rng.permuted(10.0 ** np.concatenate([sizes, -sizes], -1), axis=-1).astype(np.float32)


@pytest.mark.parametrize("shape", [(64,), (1000,), (100_000,), (300, 300), (7, 64), (2, 70_000)])
def test_products_of_many_numbers_keep_their_order(shape: tuple[int, ...]) -> None:
    x = balanced(np.random.default_rng(0), *shape)
    for axis in range(len(shape)):
        assert_same_range(lambda x, axis=axis: jnp.prod(x, axis), x)
        assert_same_range(lambda x, axis=axis: jnp.cumprod(x, axis), x)
    assert_same_range(jnp.prod, x)


def test_running_products_beyond_double_precision() -> None:
    x = np.roll(np.repeat(np.float32([1e38, 1e-38] * 3), 9), 1)
    assert_same_range(jnp.cumprod, x)


MATRIX_PRODUCTS: dict[str, Callable[..., Any]] = {
    "two factors": lambda a, b, p: 1e-30 * (1e30 * (a @ b)),
    "two factors, small first": lambda a, b, p: 1e30 * (1e-30 * (a @ b)),
    "a large factor of a small sum": lambda a, b, p: p - 1e15 * (a @ b + (-a) @ b),
    "a factor of a sum": lambda a, b, p: p - 1e-5 * (a @ b + a @ b),
    "a large factor": lambda a, b, p: p + 1e15 * (a @ b),
}


@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30, 1e19, 1e-19])
@pytest.mark.parametrize("name", MATRIX_PRODUCTS)
def test_scalings_of_matrix_products(name: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    # 200 terms: BLAS libraries add up longer sums in parts, and then what cancels is not 0.
    a, b, p = (rng.normal(size=s).astype(np.float32) for s in ((40, 200), (200, 30), (40, 30)))
    assert_same_range(MATRIX_PRODUCTS[name], a * np.float32(scale), b, p)
