"""`functad.scipy.stats` by what binds its functions together: compiled, mapped, integrated, inverted."""

from __future__ import annotations

import importlib
import inspect
import math

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16
from distribution_cases import CASES, IDS, INVALID, OF_COUNTS, OF_REALS, WITHOUT_SCALE, Q

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.scipy import stats


def method_of(name, method):
    return getattr(importlib.import_module(f"functad.scipy.stats.{name}"), method)


@pytest.mark.generated(every=5)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_compiled_and_mapped_as_un_jitted(case):
    name, method, args = case
    call = method_of(name, method)
    args = [np.asarray(a) for a in args]
    expected = np.asarray(call(*args))
    np.testing.assert_allclose(np.asarray(functad.jit(call)(*args)), expected, rtol=1e-12, atol=1e-15)
    axes = (0, *(None for _ in args[1:]))
    mapped = functad.jit(functad.vmap(call, axes))(np.stack([args[0], args[0]]), *args[1:])
    np.testing.assert_allclose(np.asarray(mapped[1]), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [*OF_REALS, *WITHOUT_SCALE])
def test_densities_are_slopes_of_distribution_functions_and_sum_to_one(name):
    shape, methods = (OF_REALS | WITHOUT_SCALE)[name]
    module = importlib.import_module(f"functad.scipy.stats.{name}")
    x = np.array([0.31, 0.52, 0.93]) if name != "pareto" else np.array([1.3, 2.0, 4.1])
    if "cdf" in methods:
        slope = functad.vmap(functad.grad(lambda v: module.cdf(v, *shape)))(x)
        np.testing.assert_allclose(np.asarray(slope), np.asarray(module.pdf(x, *shape)), rtol=1e-6)
    if "sf" in methods.split():
        np.testing.assert_allclose(np.asarray(module.cdf(x, *shape) + module.sf(x, *shape)), 1, rtol=1e-12)
    if "logsf" in methods.split():
        np.testing.assert_allclose(np.asarray(jnp.exp(module.logsf(x, *shape))), np.asarray(module.sf(x, *shape)))
        np.testing.assert_allclose(np.asarray(jnp.exp(module.logcdf(x, *shape))), np.asarray(module.cdf(x, *shape)))
    if "ppf" in methods:
        np.testing.assert_allclose(np.asarray(module.cdf(module.ppf(Q, *shape), *shape)), Q, rtol=1e-9)
    if "isf" in methods:
        np.testing.assert_allclose(np.asarray(module.sf(module.isf(Q, *shape), *shape)), Q, rtol=1e-9)


@pytest.mark.parametrize("name", OF_COUNTS)
def test_probabilities_sum_to_one(name):
    total = method_of(name, "pmf")(np.arange(0.0, 400.0), *OF_COUNTS[name]).sum()
    np.testing.assert_allclose(float(total), 1, rtol=1e-6)


@pytest.mark.parametrize("case", INVALID, ids=lambda c: f"{c[0]}.{c[1]}")
def test_what_makes_no_distribution_is_nan(case):
    name, method, args = case
    assert np.isnan(float(method_of(name, method)(*args)))


def test_slopes_at_ends_of_supports_are_finite():
    for name, shape in (("expon", ()), ("uniform", ()), ("gamma", (2.0,)), ("beta", (2.0, 2.0)), ("pareto", (2.0,))):
        slope = functad.grad(lambda x, n=name, s=shape: method_of(n, "logpdf")(x, *s))
        for x in (-0.5, 0.5, 1.5) + ((0.0, 1.0) if name not in ("gamma", "beta") else ()):
            assert np.isfinite(float(slope(np.array(x)))), (name, x)


