"""Random numbers are the same to the bit in every mode: un-jitted, jitted, mapped, in loops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import dtypes, lax, nn, random

Draw = Callable[[Any, tuple[int, ...]], Any]

DTYPES = ("float16", "float32", "float64")
DISTRIBUTIONS: dict[str, Draw] = {}
for _dtype in DTYPES:
    for _name in ("uniform", "normal", "gumbel", "exponential", "laplace", "logistic", "cauchy"):
        DISTRIBUTIONS[f"{_name}_{_dtype}"] = lambda k, s, n=_name, d=_dtype: getattr(random, n)(k, s, d)
    DISTRIBUTIONS[f"uniform_between_{_dtype}"] = lambda k, s, d=_dtype: random.uniform(k, s, d, -0.3, 1.7)
    DISTRIBUTIONS[f"truncated_normal_{_dtype}"] = lambda k, s, d=_dtype: random.truncated_normal(k, -1.2, 1.9, s, d)
    DISTRIBUTIONS[f"gumbel_high_{_dtype}"] = lambda k, s, d=_dtype: random.gumbel(k, s, d, mode="high")
    DISTRIBUTIONS[f"bits_{_dtype}"] = lambda k, s, d=_dtype: random.bits(k, s, f"uint{d[5:]}")
DISTRIBUTIONS |= {
    "normal_complex64": lambda k, s: random.normal(k, s, "complex64"),
    "normal_complex128": lambda k, s: random.normal(k, s, "complex128"),
    "bernoulli": lambda k, s: random.bernoulli(k, 0.3, s),
    "bernoulli_high": lambda k, s: random.bernoulli(k, 0.3, s, mode="high"),
    "rademacher": lambda k, s: random.rademacher(k, s),
    "randint": lambda k, s: random.randint(k, s, -7, 12345),
    "permutation": lambda k, s: random.permutation(k, jnp.arange(float(np.prod(s))).reshape(s) if s else 1),
    "choice": lambda k, s: random.choice(k, 17, s),
    "choice_weighted": lambda k, s: random.choice(k, jnp.arange(9.0), s, p=_weights()),
    "choice_without": lambda k, s: random.choice(k, int(np.prod(s)) + 3, s, replace=False),
    "choice_weighted_without": lambda k, s: random.choice(k, 9, (4,), replace=False, p=_weights()),
    "categorical": lambda k, s: random.categorical(k, jnp.asarray(_LOGITS), shape=s),
    "split": lambda k, s: random.split(k, s),
    "fold_in": lambda k, s: random.fold_in(k, 7),
    "he_normal": lambda k, s: nn.initializers.he_normal()(k, (3, *s, 5)),
    "glorot_uniform": lambda k, s: nn.initializers.glorot_uniform()(k, (3, *s, 5)),
}
_LOGITS = np.random.default_rng(0).standard_normal(11).astype(np.float32)
SHAPES: list[tuple[int, ...]] = [(), (9,), (3, 5), (4099,)]


def _weights() -> Any:
    return jnp.arange(1.0, 10.0) / 45


def _bits(x: Any) -> bytes:
    return np.ascontiguousarray(random.key_data(x) if x.dtype == dtypes.key_fry else x).tobytes()


def test_every_distribution_is_tried() -> None:
    tried = {name.rsplit("_float", 1)[0] for name in DISTRIBUTIONS} | set(DISTRIBUTIONS)
    others = {"key", "PRNGKey", "key_data", "key_dtype", "key_impl", "wrap_key_data", "clone"} | {*CLOSE}
    public = {n for n in random.__all__ if callable(getattr(random, n))} - others
    assert {n for n in public if not any(t == n or t.startswith(n + "_") for t in tried)} == set()


# Numbers made of exponentials, powers, norms and factorisations are equal but for rounding, and counts are equal.
CLOSE: dict[str, Draw] = {
    "ball": lambda k, s: random.ball(k, 3, shape=s),
    "beta": lambda k, s: random.beta(k, 0.2, 3.0, s),
    "binomial": lambda k, s: random.binomial(k, 40, np.float32([0.1, 0.6]), (*s, 2)),
    "chisquare": lambda k, s: random.chisquare(k, 3.0, s),
    "dirichlet": lambda k, s: random.dirichlet(k, np.float32([0.1, 1, 4]), s),
    "double_sided_maxwell": lambda k, s: random.double_sided_maxwell(k, 1.0, 2.0, s),
    "f": lambda k, s: random.f(k, 3.0, 4.0, s),
    "gamma": lambda k, s: random.gamma(k, np.float32([0.1, 2]), (*s, 2)),
    "generalized_normal": lambda k, s: random.generalized_normal(k, 3.0, s),
    "geometric": lambda k, s: random.geometric(k, 0.1, s),
    "loggamma": lambda k, s: random.loggamma(k, 0.1, s),
    "lognormal": lambda k, s: random.lognormal(k, 0.5, s),
    "maxwell": lambda k, s: random.maxwell(k, s),
    "multinomial": lambda k, s: random.multinomial(k, 9, np.float32([0.2, 0.3, 0.5]), shape=(*s, 3)),
    "multivariate_normal": lambda k, s: random.multivariate_normal(k, np.zeros(2), np.diag([1.0, 2.0]), s),
    "orthogonal": lambda k, s: random.orthogonal(k, 3, s),
    "pareto": lambda k, s: random.pareto(k, 2.0, s),
    "poisson": lambda k, s: random.poisson(k, np.float32([3, 30]), (*s, 2)),
    "rayleigh": lambda k, s: random.rayleigh(k, 2.0, s),
    "t": lambda k, s: random.t(k, 3.0, s),
    "triangular": lambda k, s: random.triangular(k, 0.0, 1.0, 3.0, s),
    "wald": lambda k, s: random.wald(k, 2.0, s),
    "weibull_min": lambda k, s: random.weibull_min(k, 2.0, 3.0, s),
}


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", CLOSE)
def test_all_modes_draw_the_same_numbers(name: str) -> None:
    draw, keys = CLOSE[name], random.split(random.key(1), 3)
    rows = np.stack([draw(k, (40,)) for k in keys])
    mapped = functad.vmap(lambda k: draw(k, (40,)))
    atol = 1e-5 if name == "orthogonal" else 1e-6  # NumPy factorises in double precision, kernels in the matrix's own
    for mode in (mapped, functad.jit(mapped), functad.jit(lambda keys: lax.map(lambda k: draw(k, (40,)), keys))):
        np.testing.assert_allclose(np.asarray(mode(keys)), rows, rtol=2e-5, atol=atol)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_all_modes_draw_the_same_bits(name: str) -> None:
    shapes = [s for s in SHAPES if name != "choice_without" or len(s) < 2]
    key, keys = random.key(4), random.split(random.key(1), 5)

    def draw(k: Any) -> list[Any]:
        return [DISTRIBUTIONS[name](k, s) for s in shapes]

    def draw_small(k: Any) -> Any:
        return DISTRIBUTIONS[name](k, (7,))

    def looped(keys: Any) -> Any:
        return lax.scan(lambda c, k: (c + 1, draw_small(k)), 0, keys)[1]

    assert [_bits(x) for x in draw(key)] == [_bits(x) for x in functad.jit(draw)(key)]
    rows = [_bits(draw_small(k)) for k in keys]
    mapped = functad.vmap(draw_small)
    for mode in (mapped, functad.jit(mapped), looped, functad.jit(looped)):
        assert [_bits(row) for row in mode(keys)] == rows


@pytest.mark.parametrize("name", ["normal_float32", "cauchy_float64", "truncated_normal_float16"])
def test_long_loops_draw_the_same_bits(name: str) -> None:
    draw, keys = DISTRIBUTIONS[name], random.split(random.key(1), 5)

    def looped(keys: Any) -> Any:  # of many elements, which become kernels of their own
        return lax.scan(lambda c, k: (jnp.tanh(c), draw(k, (7,))), jnp.ones(3000), keys)[1]

    assert [_bits(row) for row in functad.jit(looped)(keys)] == [_bits(draw(k, (7,))) for k in keys]


def test_what_is_done_with_the_numbers_leaves_them_as_they_are() -> None:
    key = random.key(3)

    def drawn_and_used(k: Any) -> Any:
        x = random.normal(k, (1001,))
        u = random.uniform(k, (1001,), minval=-0.1, maxval=3.3)
        return x, u, x * 1.7 + 0.3, jnp.exp(u) * x - u, (x + u).sum()

    assert [_bits(v) for v in drawn_and_used(key)[:2]] == [_bits(v) for v in functad.jit(drawn_and_used)(key)[:2]]


def test_kernels_run_by_python_draw_the_same_bits() -> None:
    program = """
import functad, numpy as np
from functad import random
k = random.key(2)
for name in ("normal", "gumbel", "logistic", "cauchy", "laplace"):
    for dtype in ("float16", "float32", "float64"):
        print(np.asarray(functad.jit(lambda k: getattr(random, name)(k, (3,), dtype))(k)).tobytes().hex())
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    names = ("normal", "gumbel", "logistic", "cauchy", "laplace")
    wanted = [getattr(random, n)(random.key(2), (3,), d) for n in names for d in DTYPES]
    assert run.stdout.split() == [_bits(x).hex() for x in wanted]


def test_the_comparison_sees_the_last_bit_and_the_sign_of_zero() -> None:
    one = np.float32(1)
    assert _bits(one) != _bits(np.nextafter(one, np.float32(2))) and _bits(one * 0) != _bits(-one * 0)
