"""Random numbers of distributions with parameters against JAX: the same key gives its numbers, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax, random
from functad.config import config

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

P = np.float32([0.1, 0.5, 0.9])
SHAPES = np.float32([1e-3, 0.1, 0.7, 1, 3, 50, 1e4])
COVARIANCE = np.float32([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 3]])
RATES = np.float32([0, 0.1, 3, 9.9, 10, 50, 1e4, np.nan, -1])
TRIALS, CHANCES = (
    np.float32([0, 1, 10, 99.5, 1e4, -1, np.inf, 9, 50]),
    np.float32([0.5, 0.5, 0.3, 0.7, 0.2, 0.3, 0.2, np.nan, -0.1]),
)

# the function, its arguments after the key, its options, and the floating arguments to differentiate in
CASES = [
    ("gamma", (SHAPES[1:],), {}, (0,)),
    ("gamma", (2,), {"shape": (3, 400)}, ()),
    ("gamma", (P,), {"shape": (0, 3)}, ()),
    ("loggamma", (SHAPES,), {"shape": (2, 7)}, (0,)),
    ("beta", (P, 2.0), {}, (0,)),
    ("beta", (1e-3, np.float32([1e-3, 2, 1e4])), {"shape": (2, 3)}, (1,)),
    ("dirichlet", (P,), {"shape": (4,)}, (0,)),
    ("dirichlet", (SHAPES[::-1],), {}, ()),
    ("chisquare", (np.float32([1, 3]),), {"shape": (5, 2)}, (0,)),
    ("f", (np.float32([1, 3]), 4.0), {}, (0,)),
    ("t", (3.0,), {"shape": (50,)}, ()),
    ("generalized_normal", (3.0,), {"shape": (50,)}, ()),
    ("ball", (3,), {"shape": (20,)}, ()),
    ("ball", (2,), {"p": 1.0, "shape": (2, 3)}, ()),
    ("lognormal", (P,), {}, (0,)),
    ("lognormal", (), {"shape": (4,)}, ()),
    ("lognormal", (2,), {"shape": (4,), "dtype": "complex64"}, ()),
    ("pareto", (P,), {}, (0,)),
    ("rayleigh", (P,), {"shape": (4, 3)}, (0,)),
    ("maxwell", (), {"shape": (20,)}, ()),
    ("double_sided_maxwell", (P, 2.0), {}, (0,)),
    ("double_sided_maxwell", (P, 2.0), {"shape": (2,)}, (0,)),
    ("weibull_min", (2.0, P), {}, (1,)),
    ("weibull_min", (2.0, 3.0), {"shape": (20,)}, ()),
    ("triangular", (0.0, P, 2.0), {}, (1,)),
    ("triangular", (0, 1, 2), {"shape": (20,)}, ()),
    ("wald", (P,), {"shape": (20, 3)}, (0,)),
    ("geometric", (P,), {"shape": (20, 3)}, ()),
    ("multinomial", (100, P / P.sum()), {}, ()),
    ("multinomial", (np.float32([[5], [50]])[..., 0], P / P.sum()), {"shape": (2, 3), "dtype": "int32"}, ()),
    ("orthogonal", (4,), {"shape": (2,)}, ()),
    ("orthogonal", (2,), {"m": 3}, ()),
    ("orthogonal", (3,), {"m": 2, "dtype": "complex64"}, ()),
    ("poisson", (RATES,), {}, ()),
    ("poisson", (3.0,), {"shape": (500,)}, ()),
    ("poisson", (300,), {"shape": (500,), "dtype": "int16"}, ()),
    ("binomial", (TRIALS, CHANCES), {}, ()),
    ("binomial", (30, 0.2), {"shape": (500,)}, ()),
    ("binomial", (300, np.float32(0.8)), {"shape": (500,)}, ()),
]
CASES += [("multivariate_normal", (P, COVARIANCE), {"method": m}, (0, 1)) for m in ("cholesky", "eigh", "svd")]
CASES += [("multivariate_normal", (P[:, None] * P, COVARIANCE), {"shape": (4, 3)}, ())]


def assert_close(found, expected, tolerance=2e-5):
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, args, options, chosen", CASES)
def test_numbers_and_derivatives(name, args, options, chosen):
    ours, theirs = getattr(random, name), getattr(jax.random, name)
    compiled, compiled_theirs = (
        functad.jit(lambda k: ours(k, *args, **options)),
        jax.jit(lambda k: theirs(k, *args, **options)),
    )
    for seed in (3, 11):
        key = np.uint32([0, seed])
        expected = compiled_theirs(key)
        assert_close(ours(key, *args, **options), expected)
        assert_close(compiled(key), expected)

    def total(f, *values):
        full = list(args)
        for i, v in zip(chosen, values):
            full[i] = v
        return f(np.uint32([0, 3]), *full, **options).sum()

    for i, v in enumerate(chosen):
        ours_of, theirs_of = (
            m.grad(lambda x, f=f, i=i: total(f, *(x if i == j else args[c] for j, c in enumerate(chosen))))
            for m, f in ((functad, ours), (jax, theirs))
        )
        found, wanted = ours_of(args[v]), jax.jit(theirs_of)(args[v])
        assert_close(found, wanted, 2e-4)


@pytest.mark.parametrize(
    "name, args", [("gamma", (0.3,)), ("beta", (2.0, 3.0)), ("binomial", (20, 0.7)), ("t", (4.0,))]
)
def test_numbers_of_float64(name, args):
    key = np.uint32([0, 5])
    with jax.enable_x64(True), config.context(enable_x64=True):
        found, expected = (getattr(m.random, name)(key, *args, (50,)) for m in (functad, jax))
        assert_close(found, expected, 1e-12)


@pytest.mark.parametrize("name, args", [("gamma", (2.0,)), ("poisson", (4.0,)), ("binomial", (9, 0.4))])
def test_numbers_of_many_keys(name, args):
    keys = np.asarray(random.split(random.PRNGKey(0), 5))
    found, expected = (m.vmap(lambda k, m=m: getattr(m.random, name)(k, *args))(keys) for m in (functad, jax))
    assert_close(found, expected)


@pytest.mark.parametrize("name", ["random_gamma_grad", "igamma_grad_a"])
def test_derivatives_of_the_incomplete_gamma_function_in_its_order(name):
    rng = np.random.default_rng(0)
    a = 10 ** rng.uniform(-3, 5, 300)
    x = np.maximum(rng.gamma(a), 1e-200)
    with jax.enable_x64(True):
        expected = np.asarray(getattr(jax.lax, name)(a, x))
        found = np.asarray(getattr(lax, name)(a, x))
        np.testing.assert_allclose(found, expected, rtol=2e-9, atol=1e-12 if name == "igamma_grad_a" else 0)
    a, x = a.astype(np.float32), x.astype(np.float32)  # JAX computes in float32 then, and loses up to a tenth
    exact = np.asarray(getattr(lax, name)(a.astype(np.float64), x.astype(np.float64)))
    np.testing.assert_allclose(np.asarray(getattr(lax, name)(a, x)), exact, rtol=2e-7)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_the_incomplete_gamma_function_is_differentiable_in_its_order(name):
    a, x = np.float32([0.01, 0.5, 3, 100]), np.float32([[0.1], [1], [3], [90]])
    theirs = {"igamma": jax.scipy.special.gammainc, "igammac": jax.scipy.special.gammaincc}[name]
    found = functad.grad(lambda a: sum(getattr(lax, name)(a, np.full(4, v, np.float32)).sum() for v in x[:, 0]))(a)
    assert_close(found, jax.grad(lambda a: theirs(a, x).sum())(a), 1e-4)


def test_the_derivative_at_the_ends_is_zero():
    ends = lax.igamma_grad_a(np.float32([2, 2]), np.float32([0, np.inf]))
    assert np.asarray(ends).tolist() == [0, 0]  # JAX: NaN at infinity
