"""`functad.scipy.stats` against JAX and SciPy: values in float32 and float64, dtypes, and derivatives."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
from distribution_cases import CASES, IDS, INVALID

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is not installed: the oracle tests compare with it")

import functad  # noqa: E402
import functad.numpy as jnp  # noqa: E402


def both(name, method):
    return [getattr(importlib.import_module(f"{m}.scipy.stats.{name}"), method) for m in ("functad", "jax")]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_values_are_scipys_and_dtypes_jaxs(case):
    name, method, args = case
    ours, theirs = both(name, method)
    found = functad.jit(ours)(*[np.array(a) if isinstance(a, float) else a for a in args])  # as numbers: 32 bits
    if name == "dirichlet":
        expected = (
            getattr(scipy_stats.dirichlet, method)(args[0], args[1]) if np.sum(args[0], 0).max() < 1.1 else -np.inf
        )
    elif name == "gennorm" or name == "wrapcauchy" or name == "vonmises" or hasattr(scipy_stats, name):
        expected = getattr(getattr(scipy_stats, name), method)(*args)
    if name == "wrapcauchy":  # SciPy's is wrapped onto 0 … 2π, where JAX's is −∞ elsewhere
        with jax.enable_x64(True):
            expected = jax.jit(theirs)(*args)
    if name == "bernoulli" and method == "ppf":
        expected = np.where(args[0] == 0, 0, expected)  # SciPy gives −1 there, JAX 0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-9, atol=1e-13)
    narrow = [a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a for a in args]
    small, jaxs = ours(*narrow), jax.eval_shape(theirs, *narrow)
    assert small.dtype == jaxs.dtype and small.shape == jaxs.shape
    np.testing.assert_allclose(np.asarray(small), np.asarray(expected), rtol=3e-5, atol=3e-6)


def derivative(module, f, args, run=lambda fun: fun):
    floats = [i for i, a in enumerate(args) if np.asarray(a).dtype.kind == "f"]

    def total(*values):
        given = list(args)
        for i, v in zip(floats, values):
            given[i] = v
        out = f(*given)
        return module.numpy.sum(module.numpy.where(module.numpy.isfinite(out), out, 0.0))

    gradient = run(module.grad(total, tuple(range(len(floats)))))
    return gradient(*[module.numpy.asarray(np.array(args[i])) for i in floats])


# JAX has no derivative of betainc in a and b, and none of xlogy(-1, x), an integer.
NOT_IN_JAX = {("beta", "cdf"), ("gumbel_l", "logpdf"), ("gumbel_r", "logpdf")}
DIFFERENTIATED = [c for c in CASES if c[1] in ("logpdf", "logpmf", "cdf") and c[:2] not in NOT_IN_JAX]


@pytest.mark.parametrize("case", DIFFERENTIATED, ids=lambda c: f"{c[0]}.{c[1]}")
def test_derivatives(case):
    name, method, args = case
    ours, theirs = both(name, method)
    with jax.enable_x64(True):
        expected = derivative(jax, theirs, args, jax.jit)
    for a, b in zip(derivative(functad, ours, args), expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        good = np.isfinite(b)  # JAX's are NaN at some ends of supports
        np.testing.assert_allclose(a[good], b[good], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", INVALID, ids=lambda c: f"{c[0]}.{c[1]}")
def test_what_makes_no_distribution_is_nan(case):
    name, method, args = case
    ours, theirs = both(name, method)
    assert np.isnan(float(ours(*args))) and np.isnan(float(theirs(*args)))


SAMPLES = np.array([[3.0, 1.0, 3.0, 2.0, 1.0], [0.5, 0.5, 0.5, 9.0, -1.0]])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_statistics_of_samples(axis):
    ours, theirs = functad.scipy.stats, jax.scipy.stats
    x = SAMPLES.astype(np.float32)
    for method in ("average", "min", "max", "dense", "ordinal"):
        a, b = ours.rankdata(x, method, axis=axis), theirs.rankdata(x, method, axis=axis)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    for name, keepdims in itertools.product(("mode", "sem"), (False, True)):
        pair = [getattr(m, name)(x, axis, keepdims=keepdims) for m in (ours, theirs)]
        for a, b in zip(functad.tree.leaves(pair[0]), jax.tree.leaves(pair[1]), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
    gaps = np.where(x == 9, np.float32(np.nan), x)
    a, b = ours.sem(gaps, axis, nan_policy="omit"), theirs.sem(gaps, axis, nan_policy="omit")
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


@pytest.mark.parametrize("bw_method", [None, "silverman", 0.5])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_estimated_densities(bw_method, d, weighted):
    rng = np.random.default_rng(0)
    samples, points = rng.normal(size=(d, 12)), rng.normal(size=(d, 4))
    weights = rng.uniform(size=12) if weighted else None
    with jax.enable_x64(True):
        theirs = jax.scipy.stats.gaussian_kde(jax.numpy.asarray(samples), bw_method, weights)
        ours = functad.scipy.stats.gaussian_kde(samples, bw_method, weights)
        uses = [
            lambda k, m: k(points),
            lambda k, m: k.logpdf(points),
            lambda k, m: k.integrate_gaussian(m.ones(d), m.eye(d)),
            lambda k, m: k.integrate_kde(k),
            lambda k, m: (k.n, k.d, k.neff, k.covariance, k.inv_cov),
        ]
        if d == 1:
            uses.append(lambda k, m: k.integrate_box_1d(-1.0, 0.5))
        for use in uses:
            for a, b in zip(functad.tree.leaves(use(ours, jnp)), jax.tree.leaves(use(theirs, jax.numpy)), strict=True):
                np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-7)
    drawn = ours.resample(functad.random.key(0), (5000,))
    assert drawn.shape == (d, 5000)
    np.testing.assert_allclose(np.asarray(drawn).mean(1), np.asarray(ours.dataset @ ours.weights), atol=0.1)
    assert functad.jit(lambda k: k(points))(ours).shape == (4,)
