"""Arguments of functions that few calls give: JAX's results, un-jitted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import numpy_option_cases  # noqa: E402

import functad  # noqa: E402
import functad.numpy as jnp  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
W = RNG.uniform(0.1, 1, size=X.shape).astype(np.float32)
Q = np.array([0, 0.1, 0.5, 0.93, 1.0], np.float32)
WITH_NAN = np.where(np.arange(60).reshape(X.shape) == 7, np.float32(np.nan), X)
PLACES = (np.array([1, 2]), np.array([0, 1]))

CASES = {
    "quantile, inverted_cdf": lambda m, x: m.quantile(x, Q, method="inverted_cdf"),
    "quantile, weights": lambda m, x: m.quantile(x, Q, axis=1, method="inverted_cdf", weights=W),
    "quantile, weights, axes": lambda m, x: m.quantile(x, Q, axis=(0, 2), method="inverted_cdf", weights=W),
    "quantile, weights of axes": lambda m, x: m.quantile(x, Q, axis=(0, 2), method="inverted_cdf", weights=W[:, 0]),
    "percentile, weights": lambda m, x: m.percentile(
        x, 100 * Q, axis=0, method="inverted_cdf", weights=W, keepdims=True
    ),
    "nanquantile, weights": lambda m, x: m.nanquantile(WITH_NAN, Q, axis=1, method="inverted_cdf", weights=W),
    "nanquantile, inverted_cdf": lambda m, x: m.nanquantile(WITH_NAN, Q, axis=1, method="inverted_cdf"),
    "quantile of NaN": lambda m, x: m.quantile(WITH_NAN, Q, axis=1, method="inverted_cdf"),
    "var, mean": lambda m, x: m.var(x, 1, mean=m.mean(x, 1, keepdims=True)),
    "std, mean": lambda m, x: m.std(x, mean=0.5),
    "nanvar, mean": lambda m, x: m.nanvar(WITH_NAN, 0, mean=W[:1]),
    "nanstd, mean": lambda m, x: m.nanstd(WITH_NAN, 0, mean=W[:1]),
    "cov, dtype": lambda m, x: m.cov(x[0], dtype="float16"),
    "corrcoef, dtype": lambda m, x: m.corrcoef(x[0], dtype="float32"),
    "argsort, dtype": lambda m, x: m.argsort(x, dtype="int16"),
    "mask_indices, size": lambda m, x: m.mask_indices(3, m.triu, size=8),
    "mask_indices, cut": lambda m, x: m.mask_indices(3, m.triu, size=2),
    "polyint, k": lambda m, x: m.polyint(x[0, 0], k=None),
    "ravel_multi_index, dtype": lambda m, x: m.ravel_multi_index(PLACES, (3, 4), dtype="int16"),
    "histogram, integer weights": lambda m, x: m.histogram(x, 3, weights=m.arange(60, dtype="int8").reshape(x.shape)),
}


@pytest.mark.parametrize("name", CASES)
def test_options_mean_the_same(name):
    expected = jax.tree.leaves(CASES[name](jax.numpy, X))
    for wrap in (lambda f: f, functad.jit):
        found = functad.tree.leaves(wrap(lambda x: CASES[name](jnp, x))(X))
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            tolerance = 1e-2 if b.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("name", sorted(numpy_option_cases.CASES.keys() - numpy_option_cases.DIFFERS_FROM_JAX))
def test_cases_that_numpy_has_too(name):
    function, args = numpy_option_cases.CASES[name]
    expected = jax.jit(lambda *a: function(jax.numpy, *a))(*args)
    for wrap in (lambda f: f, functad.jit):
        found = wrap(lambda *a: function(jnp, *a))(*map(jnp.asarray, args))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)


ARRAYS = [
    (np.array([5, 1, 1, 3, 7, 9]), np.array([3, 7, 2, 2])),
    (np.array([5, 1, 1, 3]), np.array([5, 1, 1, 3])),
    (np.array([5, 1, 1, 3]), np.array([100])),
    (np.array([np.nan, 1, np.nan], np.float32), np.array([5.0, 1.0], np.float32)),
]


@pytest.mark.parametrize("fill_value", [None, -1])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("name", ["setdiff1d", "intersect1d", "setxor1d"])
def test_sets_of_a_given_size(name, size, fill_value):
    # JAX fills setxor1d's with its minimum, NaN, where we fill with the smallest value.
    pairs = [pair for pair in ARRAYS if name != "setxor1d" or pair[0].dtype.kind != "f"]

    def of_all(m, pairs):
        return [getattr(m, name)(x, y, size=size, fill_value=fill_value) for x, y in pairs]

    expected = jax.jit(lambda pairs: of_all(jax.numpy, pairs))(pairs)
    for f, e in zip(functad.jit(lambda pairs: of_all(jnp, pairs))(pairs), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(f), np.asarray(e))
    x, y = ARRAYS[0]
    if name == "intersect1d":
        use = lambda m: m.intersect1d(x, y, return_indices=True, size=size, fill_value=fill_value)  # noqa: E731
        for a, b in zip(use(jnp), use(jax.numpy), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("trim", ["fb", "f", "b", ""])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_zeros_trimmed_along_axes(trim, axis):
    x = np.zeros((4, 5))
    x[1:3, 1:4] = 1
    for a in (x, np.zeros((2, 3))):
        np.testing.assert_array_equal(
            np.asarray(jnp.trim_zeros(a, trim, axis)), np.asarray(jax.numpy.trim_zeros(a, trim, axis))
        )