def test_arguments_that_do_not_fit_say_why():
    for call, error, text in (
        (lambda: stats.dirichlet.logpdf(np.ones(2) / 2, np.ones((2, 2))), ShapeError, "alpha must be a vector"),
        (lambda: stats.dirichlet.logpdf(np.ones(5) / 5, np.ones(2)), ShapeError, "2 numbers first, or one less"),
        (lambda: stats.multinomial.logpmf(np.ones(2), 2, np.ones(2) / 2), DTypeError, "must be integers"),
        (lambda: stats.multivariate_normal.logpdf(np.ones(2), np.ones(2), np.eye(3)), ShapeError, "cov must be of 2"),
        (lambda: stats.rankdata(np.ones(2), "best"), ArgumentError, "method='best'"),
        (lambda: stats.mode(np.ones(2), nan_policy="omit"), ArgumentError, "take NaN out"),
        (lambda: stats.gaussian_kde(np.ones(1)), ArgumentError, "at least two"),
        (lambda: stats.gaussian_kde(np.arange(3.0), weights=np.ones(2)), ShapeError, "3 samples"),
        (lambda: stats.gaussian_kde(np.arange(3.0), "wide"), ArgumentError, "bw_method='wide'"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_samples():
    x = np.array([3.0, 1.0, 3.0, 2.0])
    assert np.asarray(functad.jit(stats.rankdata)(x)).tolist() == [3.5, 1.0, 3.5, 2.0]
    assert stats.rankdata(x, "dense").tolist() == [3, 1, 3, 2]
    found = functad.jit(stats.mode)(x)
    assert float(found.mode) == 3 and int(found.count) == 2
    np.testing.assert_allclose(float(stats.sem(x)), np.std(x, ddof=1) / 2)
    estimate = stats.gaussian_kde(x)
    line = np.linspace(-10, 15, 4001)
    np.testing.assert_allclose(float(jnp.trapezoid(estimate(line), line)), 1, rtol=1e-6)
    np.testing.assert_allclose(float(estimate.integrate_box_1d(-10.0, 15.0)), 1, rtol=1e-6)
    for use in (lambda: estimate.integrate_box(0, 1), lambda: estimate.set_bandwidth(1)):
        with pytest.raises(NotImplementedError):
            use()


@pytest.mark.generated(every=5)
@pytest.mark.parametrize("name", [*OF_REALS, *WITHOUT_SCALE, *OF_COUNTS])
def test_nan_gives_nan(name):
    """In any argument, un-jitted and compiled; comparisons with it would put it outside of the support."""
    module = importlib.import_module(f"functad.scipy.stats.{name}")
    for method in module.__all__:
        call = getattr(module, method)
        count = len(inspect.signature(call).parameters)
        shape = OF_COUNTS[name] if name in OF_COUNTS else (OF_REALS | WITHOUT_SCALE)[name][0]
        args = (2.5,) if method == "entropy" else (0.5, *shape)
        args = [*args, 0.0, 1.0][:count] if name in OF_REALS else [*args, 0.0][:count]
        for position in range(len(args)):
            given = [np.array(np.nan if k == position else a) for k, a in enumerate(args)]
            for form in (call, functad.jit(call)):
                assert np.isnan(float(form(*given))), (name, method, position)
        assert np.isnan(float(call(float("nan"), *args[1:])))


def test_far_quantiles_in_32_bits():
    q = np.array([1e-3, 1e-5, 0.999], np.float32)
    for method in ("ppf", "isf"):
        found, exact = (np.asarray(getattr(stats.cauchy, method)(q.astype(t))) for t in (np.float32, np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-7)


# Where terms of a formula cancel or overflow, or 32 bits are few.
VALUES = [
    (stats.t.logpdf, (0.0, 1e10), -0.9189385332),
    (stats.t.logpdf, (0.0, 1e17), -0.9189385332),
    (stats.t.cdf, (2.0, 1e17), 0.977249868),
    (stats.t.cdf, (np.inf, 1e6), 1.0),
    (stats.t.logpdf, (2.0, np.inf), -2 - 0.5 * math.log(2 * math.pi)),
    (stats.t.logpdf, (np.inf, np.inf), -np.inf),
    (stats.t.pdf, (0.3, np.inf, 0.1, 2.0), math.exp(-0.005) / math.sqrt(8 * math.pi)),
    (stats.t.cdf, (-np.inf, 1e6), 0.0),
    (stats.t.sf, (3.0, 9e4), 0.0013502673792),
    (stats.t.sf, (5.0, 2e5), 2.8689324583924e-7),
    (stats.t.sf, (20.0, 1.1e5), 3.9649283305827e-89),
    (stats.t.cdf, (-30.0, 1e6), 6.0100471168317e-198),
    (stats.binom.logpmf, (3.0, 1e12, 3e-12), 3 * math.log(3) - 3 - math.log(6)),
    (stats.nbinom.logpmf, (3.0, 1e6, 0.999999), -2.7917569690),
    (stats.cauchy.logpdf, (1e200,), -922.1787671),
    (stats.expon.cdf, (-1.0,), 0.0),
    (stats.expon.cdf, (0.0,), 0.0),
]
VALUES_IN_32_BITS = [
    (stats.wrapcauchy.logpdf, (0.0, 0.9999), 8.065394),
    (stats.vonmises.logpdf, (1e-2, 1e4), 3.186223),
    (stats.cauchy.logpdf, (-1e20,), -93.24813),
    (stats.dirichlet.logpdf, ([0.5, 0.5], [1e5, 1e5]), 5.877243),
    (lambda p: stats.multinomial.logpmf(np.array([500_000, 500_000]), 1_000_000, p), ([0.5, 0.5],), -7.133547),
]


def test_values_where_terms_cancel():
    for call, args, expected in VALUES:
        found = float(call(*(np.array(a, np.float64) for a in args)))
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=f"{call.__module__} {args}")
        assert np.signbit(found) == np.signbit(expected)
    for call, args, expected in VALUES_IN_32_BITS:
        found = call(*(np.array(a, np.float32) for a in args))
        assert found.dtype == np.float32
        np.testing.assert_allclose(float(found), expected, rtol=3e-7, err_msg=f"{call.__module__} {args}")


# (function, point, its slopes)
SLOPES_AT_ENDS = [
    (lambda mu: stats.poisson.logpmf(0, mu), 0.0, [-1, 0]),
    (lambda x: stats.gamma.logpdf(x, 1.0), 0.0, [-1]),
    (lambda x: stats.chi2.logpdf(x, 2.0), 0.0, [-0.5]),
    (lambda x: stats.beta.logpdf(x, 1.0, 1.0), 0.0, [0]),
    (lambda x: stats.beta.logpdf(x, 1.0, 1.0), 1.0, [0]),
    (lambda p: stats.bernoulli.logpmf(0, p), 0.0, [-1, -1]),
    (lambda p: stats.bernoulli.logpmf(1, p), 1.0, [1]),
    (lambda p: stats.binom.logpmf(0, 3, p), 0.0, [-3]),
    (lambda p: stats.geom.logpmf(1, p), 1.0, [1]),
    (lambda p: stats.multinomial.logpmf(np.array([2, 0]), 2, jnp.stack([p, 1 - p])), 1.0, [2]),
    (lambda x: stats.gennorm.cdf(x, 1.5), 0.0, [0.5538660884]),
    (lambda x: stats.gennorm.cdf(x, 2.0), 0.0, [math.pi**-0.5, 0]),
    (lambda b: stats.gennorm.cdf(0.0, b), 1.5, [0]),
    (lambda b: stats.truncnorm.logcdf(2.0, -np.inf, b), 1.0, [0]),
    (lambda a: stats.truncnorm.logcdf(-2.0, a, np.inf), 1.0, [0]),
    (lambda x: stats.truncnorm.cdf(x, -np.inf, np.inf), 0.0, [(2 * math.pi) ** -0.5]),
    (lambda df: stats.t.cdf(2.0, df), 2e5, [2.0 * 5 * 0.05399096651 / 4 / 4e10]),  # φ(z) (z³ + z) / (4 df²)
    (lambda x: stats.t.cdf(x, np.inf), 1.0, [0.24197072452, -0.24197072452]),
    (lambda x: stats.t.logpdf(x, np.inf), 2.0, [-2, -1]),
    (lambda df: stats.t.cdf(2.0, df), np.inf, [0]),
    (lambda df: stats.t.logpdf(2.0, df), np.inf, [0]),
]


@pytest.mark.parametrize("f, x, slopes", SLOPES_AT_ENDS)
def test_slopes_at_ends_are_those_from_within(f, x, slopes):
    for expected in slopes:
        f = functad.grad(f)
        np.testing.assert_allclose(float(f(np.array(x))), expected, rtol=2e-5, atol=1e-14)


@pytest.mark.parametrize("x", [0.5, -0.5, 0.0])
def test_mixed_slopes_of_the_generalised_normal_distribution(x):
    x, beta = np.array(x), np.array(1.4)
    expected = functad.grad(stats.gennorm.pdf, 1)(x, beta)
    for i in (0, 1):
        found = functad.grad(functad.grad(stats.gennorm.cdf, i), 1 - i)(x, beta)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_the_most_common_value_of_many():
    found = stats.mode(jnp.arange(100_000))  # n² comparisons would take ten thousand million
    assert (int(found.mode), int(found.count)) == (0, 1)
    x = np.array([[2.0, 1, 2, 1], [np.nan, np.nan, 5, np.nan], [3, 3, 3, 0]])
    found = functad.jit(lambda x: stats.mode(x, axis=1))(x)
    assert found.mode.tolist() == [1, 5, 3] and found.count.tolist() == [2, 1, 3]
    empty = stats.mode(np.zeros((0, 3)), axis=1)
    assert empty.mode.shape == (0,)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_the_error_of_the_mean_keeps_its_dtype(dtype):
    found = stats.sem(jnp.array([1.0, 3.0, jnp.nan], dtype), nan_policy="omit")
    assert found.dtype == jnp.dtype(dtype) and float(found) == 1.0
