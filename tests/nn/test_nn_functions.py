"""The functions of `functad.nn`: values at the edges, gradients against differences, error texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
from functad import nn
from functad import numpy as jnp
from functad.errors import ArgumentError, AxisError, ShapeError

# Away from the kinks at -3, -1, 0, 1, 3 and 6.
X = np.array([-7.3, -2.4, -0.6, 0.4, 0.9, 2.2, 4.7, 6.8])
MASK = np.array([True, True, False, True, True, False, True, True])

DIFFERENTIABLE = {
    **{
        name: getattr(nn, name)
        for name in (
            "celu elu gelu hard_sigmoid hard_silu hard_tanh identity leaky_relu log_sigmoid mish relu relu6 "
            "selu sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus tanh glu softmax "
            "log_softmax logmeanexp logsumexp standardize"
        ).split()
    },
    "gelu exact": lambda x: nn.gelu(x, approximate=False),
    "softmax where": lambda x: nn.softmax(x, where=MASK),
    "logsumexp b": lambda x: nn.logsumexp(x, b=jnp.arange(8.0)),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_both_orders_match_differences(name):
    f = DIFFERENTIABLE[name]
    weights = np.linspace(0.5, 1.5, np.asarray(f(X)).size).reshape(f(X).shape)

    def scalar(x):
        return jnp.sum(weights * f(x))

    direction = np.cos(np.arange(X.size))
    gradient = functad.grad(scalar)
    assert gradient(X).dtype == np.float64
    slope = _difference(scalar, direction)
    np.testing.assert_allclose(np.asarray(gradient(X)) @ direction, slope, rtol=1e-6, atol=1e-8)
    curvature = functad.jvp(gradient, (X,), (direction,))[1]
    np.testing.assert_allclose(np.asarray(curvature), _difference(gradient, direction), rtol=1e-6, atol=1e-8)


def _difference(f, direction, h=1e-5):
    return (np.asarray(f(X + h * direction)) - np.asarray(f(X - h * direction))) / (2 * h)


@pytest.mark.parametrize("name", ["relu", "relu6"])
def test_the_kink_at_zero_has_slope_zero(name):
    assert functad.grad(getattr(nn, name))(0.0) == 0.0
    assert functad.grad(nn.relu6)(6.0) == 0.0


def test_complex_numbers():
    z = np.array([0.5 + 1j, -2j, 3.0], np.complex64)
    sigmoid = 1 / (1 + np.exp(-z.astype(np.complex128)))
    for way in (lambda f: f, functad.jit):
        np.testing.assert_allclose(np.asarray(way(nn.sigmoid)(z)), sigmoid, rtol=1e-6)
        np.testing.assert_allclose(np.asarray(way(nn.softplus)(z)), np.log(1 + np.exp(z)), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(way(nn.softmax)(z)), np.exp(z) / np.exp(z).sum(), rtol=1e-5)
    slope = functad.jit(functad.grad(lambda t: jnp.real(nn.sigmoid(t * (1 + 1j)))))(0.0)
    np.testing.assert_allclose(np.asarray(slope), 0.25, rtol=1e-6)


def test_not_a_number_passes_relu():
    assert np.isnan(nn.relu(np.nan)) and np.isnan(nn.relu6(np.nan))


def test_softmax_family_is_stable():
    x = np.array([1e4, -1e4, 0.0], np.float32)
    assert nn.softmax(x).tolist() == [1.0, 0.0, 0.0]
    assert nn.log_softmax(x).tolist() == [0.0, -2e4, -1e4]
    assert nn.logsumexp(x) == 1e4
    assert nn.logsumexp(np.full(3, -np.inf)) == -np.inf
    assert np.isfinite(functad.grad(lambda x: nn.log_softmax(x)[1])(x)).all()


def test_softmax_where_gives_zero_outside():
    probabilities = np.asarray(nn.softmax(X, where=MASK))
    assert (probabilities[~MASK] == 0).all() and np.isclose(probabilities.sum(), 1)
    np.testing.assert_allclose(probabilities[MASK], np.asarray(nn.softmax(X[MASK])))


def test_logsumexp_of_a_negative_sum_needs_its_sign():
    a, b = np.array([0.0, 1.0]), np.array([1.0, -1.0])
    assert np.isnan(nn.logsumexp(a, b=b))
    result, sign = nn.logsumexp(a, b=b, return_sign=True)
    np.testing.assert_allclose(float(sign) * np.exp(float(result)), 1 - np.e)


def test_standardize_keeps_digits_far_from_zero():
    x = np.array([10001.0, 10002.0, 10003.0], np.float32)
    np.testing.assert_allclose(
        np.asarray(nn.standardize(x, epsilon=0.0)), [-1.2247449, 0, 1.2247449], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "softmax", "elu", "relu"])
def test_the_dtype_of_floats_is_kept(name):
    for dtype in ("float16", "float32", "float64"):
        assert getattr(nn, name)(X.astype(dtype)).dtype == dtype


def test_one_hot_traces_and_maps():
    x = np.array([1, 0, 2])
    expected = np.eye(3)[x]
    assert (np.asarray(functad.jit(lambda x: nn.one_hot(x, 3))(x)) == expected).all()
    assert (np.asarray(functad.vmap(lambda x: nn.one_hot(x, 3))(x)) == expected).all()
    assert nn.one_hot(x, 3, axis=0, dtype=bool).tolist() == (expected.T == 1).tolist()
    assert nn.one_hot(x, 0).shape == (3, 0)


def test_errors_say_what_and_how():
    with pytest.raises(ArgumentError, match=r"one_hot: axis=2 is no place .* shape \(3,\); choose one in -2..1"):
        nn.one_hot(np.arange(3), 3, axis=2)
    with pytest.raises(ArgumentError, match=r"num_classes=3\.0 must be a Python integer"):
        nn.one_hot(np.arange(3), 3.0)
    with pytest.raises(ShapeError, match=r"glu: axis -1 of an array of shape \(2, 3\) has size 3, which is odd"):
        nn.glu(np.ones((2, 3)))


def test_log1mexp_keeps_its_digits():
    x = np.array([1e-30, 1e-8, 0.5, 0.7, 30.0, 700.0])
    expected = [math.log(-math.expm1(-v)) if v < 0.7 else math.log1p(-math.exp(-v)) for v in x]
    np.testing.assert_allclose(np.asarray(nn.log1mexp(x)), expected, rtol=1e-14)
    slopes = functad.vmap(functad.grad(nn.log1mexp))(jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(slopes), [1 / math.expm1(v) for v in x], rtol=1e-14)


def test_logmeanexp_counts_what_takes_part():
    x = jnp.arange(8.0)
    expected = np.log(np.mean(np.exp(np.arange(8.0)[MASK])))
    np.testing.assert_allclose(nn.logmeanexp(x, where=MASK), expected, rtol=1e-6)


MASKED = {
    "softmax": lambda x, where: nn.softmax(x, where=where)[0],
    "log_softmax": lambda x, where: nn.log_softmax(x, where=where)[0],
    "logsumexp": lambda x, where: nn.logsumexp(x, where=where),
    "logsumexp with factors": lambda x, where: nn.logsumexp(x, b=x * 0 + 2, where=where),
    "logmeanexp": lambda x, where: nn.logmeanexp(x, where=where),
    "standardize": lambda x, where: nn.standardize(x, where=where)[0],
    "integer labels": lambda x, where: nn.softmax_cross_entropy_with_integer_labels(x, jnp.array(0), where=where),
    "labels": lambda x, where: nn.softmax_cross_entropy(x, jnp.array([0.5, 0.5, 0.0]), where=where),
}


LEFT_OUT = [200.0, 3e38, math.inf, -math.inf, math.nan]


# Of standardize, whose result has a value there, too, finite numbers alone.
@pytest.mark.parametrize("name, outside", [(n, x) for n in MASKED for x in LEFT_OUT[: 2 if n == "standardize" else 5]])
def test_what_a_mask_leaves_out_is_in_no_gradient(name, outside):
    where, function = jnp.array([True, True, False]), MASKED[name]
    for grad in (functad.grad(function), functad.jit(functad.grad(function))):
        wanted, found = (grad(jnp.array([0.25, 2.0, x]), where) for x in (0.0, outside))
        np.testing.assert_array_equal(found, wanted)
        assert wanted[2] == 0 and jnp.isfinite(wanted).all()


def test_the_mean_of_many_exponentials_of_16_bits():
    assert nn.logmeanexp(jnp.ones(70_000, "float16")) == 1


def test_an_axis_that_is_none_to_glu():
    with pytest.raises(AxisError, match="glu: axis 3 is out of bounds"):
        nn.glu(jnp.ones(4), axis=3)
