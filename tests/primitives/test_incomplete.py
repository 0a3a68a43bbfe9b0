"""The kernels of the incomplete gamma and beta functions and of Bessel's, against closed forms and at their edges.

Knows kernels/incomplete.py and kernels/bessel.py only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
from functad.primitives.kernels import bessel, incomplete

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(0)


def _poisson_tail(n: int, x: float) -> float:
    """Q(n, x) for an integer n: the probability of fewer than n events."""
    return math.fsum(math.exp(k * math.log(x) - x - math.lgamma(k + 1)) for k in range(n))


@pytest.mark.parametrize("n", [1, 2, 5, 9, 10, 11, 40])
def test_gamma_of_integer_order(n):
    x = np.array([0.01, 0.5, 1.4, 1.6, n - 0.5, n + 1.0, 2.0 * n, 60.0])
    expected = [_poisson_tail(n, v) for v in x]
    np.testing.assert_allclose(incomplete.igammac(np.float64(n), x), expected, rtol=2e-13)


def test_gamma_of_half_order():
    x = np.geomspace(1e-12, 26.0, 200)
    with np.errstate(all="ignore"):
        lower, upper = (f(np.float64(0.5), x**2) for f in (incomplete.igamma, incomplete.igammac))
    np.testing.assert_allclose(lower, [math.erf(v) for v in x], rtol=1e-14)
    np.testing.assert_allclose(upper, [math.erfc(v) for v in x], rtol=5e-13)


def test_gamma_of_small_order_keeps_its_digits():
    # Q(a, x) = a E_1(x) to first order in a, where 1 - P would be rounded away.
    assert incomplete.igammac(np.float64(1e-14), np.float64(1.0)) == pytest.approx(0.21938393439552e-14, rel=1e-12)


@pytest.mark.parametrize("a", [1.0001e5, 4e5])
def test_gamma_of_large_order_by_two_methods(a):
    x = a + np.linspace(-12, 12, 49) * math.sqrt(a)
    order = np.full(x.shape, a)
    series, fraction = incomplete._gamma_series(order, x), incomplete._gamma_fraction(order, x)
    with np.errstate(all="ignore"):
        lower, upper = incomplete.igamma(order, x), incomplete.igammac(order, x)
    np.testing.assert_allclose(np.where(x < a, lower, upper), np.where(x < a, series, fraction), rtol=2e-13)


def test_gamma_at_edges():
    a, x = (
        np.array([1.0, 1.0, INF, 0.0, 0.0, INF, -1.0, 1.0, NAN, 1.0]),
        np.array([0, INF, 1, 1, 0, INF, 1, -1, 1, NAN]),
    )
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(incomplete.igamma(a, x), [0, 1, 0, 1, NAN, 1, *[NAN] * 4])
        np.testing.assert_array_equal(incomplete.igammac(a, x), [1, 0, 1, 0, NAN, 0, *[NAN] * 4])


def test_beta_with_one_parameter_1():
    a, x = 10 ** RNG.uniform(-8, 4, 500), RNG.uniform(0, 0.99, 500)
    one = np.ones(500)
    with np.errstate(all="ignore"):
        found = incomplete.betainc(a, one, x), incomplete.betainc(one, a, x)
    for values, expected in zip(found, (x**a, -np.expm1(a * np.log1p(-x)))):
        shown = expected > 1e-290
        np.testing.assert_allclose(values[shown], expected[shown], rtol=5e-13)


def test_beta_is_symmetric():
    a, b = 10 ** RNG.uniform(-1, 5, (2, 500))
    x = np.clip(a / (a + b) + RNG.normal(size=500) * np.sqrt(a * b / (a + b + 1)) / (a + b), 1 / 64, 63 / 64)
    x = np.round(x * 2**30) / 2**30  # so that 1 - x is exact
    with np.errstate(all="ignore"):
        total = incomplete.betainc(a, b, x) + incomplete.betainc(b, a, 1 - x)
    np.testing.assert_allclose(total, 1, rtol=1e-11)


def test_beta_of_a_tiny_number():
    """The first term of its series, x^a / (a B(a, b)), with both parameters large."""
    x, a, b = np.array([1e-20, 1e-8]), 12, 15
    expected = x**a * math.gamma(a + b) / (math.gamma(a + 1) * math.gamma(b))
    args = np.full(2, float(a)), np.full(2, float(b)), x
    found = functad.lax.betainc(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(functad.jit(functad.lax.betainc)(*args), found, rtol=1e-12)


def test_beta_at_edges():
    a, b = np.array([2.0, 2, 0, 2, 2, 2, NAN, 0, INF]), np.array([2.0, 2, 0, -1, 2, 2, 2, INF, 2])
    x = np.array([0, 1, 0.5, 0.5, -0.1, 1.1, 0.5, 0.5, 0.5])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(incomplete.betainc(a, b, x), [0, 1, *[NAN] * 5, 1, 0])


@pytest.mark.parametrize("order, function", [(0, bessel.bessel_i0e), (1, bessel.bessel_i1e)])
def test_bessel_against_its_integral(order, function):
    # exp(-x) I_n(x) is the mean over a circle of exp(x (cos t - 1)) cos(n t): the trapezoidal rule converges fast.
    t = np.arange(2000) * (2 * math.pi / 2000)
    x = np.array([1e-3, 0.5, 3.0, 12.0, 19.9, 20.1, 80.0, 1000.0])
    expected = np.mean(np.exp(np.outer(x, np.cos(t) - 1)) * np.cos(order * t), axis=1)
    np.testing.assert_allclose(function(x), expected, rtol=1e-14 if order == 0 else 3e-13)
    np.testing.assert_array_equal(function(-x), (-1) ** order * function(x))


def test_bessel_at_edges():
    x = np.array([0.0, INF, -INF, NAN])
    np.testing.assert_array_equal(bessel.bessel_i0e(x), [1, 0, 0, NAN])
    np.testing.assert_array_equal(bessel.bessel_i1e(x), [0, 0, 0, NAN])
    assert bessel.bessel_i0e(np.float16([1])).dtype == np.float16


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_dtypes(dtype):
    x = dtype([0.25, 0.5])
    with np.errstate(all="ignore"):
        results = [incomplete.igamma(x, x), incomplete.igammac(x, x), incomplete.betainc(x, x, x[0])]
    assert [(r.dtype, r.shape) for r in results] == [(np.dtype(dtype), (2,))] * 3


@pytest.mark.parametrize("function", [incomplete.igamma, incomplete.igammac, incomplete.betainc])
def test_large_arrays_have_the_values_of_small_ones(function, monkeypatch):
    operands = [RNG.uniform(0.1, 0.9, (5, 7)), RNG.uniform(0.5, 3, 7), np.float64(0.3)]
    operands = operands if function is incomplete.betainc else operands[:2]
    whole = function(*operands)
    monkeypatch.setattr(incomplete, "_BLOCK", 9)
    blocks = function(*operands)
    assert blocks.shape == (5, 7) and np.array_equal(blocks, whole)
