"""The transforms against JAX: seeded random programs under every composition of two and three transforms."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402

UNARY = ["sin", "cos", "tanh", "exp", "logistic", "square", "neg", "softabs"]
BINARY = ["add", "sub", "mul", "div", "maximum", "where"]
STRUCTURE = [
    "transpose",
    "flip",
    "cumsum",
    "matmul",
    "softmax",
    "slice",
    "concatenate",
    "sort",
    "gather",
    "reduce",
]


def random_function(seed):
    """A function of a (3, 3) array and the array namespace, made of random smooth steps."""
    rng = np.random.default_rng(seed)
    steps = [
        (str(rng.choice(UNARY + BINARY + STRUCTURE)), int(rng.integers(100)), int(rng.integers(100))) for _ in range(8)
    ]
    table = rng.standard_normal((3, 3)).astype(np.float32)

    def fun(np_, x):
        values = [x, np_.asarray(table) * x]
        for name, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(step(np_, name, a, b))
        return sum(values[1:], values[0])

    return fun


def _softmax(np_, a, b):
    e = np_.exp(np_.tanh(a))
    return e / e.sum(axis=-1, keepdims=True)


STEPS = {
    "logistic": lambda np_, a, b: 1 / (1 + np_.exp(-a)),
    "softabs": lambda np_, a, b: np_.sqrt(a * a + 1.0),
    "neg": lambda np_, a, b: -a,
    "exp": lambda np_, a, b: np_.exp(-np_.abs(a + 0.1)),
    "add": lambda np_, a, b: a + b,
    "sub": lambda np_, a, b: a - b,
    "mul": lambda np_, a, b: np_.tanh(a) * b,
    "div": lambda np_, a, b: a / (b * b + 1),
    "where": lambda np_, a, b: np_.where(a > b, a, 2 * b),
    "transpose": lambda np_, a, b: a.T,
    "flip": lambda np_, a, b: np_.flip(a, axis=0),
    "cumsum": lambda np_, a, b: np_.cumsum(a, axis=1),
    "matmul": lambda np_, a, b: np_.tanh(a) @ np_.tanh(b),
    "softmax": _softmax,
    "slice": lambda np_, a, b: np_.concatenate([a[1:], b[:1, ::-1]], axis=0),
    "concatenate": lambda np_, a, b: np_.concatenate([a, b], axis=1)[:, 1:4],
    "sort": lambda np_, a, b: np_.sort(a, axis=1),
    "gather": lambda np_, a, b: a[np.array([2, 0, 2]), :],
    "reduce": lambda np_, a, b: np_.broadcast_to(a.max(axis=0) + b.sum(axis=0), (3, 3)),
    "maximum": lambda np_, a, b: np_.maximum(a, b),
}


def step(np_, name, a, b):
    return STEPS[name](np_, a, b) if name in STEPS else getattr(np_, name)(a)


def summed(fun, np_):
    return lambda x: fun(np_, x).sum()


def transforms(api):
    return {
        "jit": lambda g: api.jit(g),
        "grad": lambda g: lambda x: api.grad(lambda y: g(y).sum())(x),
        "jvp": lambda g: lambda x: api.jvp(g, (x,), (x * 0 + 1,))[1],
        "vmap": lambda g: lambda x: api.vmap(lambda s: g(x * s))(x[0] * 0 + 0.5).sum(axis=0),
        "linearize": lambda g: lambda x: api.linearize(g, x)[1](x * 0 + 1),
        "vjp": lambda g: lambda x: api.vjp(g, x)[1](g(x) * 0 + 1)[0],
    }


PAIRS = list(itertools.product(transforms(functad), repeat=2))
TRIPLES = list(itertools.product(["jit", "grad", "jvp", "vmap"], repeat=3))


@pytest.mark.parametrize("chain", PAIRS + TRIPLES, ids="-".join)
def test_compositions_agree_with_jax(chain):
    rng = np.random.default_rng(sum(map(ord, "".join(chain))))
    seed = int(rng.integers(10_000))
    fun = random_function(seed)
    x = rng.standard_normal((3, 3)).astype(np.float32)
    ours, theirs = partial(fun, functad_numpy), partial(fun, jax_numpy)
    for name in chain:
        ours, theirs = transforms(functad)[name](ours), transforms(jax)[name](theirs)
    expected = np.asarray(jax.jit(theirs)(x))
    np.testing.assert_allclose(
        np.asarray(ours(x)),
        expected,
        rtol=2e-4,
        atol=2e-4 * max(1.0, np.abs(expected).max()),
        err_msg=f"seed {seed}",
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_agree_with_jax(seed):
    fun = random_function(seed)
    x = np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32)
    value, gradient = functad.value_and_grad(summed(fun, functad_numpy))(x)
    expected, expected_gradient = jax.jit(jax.value_and_grad(summed(fun, jax_numpy)))(x)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-3, atol=1e-3)
    jitted = functad.jit(functad.value_and_grad(summed(fun, functad_numpy)))(x)
    np.testing.assert_allclose(jitted[0], value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jitted[1], gradient, rtol=1e-4, atol=1e-4)
    functad.check_program(functad.make_jaxpr(functad.grad(summed(fun, functad_numpy)))(x))


def test_jacobians_and_hessians_agree_with_jax():
    def fun(np_):
        return lambda p: {"u": np_.sin(p["a"]) * p["b"][0], "v": p["a"].sum() * p["b"][1] ** 2}

    p = {"a": np.arange(3, dtype=np.float32), "b": (np.float32(2), np.float32(3))}
    for name in ("jacfwd", "jacrev", "hessian"):
        ours = getattr(functad, name)(fun(functad_numpy))(p)
        theirs = jax.jit(getattr(jax, name)(fun(jax_numpy)))(p)
        assert str(functad.tree_util.tree_structure(ours)) == str(jax.tree_util.tree_structure(theirs))
        for a, b in zip(functad.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_jacobian_of_a_wide_function_agrees_with_jax():
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    ours = functad.jacfwd(lambda x: functad_numpy.outer(x[0], x[1]))(x)
    theirs = jax.jacfwd(lambda x: jax_numpy.outer(x[0], x[1]))(x)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
