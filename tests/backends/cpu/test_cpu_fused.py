"""Jitted arithmetic is un-jitted arithmetic, to the bit; products are added unrounded only where that is asked for.

Knows operations that round once. Sums, whose terms come in any order, and functions are tested elsewhere.
"""

from __future__ import annotations

import platform
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.rounding import same_bits

import functad.numpy as jnp
from functad import jit, lax
from functad.backends.cpu.compile.processor import processor
from functad.config import config

BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x * y + x,
    lambda x, y: x * y - y * x,
    lambda x, y: x / y,
    lambda x, y: 3 * x - y / 7,
    lambda x, y: x**3 - y**2,
    jnp.maximum,
]
UNARY: list[Callable[[Any], Any]] = [
    lambda x: -x,
    jnp.sqrt,
    jnp.square,
    jnp.abs,
    lambda x: 0.1 * x + 0.7,
    jnp.reciprocal,
]


def random_arithmetic(seed: int, unary: list[Any]) -> Callable[..., Any]:
    choose = random.Random(seed)
    plan = [
        (choose.choice(BINARY[:-1] + (BINARY[-1:] if unary is UNARY else [])), choose.choice(unary)) for _ in range(8)
    ]
    places = [(choose.random(), choose.random()) for _ in plan]

    def fun(*args: Any) -> Any:
        values = list(args)
        for (two, one), (i, j) in zip(plan, places):
            values.append(two(values[int(i * len(values))], one(values[int(j * len(values))])))
        return values[len(args) :]

    return fun


def wild(dtype: str, seed: int, n: int = 200) -> np.ndarray:
    """Numbers of all sizes, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        part = {"complex64": "float32", "complex128": "float64"}[dtype]
        whole = np.empty(n, dtype)
        whole.real, whole.imag = wild(part, seed, n), wild(part, seed + 1, n)
        return whole
    most = np.finfo(dtype).maxexp
    x = rng.normal(size=n) * 2.0 ** rng.integers(-most + 2, most - 2, n)
    return np.where(rng.random(n) < 0.6, rng.normal(size=n), np.where(rng.random(n) < 0.1, np.inf, x)).astype(dtype)


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("seed", range(24))
def test_random_arithmetic_is_equal_to_the_bit(seed: int, dtype: str) -> None:
    is_complex = dtype.startswith("complex")
    unary = [lambda x: -x, jnp.square, lambda x: 0.1 * x + 0.7, jnp.reciprocal] if is_complex else UNARY
    fun = random_arithmetic(seed, unary)
    args = [wild(dtype, 3 * seed + k) for k in range(3)]
    with np.errstate(all="ignore"):
        wanted = [np.asarray(x) for x in fun(*map(jnp.asarray, args))]
    for k, (w, found) in enumerate(zip(wanted, jit(fun)(*args))):
        assert same_bits(w, np.asarray(found)), k


def test_loops_of_arithmetic_are_equal_to_the_bit() -> None:
    def step(c: Any, x: Any) -> Any:
        a, b = c
        return (a * x - b * 0.3, b * b - a * x + 0.1), a * b - 1

    x, start = np.linspace(-1, 1, 50, dtype=np.float32), (np.float32(0.3), np.float32(0.7))
    run = lambda start, x: lax.scan(step, start, x)  # noqa: E731
    (a, b), ys = jit(run)(start, x)
    with config.context(default_backend="interpreter"):
        (wanted_a, wanted_b), wanted = jit(run)(start, x)
    assert (float(a), float(b)) == (float(wanted_a), float(wanted_b)) and same_bits(np.asarray(wanted), np.asarray(ys))


BIG = np.float32(1e30)


def overflowing(x: Any, y: Any) -> Any:
    return x * x - y * y, x * x - np.float32(3e38)


def test_products_overflow_with_jit_as_without() -> None:
    with np.errstate(all="ignore"):
        wanted = [np.asarray(x) for x in overflowing(*map(jnp.asarray, (BIG, BIG)))]
    assert np.isnan(wanted[0]) and wanted[1] == np.inf
    for w, found in zip(wanted, jit(overflowing)(BIG, BIG)):
        assert same_bits(w, np.asarray(found))


def test_products_are_fused_where_that_is_asked_for() -> None:
    x = np.full(64, 1 + 2.0**-12, np.float32)
    residual = jit(lambda x, y: x * y - (1 + 2.0**-11))
    rounded = np.asarray(residual(x, x))
    assert np.all(rounded == 0)
    with config.context(fuse_multiply_add=True):
        fused = np.asarray(residual(x, x))
        lowered = residual.lower(x, x).compile()
    has_fma = "+fma" in processor()[1] or platform.machine() in ("aarch64", "arm64")
    assert np.all(fused == (2.0**-24 if has_fma else 0))
    assert np.array_equal(np.asarray(lowered(x, x)), fused)
    assert np.array_equal(np.asarray(residual(x, x)), rounded)  # each has its own kernels


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("power", [-5, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7])
def test_powers_of_complex_numbers_with_infinite_parts(dtype: str, power: int) -> None:
    big = {"complex64": 1e30, "complex128": 1e300}[dtype]
    parts = [0, -0.0, 1, -2.5, big, np.inf, -np.inf, np.nan, 1 / big, big**0.5, big**0.3]
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    exponents = np.full_like(z, power)
    with np.errstate(all="ignore"):
        by_pow = np.asarray(jnp.power(jnp.asarray(z), jnp.asarray(exponents)))
        by_products = np.asarray(lax.integer_pow(jnp.asarray(z), power))
    assert same_bits(by_pow, np.asarray(jit(jnp.power)(z, exponents)))
    assert same_bits(by_products, np.asarray(jit(lambda x: lax.integer_pow(x, power))(z)))
