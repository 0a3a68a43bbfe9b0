"""functad.random: statistics, shapes and dtypes, transforms, and what the errors say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
from functad import random
from functad.config import config
from functad.errors import ArgumentError, DTypeError, FunctadError, ShapeError

KEY = random.key(2024)
N = 20_000


def moments(x):
    values = np.asarray(x, np.float64)
    return values.mean(), values.var()


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("uniform", 1 / 2, 1 / 12),
        ("normal", 0, 1),
        ("gumbel", 0.5772, math.pi**2 / 6),
        ("exponential", 1, 1),
        ("laplace", 0, 2),
        ("logistic", 0, math.pi**2 / 3),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_moments(name, mean, variance, dtype):
    x = getattr(random, name)(KEY, (N,), dtype)
    assert x.dtype == dtype
    assert np.isfinite(np.asarray(x)).all()
    found_mean, found_variance = moments(x)
    assert found_mean == pytest.approx(mean, abs=5 * math.sqrt(variance / N))
    assert found_variance == pytest.approx(variance, rel=0.08)


def test_uniform_stays_in_its_bounds():
    x = np.asarray(random.uniform(KEY, (N,), minval=-2, maxval=3))
    assert -2 <= x.min() < -1.99 and 2.99 < x.max() < 3


def test_truncated_normal_stays_in_its_bounds():
    x = np.asarray(random.truncated_normal(KEY, -0.5, 1.0, (N,)))
    assert -0.5 < x.min() < -0.49 and 0.99 < x.max() < 1.0
    assert x.mean() == pytest.approx(0.2069, abs=0.02)


def test_cauchy_has_its_quartiles():
    quartiles = np.percentile(np.asarray(random.cauchy(KEY, (N,))), [25, 50, 75])
    np.testing.assert_allclose(quartiles, [-1, 0, 1], atol=0.06)


def test_a_complex_normal_has_unit_variance():
    x = np.asarray(random.normal(KEY, (N,), "complex64"))
    assert x.dtype == np.complex64
    assert np.mean(np.abs(x) ** 2) == pytest.approx(1, abs=0.05)
    assert abs(np.mean(x**2)) < 0.05


def test_bernoulli_frequencies():
    for mode in ["low", "high"]:
        assert np.mean(np.asarray(random.bernoulli(KEY, 0.3, (N,), mode))) == pytest.approx(0.3, abs=0.02)
    p = np.float32([0, 1])
    assert random.bernoulli(KEY, p, (50, 2)).sum(0).tolist() == [0, 50]


def test_randint_frequencies():
    counts = np.bincount(np.asarray(random.randint(KEY, (N,), 3, 8)), minlength=9)
    assert counts[:3].tolist() == [0, 0, 0] and counts[8] == 0
    np.testing.assert_allclose(counts[3:8] / N, 0.2, atol=0.02)


def test_randint_covers_the_whole_of_a_dtype():
    assert set(np.asarray(random.randint(KEY, (N,), 0, 256, "uint8")).tolist()) == set(range(256))
    wide = np.asarray(random.randint(KEY, (N,), 0, 2**32, "uint32"), np.float64) / 2**32
    assert wide.mean() == pytest.approx(0.5, abs=0.02) and wide.max() > 0.999


def test_rademacher_signs():
    signs = np.asarray(random.rademacher(KEY, (N,)))
    assert set(signs.tolist()) == {-1, 1}
    assert signs.mean() == pytest.approx(0, abs=0.03)


def test_categorical_frequencies():
    p = np.float32([0.1, 0.2, 0.7])
    drawn = np.asarray(random.categorical(KEY, np.log(p), shape=(N,)))
    np.testing.assert_allclose(np.bincount(drawn) / N, p, atol=0.02)
    distinct = np.asarray(random.categorical(KEY, np.log(p), shape=(3,), replace=False))
    assert sorted(distinct.tolist()) == [0, 1, 2]


def test_choice_frequencies():
    p = np.float32([0.5, 0, 0.25, 0.25])
    drawn = np.asarray(random.choice(KEY, 4, (N,), p=p))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / N, p, atol=0.02)
    assert sorted(np.asarray(random.choice(KEY, 4, (3,), replace=False, p=p)).tolist()) == [0, 2, 3]


def test_permutation_keeps_the_elements():
    x = np.arange(12).reshape(4, 3)
    rows = np.asarray(random.permutation(KEY, x))
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, x.tolist()))
    mixed = np.asarray(random.permutation(KEY, x, axis=1, independent=True))
    np.testing.assert_array_equal(np.sort(mixed, axis=1), x)
    assert sorted(np.asarray(random.permutation(KEY, 100)).tolist()) == list(range(100))


def test_split_keys_are_distinct_and_fold_in_differs_from_them():
    keys = np.asarray(random.key_data(random.split(KEY, 1000)))
    assert keys.shape == (1000, 2)
    assert len({tuple(k) for k in keys.tolist()}) == 1000
    folded = np.asarray([random.key_data(random.fold_in(KEY, i)) for i in range(50)])
    assert len({tuple(k) for k in folded.tolist()}) == 50


def test_shapes_of_split():
    assert random.split(KEY, (2, 3)).shape == (2, 3)
    assert random.split(KEY, 0).shape == (0,)
    assert random.split(random.PRNGKey(0), (2, 3)).shape == (2, 3, 2)
    assert random.split(random.PRNGKey(0), 0).shape == (0, 2)


def test_the_same_key_gives_the_same_numbers():
    np.testing.assert_array_equal(random.normal(KEY, (5,)), random.normal(random.key(2024), (5,)))


def test_keys_of_seeds():
    for words in (random.PRNGKey, lambda seed: random.key_data(random.key(seed))):
        assert words(7).tolist() == [0, 7]
        assert words(-1).tolist() == [0, 2**32 - 1]
        assert words(2**40 + 5).tolist() == [256, 5]
        assert words(np.int64(2**40 + 5)).tolist() == [256, 5]
        assert functad.jit(words)(np.int32(9)).tolist() == [0, 9]
        with config.context(enable_x64=True):
            assert words(-1).tolist() == [2**32 - 1, 2**32 - 1]


def test_jit_gives_the_same_numbers():
    def draw(key):
        a, b, c = random.split(key, 3)
        return random.normal(a, (3,)), random.permutation(b, 10), random.randint(c, (4,), 0, 9)

    for one, other in zip(functad.jit(draw)(KEY), draw(KEY), strict=True):
        np.testing.assert_array_equal(one, other)


def test_vmap_over_keys_and_over_parameters():
    keys = random.split(KEY, 4)
    drawn = functad.vmap(lambda k: random.uniform(k, (3,)))(keys)
    np.testing.assert_array_equal(drawn, np.stack([random.uniform(k, (3,)) for k in keys]))
    highs = np.int32([1, 5, 100])
    drawn = functad.vmap(lambda high: random.randint(KEY, (6,), 0, high))(highs)
    np.testing.assert_array_equal(drawn, np.stack([random.randint(KEY, (6,), 0, h) for h in highs]))


def test_gradients_flow_to_the_parameters():
    noise = np.asarray(random.normal(KEY, (4,)))

    def loss(mean, scale):
        return (mean + scale * random.normal(KEY, (4,))).sum()

    mean, scale = functad.grad(loss, (0, 1))(1.0, 2.0)
    assert float(mean) == 4
    assert float(scale) == pytest.approx(noise.sum(), rel=1e-5)
    unit = np.asarray(random.uniform(KEY, (4,)))
    high = functad.grad(lambda high: random.uniform(KEY, (4,), maxval=high).sum())(2.0)
    assert float(high) == pytest.approx(unit.sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("draw", "error", "text"),
    [
        (
            lambda: random.uniform(0),
            ArgumentError,
            r"uniform needs a key, .* was given 0 of type int; .*random.key",
        ),
        (lambda: random.normal(np.zeros(2)), DTypeError, r"normal needs a key, .* was given f64\[2\]"),
        (
            lambda: random.split(np.zeros(3, np.uint32)),
            ShapeError,
            r"split needs raw keys of shape \(..., 2\), .* given \(3,\)",
        ),
        (
            lambda: random.bits(random.split(KEY)),
            ShapeError,
            r"bits needs one key, .* typed keys of shape \(2,\); map over .* functad.vmap",
        ),
        (lambda: random.key(1.5), ArgumentError, "must be an integer, but is 1.5"),
        (lambda: random.key(np.arange(3)), ArgumentError, r"must be an integer, but is i64\[3\]; vmap makes"),
        (lambda: random.key(2**64), ArgumentError, "must fit in 64 bits"),
        (lambda: random.key(True), ArgumentError, "must be an integer, but is True"),
        (lambda: random.key(0, impl="rbg"), ArgumentError, "impl='rbg' is absent .*: the only generator"),
        (lambda: random.wrap_key_data(np.zeros(2, np.uint32), impl="foo"), ArgumentError, "impl='foo' is unknown"),
        (lambda: random.fold_in(KEY, -1), ArgumentError, r"data=-1 must lie in 0 … 2\*\*32 - 1"),
        (lambda: random.fold_in(KEY, 1.5), ArgumentError, r"data must be one integer, but is f32\[\]"),
        (lambda: random.bits(KEY, dtype="int32"), DTypeError, "must be an unsigned integer dtype, got int32"),
        (
            lambda: random.uniform(KEY, dtype=int),
            DTypeError,
            "uniform: dtype must be a floating dtype, got int32",
        ),
        (lambda: random.uniform(KEY, (-1,)), ArgumentError, "negative size"),
        (
            lambda: random.uniform(KEY, (2, 4), minval=np.zeros(3, np.float32)),
            ShapeError,
            r"uniform: .*\(3,\)",
        ),
        (
            lambda: random.uniform(KEY, (3,), minval=np.zeros((2, 3), np.float32)),
            ShapeError,
            r"\(2, 3\) does not broadcast to shape=\(3,\)",
        ),
        (lambda: random.gumbel(KEY, mode="highest"), ArgumentError, "mode='highest' is unknown"),
        (lambda: random.bernoulli(KEY, 1), DTypeError, r"probability p must be a float, got i32\[\]"),
        (lambda: random.rademacher(KEY, (3,), "uint8"), DTypeError, "able to hold -1, got uint8"),
        (
            lambda: random.randint(KEY, (3,), 0, 2**33),
            ArgumentError,
            "maxval=8589934592 does not fit the dtype",
        ),
        (lambda: random.randint(KEY, (3,), -1, 5, "uint8"), ArgumentError, "minval=-1 does not fit"),
        (lambda: random.randint(KEY, (3,), 1j, 5), DTypeError, r"minval must be a real number, got c64\[\]"),
        (
            lambda: random.randint(KEY, (3,), 0, 5, "float32"),
            DTypeError,
            "must be an integer dtype, got float32",
        ),
        (lambda: random.permutation(KEY, 2.5), ArgumentError, "x must be an integer or an array"),
        (lambda: random.choice(KEY, 0, (2,)), ArgumentError, "nothing to draw from"),
        (lambda: random.choice(KEY, 3, (4,), replace=False), ArgumentError, "wants 4 elements, but a has 3"),
        (
            lambda: random.choice(KEY, 3, p=np.ones(2) / 2),
            ShapeError,
            r"p must have shape \(3,\).*, got \(2,\)",
        ),
        (lambda: random.choice(KEY, 2.5), ArgumentError, "a must be an integer or an array"),
        (
            lambda: random.categorical(KEY, np.zeros(3, np.int32)),
            DTypeError,
            r"logits must be floats, got i32\[3\]",
        ),
        (lambda: random.categorical(KEY, np.zeros((2, 3)), shape=(3,)), FunctadError, r"\(3,\).*\(2,\)"),
        (
            lambda: random.categorical(KEY, np.zeros(3), shape=(4,), replace=False),
            ArgumentError,
            "wants 4 different categories, but logits has 3",
        ),
    ],
)
def test_errors_say_what_to_do(draw, error, text):
    with pytest.raises(error, match=text):
        draw()


# --- distributions with parameters ------------------------------------------------------------------

# the numbers' mean and variance
WITH_PARAMETERS = {
    "gamma": (lambda: random.gamma(KEY, 0.5, (N,)), 0.5, 0.5),
    "beta": (lambda: random.beta(KEY, 2.0, 3.0, (N,)), 0.4, 0.04),
    "chisquare": (lambda: random.chisquare(KEY, 3.0, (N,)), 3, 6),
    "f": (lambda: random.f(KEY, 5.0, 20.0, (N,)), 20 / 18, 2 * 400 * 23 / (5 * 18**2 * 16)),
    "t": (lambda: random.t(KEY, 10.0, (N,)), 0, 10 / 8),
    "generalized_normal": (lambda: random.generalized_normal(KEY, 2.0, (N,)), 0, 0.5),
    "lognormal": (lambda: random.lognormal(KEY, 0.3, (N,)), math.exp(0.045), (math.exp(0.09) - 1) * math.exp(0.09)),
    "pareto": (lambda: random.pareto(KEY, 9.0, (N,)), 9 / 8, 9 / (64 * 7)),
    "rayleigh": (lambda: random.rayleigh(KEY, 2.0, (N,)), 2 * math.sqrt(math.pi / 2), (4 - math.pi) * 2),
    "maxwell": (lambda: random.maxwell(KEY, (N,)), 2 * math.sqrt(2 / math.pi), 3 - 8 / math.pi),
    "weibull_min": (lambda: random.weibull_min(KEY, 2.0, 1.0, (N,)), 2, 4),
    "triangular": (lambda: random.triangular(KEY, 0.0, 1.0, 2.0, (N,)), 1, 1 / 6),
    "wald": (lambda: random.wald(KEY, 1.0, (N,)), 1, 1),
    "geometric": (lambda: random.geometric(KEY, 0.25, (N,)), 4, 12),
    "few_of_poisson": (lambda: random.poisson(KEY, 4.0, (N,)), 4, 4),
    "many_of_poisson": (lambda: random.poisson(KEY, 40.0, (N,)), 40, 40),
    "few_of_binomial": (lambda: random.binomial(KEY, 12, 0.75, (N,)), 9, 9 / 4),
    "many_of_binomial": (lambda: random.binomial(KEY, 100, 0.6, (N,)), 60, 24),
    "multinomial": (lambda: random.multinomial(KEY, 12, np.float32([0.25, 0.75]), shape=(N, 2))[:, 0], 3, 9 / 4),
    "multivariate_normal": (
        lambda: random.multivariate_normal(KEY, np.float32([1, 2]), np.float32([[2, 1], [1, 3]]), (N,))[:, 1],
        2,
        3,
    ),
}


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_moments_of_distributions_with_parameters(name):
    draw, mean, variance = WITH_PARAMETERS[name]
    found_mean, found_variance = moments(draw())
    assert found_mean == pytest.approx(mean, abs=5 * math.sqrt(variance / N))
    assert found_variance == pytest.approx(variance, rel=0.1)


def test_points_in_a_ball_and_probabilities():
    assert np.linalg.norm(np.asarray(random.ball(KEY, 3, shape=(N,))), axis=-1).max() < 1
    simplex = np.asarray(random.dirichlet(KEY, np.float32([1e-3, 1e-3, 2]), (N,)))
    assert (simplex >= 0).all() and np.allclose(simplex.sum(-1), 1, atol=1e-5)
    counts = np.asarray(random.multinomial(KEY, 7, np.float32([0.2, 0.0, 0.8]), shape=(N, 3)))
    assert (counts.sum(-1) == 7).all() and (counts[:, 1] == 0).all() and (counts >= 0).all()


def test_the_mean_moves_as_the_parameter_does():
    slope = functad.grad(lambda a: random.gamma(KEY, a, (N,)).mean())(0.7)  # the mean is a
    assert float(slope) == pytest.approx(1, abs=0.05)
    slope = functad.grad(lambda a: random.loggamma(KEY, a, (N,)).mean())(1.0)  # the mean is ψ(a)
    assert float(slope) == pytest.approx(math.pi**2 / 6, rel=0.05)
    slope = functad.jit(functad.grad(lambda a: random.beta(KEY, a, 3.0, (N,)).mean()))(2.0)  # the mean is a/(a+3)
    assert float(slope) == pytest.approx(3 / 25, rel=0.05)


def test_infinite_parameters_come_to_an_end():
    assert random.poisson(KEY, np.float32([np.inf, 2, -np.inf])).tolist()[::2] == [-1, -1]
    assert random.binomial(KEY, np.inf, np.float32([0.0, 0.5, 1.0])).tolist() == [np.inf] * 3


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: random.gamma(KEY, np.ones(3), (2,)), ShapeError, r"gamma: .*\(3,\)"),
        (lambda: random.gamma(KEY, 1.0, dtype="int32"), DTypeError, "gamma: dtype must be a floating"),
        (lambda: random.poisson(KEY, 1.0, dtype="float32"), DTypeError, "poisson: dtype must be an integer"),
        (lambda: random.dirichlet(KEY, 1.0), ShapeError, "dirichlet: alpha must be a vector"),
        (lambda: random.ball(KEY, 2.5), ArgumentError, "ball: d, the number of dimensions"),
        (lambda: random.orthogonal(KEY, -1), ArgumentError, "orthogonal: n and m"),
        (lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(3)), ShapeError, r"\(2,\) and \(3, 3\)"),
        (lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(2), method="qr"), ArgumentError, "method must be"),
    ],
)
def test_parameters_that_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("method", ["eigh", "svd"])
def test_normal_vectors_of_semi_definite_covariances(method):
    for cov in (np.ones((3, 3)), np.zeros((3, 3)), np.outer([1, 2, 3], [1, 2, 3]), np.diag([1.0, 0.0, 2.0])):
        x = np.asarray(random.multivariate_normal(KEY, np.zeros(3), np.float32(cov), (4000,), method=method))
        np.testing.assert_allclose(x.T @ x / len(x), cov, atol=0.1 * cov.max() + 1e-3)
    indefinite = np.float32([[1, 2], [2, 1]])
    assert np.isnan(random.multivariate_normal(KEY, np.zeros(2), indefinite, method="eigh")).all()
