"""The recurrent layers and their gradients, compared with the same equations in `jax.lax.scan`."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import nn
from functad import numpy as jnp

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

FEATURES = 6
LENGTHS = np.array([9, 4, 1, 0], np.int32)
X = np.random.default_rng(0).normal(size=(4, 9, 5)).astype(np.float32)


def rnn(p, h, x):
    h = jax.numpy.tanh(x @ p["kernel"] + p["bias"] + h @ p["recurrent_kernel"])
    return h, h


def lstm(p, state, x):
    h, c = state
    gates = x @ p["kernel"] + p["bias"] + h @ p["recurrent_kernel"]
    i, f, g, o = jax.numpy.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
    h = jax.nn.sigmoid(o) * jax.numpy.tanh(c)
    return (h, c), h


def gru(p, h, x):
    x_r, x_z, x_n = jax.numpy.split(x @ p["kernel"] + p["bias"], 3, axis=-1)
    h_r, h_z, h_n = jax.numpy.split(h @ p["recurrent_kernel"], 3, axis=-1)
    r, z = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z)
    n = jax.numpy.tanh(x_n + r * (h_n + p["recurrent_bias"]))
    h = (1 - z) * n + z * h
    return h, h


CELLS = {"rnn": (nn.RNN, rnn), "lstm": (nn.LSTM, lstm), "gru": (nn.GRU, gru)}


def looped(cell, params, x, lengths, reverse):
    """Every step of a masked loop in JAX: outputs of shape (batch, steps, features)."""
    zero = jax.numpy.zeros((x.shape[0], FEATURES), x.dtype)

    def body(state, step):
        x, valid = step
        new, y = cell(params, state, x)
        state = jax.tree.map(lambda a, b: jax.numpy.where(valid[:, None], a, b), new, state)
        return state, jax.numpy.where(valid[:, None], y, 0)

    valid = np.arange(x.shape[1])[:, None] < lengths
    start = (zero, zero) if cell is lstm else zero
    state, ys = jax.lax.scan(body, start, (x.swapaxes(0, 1), valid), reverse=reverse)
    return state, ys.swapaxes(0, 1)


def assert_close(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=5e-6)


def drawn(params):
    rng = np.random.default_rng(1)
    return functad.tree.map(lambda p: rng.normal(size=p.shape, scale=0.5).astype(p.dtype), params)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_layers_and_their_gradients(name, reverse, ragged):
    make, cell = CELLS[name]
    layer = make(FEATURES, return_sequences=True)
    params = drawn(layer.init(functad.random.key(0), X))
    lengths = LENGTHS if ragged else np.full(len(X), X.shape[1], np.int32)
    weights = np.random.default_rng(2).normal(size=(*X.shape[:2], FEATURES)).astype(np.float32)

    def our_loss(params, x):
        sequences = nn.Ragged(x, lengths) if ragged else x
        ys, state = layer.apply(params, sequences, reverse=reverse, return_state=True)
        values = ys.values if ragged else ys
        return jnp.sum(weights * values), (values, state)

    def their_loss(params, x):
        state, ys = looped(cell, params, x, lengths, reverse)
        return jax.numpy.sum(weights * ys), (ys, state)

    (_, our_outputs), our_grads = functad.value_and_grad(our_loss, (0, 1), has_aux=True)(params, X)
    (_, their_outputs), their_grads = jax.value_and_grad(their_loss, (0, 1), has_aux=True)(params, X)
    for ours, theirs in ((our_outputs, their_outputs), (our_grads, their_grads)):
        for a, b in zip(functad.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("name", CELLS)
def test_hessian_vector_products(name):
    make, cell = CELLS[name]
    layer = make(FEATURES, return_sequences=True)
    params = drawn(layer.init(functad.random.key(0), X))
    lengths = np.full(len(X), X.shape[1], np.int32)
    direction = functad.tree.map(np.sin, params)

    def our_grad(params):
        return functad.grad(lambda p: jnp.square(layer.apply(p, X)).mean())(params)

    def their_grad(params):
        return jax.grad(lambda p: jax.numpy.square(looped(cell, p, X, lengths, False)[1]).mean())(params)

    _, ours = functad.jvp(our_grad, (params,), (direction,))
    _, theirs = jax.jvp(their_grad, (params,), (direction,))
    for a, b in zip(functad.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("name", CELLS)
def test_both_directions(name):
    make, cell = CELLS[name]
    both = nn.Bidirectional(make(FEATURES, return_sequences=True))
    params = drawn(both.init(functad.random.key(0), X))
    parts = [looped(cell, params[key], X, LENGTHS, key == "backward")[1] for key in ("forward", "backward")]
    assert_close(both.apply(params, nn.Ragged(X, LENGTHS)).values, np.concatenate(parts, -1))


def test_embedding_and_its_gradient():
    layer = nn.Embedding(7, 3)
    words = np.random.default_rng(0).integers(0, 7, (4, 11)).astype(np.int32)
    params = functad.tree.map(np.asarray, layer.init(functad.random.key(0), words))
    weights = np.random.default_rng(1).normal(size=(4, 11, 3)).astype(np.float32)
    assert_close(layer.apply(params, words), jax.numpy.take(params["embedding"], words, axis=0))
    ours = functad.grad(lambda p: (weights * layer.apply(p, words)).sum())(params)["embedding"]
    theirs = jax.grad(lambda t: (weights * jax.numpy.take(t, words, axis=0)).sum())(params["embedding"])
    assert_close(ours, theirs)
