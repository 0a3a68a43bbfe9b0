"""`functad.scipy.stats` by what binds its functions together: compiled, mapped, integrated, inverted."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest
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
