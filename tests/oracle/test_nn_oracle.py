"""The functions, gradients and initializers of `functad.nn`, and its layers, compared with JAX."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad
from functad import nn
from functad import numpy as jnp

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

# No ties between window elements, all kinks but 0 avoided; 0, signs and large values included.
X = np.array([[-60.0, -6.5, -2.75, -0.5], [0.0, 0.25, 0.75, 1.5], [2.5, 4.0, 7.0, 90.0]], np.float32)
MASK = np.array([[True, False, True, True], [True, True, False, False], [False, True, True, True]])

ELEMENT_WISE = [
    "celu",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "sparse_plus",
    "squareplus",
    "swish",
    "tanh",
]
WITH_ARGUMENTS = [
    ("gelu", {"approximate": False}),
    ("elu", {"alpha": 0.5}),
    ("celu", {"alpha": 2.0}),
    ("leaky_relu", {"negative_slope": 0.2}),
    ("squareplus", {"b": 1.0}),
    ("sparse_sigmoid", {}),
    ("glu", {}),
    ("softmax", {}),
    ("softmax", {"axis": 0}),
    ("softmax", {"axis": None}),
    ("softmax", {"axis": (0, 1)}),
    ("softmax", {"where": MASK}),
    ("log_softmax", {}),
    ("log_softmax", {"axis": 0}),
    ("log_softmax", {"axis": (0, 1)}),
    ("logmeanexp", {}),
    ("logmeanexp", {"axis": 1, "where": MASK, "keepdims": True}),
    ("logsumexp", {}),
    ("logsumexp", {"axis": 1}),
    ("logsumexp", {"axis": -1, "keepdims": True}),
    ("logsumexp", {"axis": (0, 1)}),
    ("logsumexp", {"axis": 1, "where": MASK}),
    ("logsumexp", {"axis": 1, "b": np.abs(X) + 1}),
    ("standardize", {}),
    ("standardize", {"axis": 0, "epsilon": 1e-3}),
    ("standardize", {"axis": (0, 1)}),
    ("standardize", {"where": MASK}),
    ("standardize", {"mean": 1.0, "variance": 4.0}),
]


def assert_close(ours, theirs, rtol=3e-6, atol=1e-6):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "options"), [(name, {}) for name in ELEMENT_WISE] + WITH_ARGUMENTS, ids=str)
def test_values_and_gradients(name, options):
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    assert_close(ours(X, **options), theirs(X, **options))
    weights = np.linspace(0.5, 1.5, np.asarray(ours(X, **options)).size, dtype=np.float32)
    weights = weights.reshape(ours(X, **options).shape)
    our_grad = functad.grad(lambda x: jnp.sum(weights * ours(x, **options)))(X)
    their_grad = jax.jit(jax.grad(lambda x: jax.numpy.sum(weights * theirs(x, **options))))(X)
    # Softmaxes subtract numbers of size 1 in their gradient.
    assert_close(our_grad, their_grad, rtol=2e-5, atol=2e-5 if name == "standardize" else 2e-6)


Z = np.array([[1 + 2j, -0.5 + 0.3j, 1 - 1j, 0.2], [-2j, 0.5 + 0.5j, 0, -3]], np.complex64)


@pytest.mark.parametrize("name", [*ELEMENT_WISE, "glu", "softmax", "log_softmax", "logsumexp"])
def test_complex_numbers(name):
    ours = getattr(nn, name)
    expected = getattr(jax.nn, name)(Z)
    assert_close(ours(Z), expected, rtol=1e-5, atol=1e-5)
    assert_close(functad.jit(ours)(Z), expected, rtol=1e-5, atol=1e-5)


def test_log_softmax_with_where():
    # Minus infinity where the mask is False, so its sum has no gradient to compare.
    assert_close(nn.log_softmax(X, where=MASK), jax.nn.log_softmax(X, where=MASK))
    ours = functad.grad(lambda x: jnp.sum(jnp.where(MASK, nn.log_softmax(x, where=MASK), 0.0)))(X)
    theirs = jax.grad(lambda x: jax.numpy.sum(jax.numpy.where(MASK, jax.nn.log_softmax(x, where=MASK), 0.0)))(X)
    assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_logsumexp_with_signs():
    b = np.where(MASK, 1.0, -3.0).astype(np.float32)
    our_pair = nn.logsumexp(X, axis=1, b=b, return_sign=True)
    their_pair = jax.nn.logsumexp(X, axis=1, b=b, return_sign=True)
    for ours, theirs in zip(our_pair, their_pair, strict=True):
        assert_close(ours, theirs)
    assert_close(nn.logsumexp(X, axis=1, b=b), jax.nn.logsumexp(X, axis=1, b=b))


@pytest.mark.parametrize("name", [name for name in ELEMENT_WISE if name != "relu6"])
def test_not_a_number_and_infinity(name):
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert_close(getattr(nn, name)(x), getattr(jax.nn, name)(x))


# JAX's sigmoid, and what is made of it, takes no integers.
NO_INTEGERS = {"sigmoid", "silu", "swish"}


@pytest.mark.parametrize(
    "name", [*sorted({*ELEMENT_WISE} - NO_INTEGERS), "softmax", "log_softmax", "logsumexp", "standardize"]
)
def test_integers(name):
    x = np.array([-2, 0, 1, 3], np.int32)
    with warnings.catch_warnings():
        # JAX's log_softmax converts minus infinity to an integer on its way.
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        expected = getattr(jax.nn, name)(x)
    assert_close(getattr(nn, name)(x), expected)


@pytest.mark.parametrize("x", [[-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 1.0], []], ids=str)
def test_logsumexp_of_extremes(x):
    x = np.array(x, np.float32)
    assert_close(nn.logsumexp(x), jax.nn.logsumexp(x))


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
def test_one_hot(axis):
    x = np.array([[0, 2, 3], [-1, 1, 1]])
    assert_close(nn.one_hot(x, 3, axis=axis), jax.nn.one_hot(x, 3, axis=axis))
    ours, theirs = nn.one_hot(x, 3, axis=axis, dtype="int32"), jax.nn.one_hot(x, 3, axis=axis, dtype="int32")
    assert_close(ours, theirs)


INITIALIZERS = [
    *[(name, {}) for name in ("uniform", "normal", "truncated_normal")],
    ("uniform", {"scale": 3.0}),
    ("normal", {"stddev": 2.0}),
    ("truncated_normal", {"stddev": 2.0, "lower": -1.0, "upper": 3.0}),
    *[
        (f"{family}_{kind}", {})
        for family in ("glorot", "lecun", "he", "xavier", "kaiming")
        for kind in ("uniform", "normal")
    ],
    ("he_normal", {"in_axis": 1, "out_axis": 0}),
    ("lecun_uniform", {"in_axis": (0, 1), "out_axis": 2, "batch_axis": 3}),
    *[
        ("variance_scaling", {"scale": 1.7, "mode": mode, "distribution": distribution})
        for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
        for distribution in ("normal", "uniform", "truncated_normal")
    ],
    ("constant", {"value": 2.5}),
]


@pytest.mark.parametrize(("name", "options"), INITIALIZERS, ids=str)
def test_initializers_give_the_same_numbers(name, options):
    shape = (3, 2, 5, 4)
    ours = getattr(nn.initializers, name)(**options)
    theirs = getattr(jax.nn.initializers, name)(**options)
    for dtype in ("float32", "float16"):
        wanted = theirs(jax.random.key(7), shape, dtype)
        # Where the processor has instructions for float16, JAX rounds after each step.
        largest = float(np.abs(np.asarray(wanted)).max())
        tolerance = {"rtol": 3e-6} if dtype == "float32" else {"rtol": 2e-3, "atol": 1e-3 * largest}
        assert_close(ours(functad.random.key(7), shape, dtype), wanted, **tolerance)
    assert_close(ours(functad.random.key(1), shape), theirs(jax.random.key(1), shape))


@pytest.mark.parametrize("column_axis", [-1, 0, 1])
@pytest.mark.parametrize("shape", [(4, 4), (7, 3), (3, 7), (3, 2, 5), (2, 3, 4, 2)])
def test_orthogonal_gives_the_same_numbers(shape, column_axis):
    ours = nn.initializers.orthogonal(1.5, column_axis)(functad.random.key(3), shape)
    theirs = jax.nn.initializers.orthogonal(1.5, column_axis)(jax.random.key(3), shape)
    assert_close(ours, theirs, rtol=2e-5)


@pytest.mark.parametrize("shape", [(3, 2, 4), (4, 3, 3), (3, 5, 1, 6), (1, 2, 3, 2, 5)])
def test_delta_orthogonal_gives_the_same_numbers(shape):
    ours = nn.initializers.delta_orthogonal(0.5)(functad.random.key(3), shape)
    theirs = jax.nn.initializers.delta_orthogonal(0.5)(jax.random.key(3), shape)
    assert_close(ours, theirs, rtol=2e-5)


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_constant_initializers(name):
    ours, theirs = getattr(nn.initializers, name), getattr(jax.nn.initializers, name)
    assert_close(ours(functad.random.key(0), (2, 3)), theirs(jax.random.key(0), (2, 3)))


def _network_of_jax(params, x):
    x = jax.lax.conv_general_dilated(
        x,
        params[0]["kernel"],
        (2, 1),
        ((1, 2), (0, 1)),
        rhs_dilation=(1, 2),
        dimension_numbers=("NCHW", "HWIO", "NCHW"),
    )
    x = jax.nn.relu(x + params[0]["bias"][:, None, None])
    x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "SAME")
    x = x.reshape(x.shape[0], -1)
    return x @ params[4]["kernel"] + params[4]["bias"]


def test_a_network_and_its_gradient():
    network = nn.serial(
        nn.Conv(4, (3, 3), strides=(2, 1), padding=((1, 2), (0, 1)), dilation=(1, 2)),
        nn.Relu(),
        nn.MaxPool((2, 2), padding="SAME"),
        nn.Flatten(),
        nn.Dense(5),
    )
    x = np.random.default_rng(0).normal(size=(3, 2, 9, 11)).astype(np.float32)
    labels = np.array([0, 4, 2], np.int32)
    params = functad.tree.map(np.asarray, network.init(functad.random.key(0), x))

    def our_loss(params):
        return nn.softmax_cross_entropy_with_integer_labels(network.apply(params, x), labels).mean()

    def their_loss(params):
        log_probabilities = jax.nn.log_softmax(_network_of_jax(params, x))
        return -log_probabilities[np.arange(3), labels].mean()

    our_value, our_grads = functad.value_and_grad(our_loss)(params)
    their_value, their_grads = jax.value_and_grad(their_loss)(params)
    assert_close(our_value, their_value, rtol=1e-5)
    assert functad.tree.structure(our_grads) == functad.tree.structure(params)
    for ours, theirs in zip(functad.tree.leaves(our_grads), jax.tree.leaves(their_grads), strict=True):
        assert_close(ours, theirs, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_complex_initializers(distribution):
    ours = nn.initializers.variance_scaling(1.7, "fan_in", distribution, dtype="complex64")
    theirs = jax.nn.initializers.variance_scaling(1.7, "fan_in", distribution, dtype="complex64")
    found, expected = ours(functad.random.key(3), (40, 50)), theirs(jax.random.key(3), (40, 50))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
