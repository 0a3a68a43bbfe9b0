"""Layers whose weights are made of their params: spectral and weight norm, 16 bits; by their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16

import functad
import functad.numpy as jnp
from functad import nn, optim, random
from functad.errors import ArgumentError, TreeError

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 4)).astype(np.float32)
W = rng.normal(size=(4, 3)).astype(np.float32)
C = rng.normal(size=(5, 3)).astype(np.float32)
IMAGES = rng.normal(size=(2, 3, 6, 6)).astype(np.float32)
KEY = "['kernel']"


def test_weight_norm_by_hand():
    layer, g = nn.WeightNorm(nn.Dense(3, use_bias=False)), np.array([1.0, -2.0, 0.5])
    params = {"layer": {"kernel": jnp.asarray(W)}, "scale": {KEY: jnp.asarray(g, "float32")}}
    lengths = np.sqrt((W.astype(np.float64) ** 2).sum(0))
    np.testing.assert_allclose(layer.apply(params, X), X @ (W * g / lengths), rtol=1e-5, atol=1e-6)
    found = functad.jit(functad.grad(lambda p: jnp.sum(layer.apply(p, X) * C)))(params)
    of_weight = X.T.astype(np.float64) @ C
    along = (of_weight * W).sum(0) / lengths  # equation 3 of Salimans & Kingma
    np.testing.assert_allclose(found["scale"][KEY], along, rtol=1e-5)
    wanted = g / lengths * of_weight - g * along / lengths**2 * W
    np.testing.assert_allclose(found["layer"]["kernel"], wanted, rtol=1e-4, atol=1e-5)


def test_weight_norm_begins_as_the_layer_and_keeps_its_kind():
    for layer, x in ((nn.Conv(4, (3, 3)), IMAGES), (nn.LSTM(3), X[:, :, None]), (nn.MultiHeadAttention(2), X[None])):
        normed = nn.WeightNorm(layer)
        params = normed.init(random.key(0), x)
        np.testing.assert_allclose(normed.apply(params, x), layer.apply(params["layer"], x), rtol=1e-5, atol=1e-6)
        assert type(normed) is type(layer)
    y, state = nn.WeightNorm(nn.LSTM(3)).apply(
        nn.WeightNorm(nn.LSTM(3)).init(random.key(0), X[:, :, None]), X[:, :, None], return_state=True
    )
    np.testing.assert_array_equal(y, state[0])
    layer = nn.WeightNorm(nn.serial(nn.Dense(3), nn.BatchNorm()))
    params, buffers = layer.init(random.key(0), X), layer.buffers(X)
    y, buffers = layer.apply(params, X, buffers=buffers, train=True)
    assert y.shape == (5, 3) and set(params["scale"]) == {"[0]['kernel']"} and float(buffers[1]["mean"][0]) != 0


def iterated(w, u, steps):
    """The power iteration of Miyato et al., algorithm 1."""
    for _ in range(steps):
        v = w @ u / np.linalg.norm(w @ u)
        u = w.T @ v / np.linalg.norm(w.T @ v)
    return v @ w @ u, u, v


@pytest.mark.parametrize("steps", [1, 3])
def test_spectral_norm_by_hand(steps):
    layer = nn.SpectralNorm(nn.Dense(3, use_bias=False), steps)
    u = np.array([0.6, 0.0, -0.8])
    buffers, params = {"layer": (), "u": {KEY: jnp.asarray(u, "float32")}}, {"kernel": jnp.asarray(W)}
    y, new = functad.jit(lambda p, b: layer.apply(p, X, buffers=b, train=True))(params, buffers)
    sigma, after, v = iterated(W.astype(np.float64), u, steps)
    np.testing.assert_allclose(y, X @ (W / sigma), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new["u"][KEY], after, rtol=1e-5, atol=1e-6)
    found = functad.grad(lambda p: jnp.sum(layer.apply(p, X, buffers=buffers, train=True)[0] * C))(params)
    of_weight = X.T.astype(np.float64) @ C
    wanted = of_weight / sigma - (of_weight * W).sum() / sigma**2 * np.outer(v, after)  # u and v are constants
    np.testing.assert_allclose(found["kernel"], wanted, rtol=1e-4, atol=1e-5)


def test_spectral_norm_converges_and_rests_without_training():
    layer = nn.SpectralNorm(nn.Conv(4, (3, 3)))
    params, buffers = layer.init(random.key(0), IMAGES), layer.buffers(IMAGES)
    assert set(params) == {"kernel", "bias"}
    _, same = layer.apply(params, IMAGES, buffers=buffers)
    assert same["u"] is buffers["u"]
    step = functad.jit(lambda b: layer.apply(params, IMAGES, buffers=b, train=True)[1])
    for _ in range(60):
        buffers = step(buffers)
    sigma = np.linalg.norm(np.asarray(params["kernel"]).reshape(-1, 4), 2)
    plain = nn.Conv(4, (3, 3)).apply({**params, "kernel": params["kernel"] / sigma}, IMAGES)
    np.testing.assert_allclose(layer.apply(params, IMAGES, buffers=buffers)[0], plain, rtol=1e-4, atol=1e-5)


def test_spectral_norm_of_layers_with_buffers_in_a_network():
    network = nn.serial(nn.SpectralNorm(nn.serial(nn.Dense(3), nn.BatchNorm())), nn.Dense(1))
    params, buffers = network.init(random.key(0), X), network.buffers(X)
    y, buffers = network.apply(params, X, buffers=buffers, train=True)
    assert y.shape == (5, 1) and set(buffers[0]["u"]) == {"[0]['kernel']"}
    assert float(buffers[0]["layer"][1]["mean"][0]) != 0


def test_weights_can_be_chosen():
    layer = nn.SpectralNorm(nn.Embedding(6, 3), weights=lambda path: "embedding" in path)
    words = jnp.array([0, 5])
    assert layer.buffers(words)["u"]["['embedding']"].shape == (3,)
    only = nn.WeightNorm(nn.serial(a=nn.Dense(2), b=nn.Dense(2)), lambda path: path == "['a']['kernel']")
    assert set(only.init(random.key(0), X)["scale"]) == {"['a']['kernel']"}


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_mixed_precision(dtype):
    seen = []
    inner = nn.serial(nn.Dense(8), nn.Activation(lambda x: seen.append(x.dtype) or jnp.tanh(x)), nn.Dense(1))
    network = nn.MixedPrecision(inner, dtype)
    params = network.init(random.key(0), X)
    y = network.apply(params, X)
    assert y.dtype == jnp.float32 and seen[-1] == jnp.dtype(dtype)
    narrow = inner.apply(functad.tree.map(lambda p: p.astype(dtype), params), X.astype(dtype))
    np.testing.assert_array_equal(y, narrow.astype("float32"))
    assert nn.MixedPrecision(inner, dtype, None).apply(params, X).dtype == jnp.dtype(dtype)
    grads = functad.grad(lambda p: network.apply(p, X).sum())(params)
    assert {leaf.dtype for leaf in functad.tree.leaves((params, grads))} == {np.dtype("float32")}


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_small_updates_are_not_lost_with_master_weights(dtype):
    """A step of 1e-4 from 1 is nothing in 16 bits; the master weights have made a thousand of them."""
    layer = nn.MixedPrecision(nn.Layer(lambda key, x: jnp.ones(()), lambda p, x, **_: p * x), dtype)
    optimizer, x = optim.sgd(1e-4), jnp.ones(())

    @functad.jit
    def trained(params):
        def step(i, params):
            grads = functad.grad(lambda p: layer.apply(p, x))(params)
            return optim.apply_updates(params, optimizer.update(grads, optimizer.init(params))[0])

        return functad.lax.fori_loop(0, 1000, step, params)

    np.testing.assert_allclose(trained(layer.init(None, x)), 0.9, rtol=1e-3)
    assert float(trained(jnp.ones((), dtype))) == 1.0  # without: stored in 16 bits


def test_mixed_precision_of_layers_with_state_and_buffers():
    x = X[:, :, None]
    layer = nn.MixedPrecision(nn.GRU(3), "float16")
    params = layer.init(random.key(0), x)
    y, state = layer.apply(params, x, return_state=True)
    again, _ = layer.apply(params, x, state=state, return_state=True)
    assert y.dtype == state.dtype == again.dtype == jnp.float32
    layer = nn.MixedPrecision(nn.serial(nn.Dense(3), nn.BatchNorm()), "float16")
    y, buffers = layer.apply(layer.init(random.key(0), X), X, buffers=layer.buffers(X), train=True)
    assert y.dtype == buffers[1]["var"].dtype == jnp.float32
    words = jnp.array([1, 2])
    table = nn.MixedPrecision(nn.Embedding(4, 2), "float16")
    assert table.apply(table.init(random.key(0), words), words).dtype == jnp.float32


DENSE = nn.Dense(3)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nn.WeightNorm(nn.Dense), ArgumentError, "WeightNorm: argument 0 is"),
        (lambda: nn.SpectralNorm(DENSE, 0), ArgumentError, "steps must be an int"),
        (lambda: nn.MixedPrecision(nn.relu), ArgumentError, "MixedPrecision: argument 0"),
        (lambda: nn.WeightNorm(nn.Relu()).init(None, X), ArgumentError, "no params are chosen; there are none"),
        (lambda: nn.WeightNorm(DENSE).apply(DENSE.init(random.key(0), X), X), TreeError, "'layer' and 'scale'"),
        (lambda: nn.SpectralNorm(DENSE).apply(DENSE.init(random.key(0), X), X), ArgumentError, "power iteration"),
        (lambda: nn.SpectralNorm(DENSE, weights=lambda p: "bias" in p).buffers(X), ArgumentError, "2 axes or more"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_zero_weights_stay_zero_and_have_gradients(dtype):
    x, zeros = jnp.ones((1, 3), dtype), {"kernel": jnp.zeros((3, 2), dtype)}
    dense = nn.Dense(2, use_bias=False, kernel_init=nn.initializers.zeros)
    layer = nn.WeightNorm(dense)
    params = layer.init(random.key(0), x)
    assert not layer.apply(params, x).any()
    slopes = functad.grad(lambda params: layer.apply(params, x).sum())(params)["layer"]["kernel"]
    np.testing.assert_array_equal(slopes, np.ones((3, 2)))

    layer = nn.SpectralNorm(dense)
    first = buffers = layer.buffers(x)
    for train in (True, False):
        y, buffers = layer.apply(zeros, x, buffers=buffers, train=train)
        assert not y.any()
    np.testing.assert_array_equal(buffers["u"]["['kernel']"], first["u"]["['kernel']"])
    slopes = functad.grad(lambda zeros: layer.apply(zeros, x, buffers=buffers, train=True)[0].sum())(zeros)
    np.testing.assert_array_equal(slopes["kernel"], np.ones((3, 2)))
