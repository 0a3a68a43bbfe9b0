"""Recurrent networks: both directions, stacks, words, and truncated back-propagation."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from recurrent_tools import BATCH, FEATURES, KEY, LENGTHS, RNG, STEPS, close, drawn, fails, inputs

import functad
from functad import lax, nn, random
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError
from functad.nn.ragged import values_of

LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


# --- Bidirectional and stacked -----------------------------------------------------------------------


@every_layer
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sequences", [False, True])
def test_both_directions(make, ragged, sequences):
    layer = make(FEATURES, return_sequences=sequences)
    both = nn.Bidirectional(layer)
    x = nn.Ragged(inputs(), LENGTHS) if ragged else inputs()
    params = drawn(both.init(KEY, x))
    ahead = layer.apply(params["forward"], x)
    # Backwards by hand: every sequence turned round within its length, and its outputs turned back.
    back = values_of(layer.apply(params["backward"], turned(x)))
    back = turned(nn.Ragged(np.asarray(back), LENGTHS) if ragged else np.asarray(back)) if sequences else back
    expected = np.concatenate([values_of(ahead), values_of(back)], -1)
    y, state = both.apply(params, x, return_state=True)
    assert isinstance(y, nn.Ragged) == (ragged and sequences)
    close(values_of(y), expected)
    again = both.apply(params, x, state=functad.tree.map(jnp.zeros_like, state))
    close(values_of(again), expected)


def turned(x):
    if not isinstance(x, nn.Ragged):
        return x[:, ::-1]
    values = np.zeros_like(x.values)
    for row, old, n in zip(values, x.values, x.lengths, strict=True):
        row[:n] = old[:n][::-1]
    return nn.Ragged(values, x.lengths)


def test_join_makes_the_output_of_both_directions():
    both = nn.Bidirectional(nn.GRU(FEATURES), join=lambda ys: ys[0] + ys[1])
    x = inputs()
    params = drawn(both.init(KEY, x))
    parts = nn.Bidirectional(nn.GRU(FEATURES)).apply(params, x)
    close(both.apply(params, x), parts[:, :FEATURES] + parts[:, FEATURES:])


@pytest.mark.parametrize("ragged", [False, True])
def test_stacked_is_serial_with_a_state(ragged):
    stack = nn.stacked(nn.Dense(3), nn.LSTM(4), nn.Activation(jnp.sin), nn.GRU(5), nn.Dense(2))
    plain = nn.serial(
        nn.each_step(nn.Dense(3)),
        nn.LSTM(4, return_sequences=True),
        nn.each_step(nn.Activation(jnp.sin)),
        nn.GRU(5),
        nn.Dense(2),
    )
    x = nn.Ragged(inputs(), LENGTHS) if ragged else inputs()
    params = stack.init(KEY, x)
    functad.tree.map(close, params, plain.init(KEY, x))
    params = drawn(params)
    close(stack.apply(params, x), plain.apply(params, x))
    if not ragged:
        _, state = stack.apply(params, x[:, :3], return_state=True)
        assert [len(functad.tree.leaves(part)) for part in state] == [0, 2, 0, 1, 0]
        close(stack.apply(params, x[:, 3:], state=state), plain.apply(params, x))


def test_dropout_between_layers_gets_its_key():
    network = nn.stacked(nn.GRU(8), nn.Dropout(0.5), nn.GRU(8))
    x = inputs()
    params = network.init(KEY, x)
    outputs = [network.apply(params, x, key=random.key(seed), train=True) for seed in (0, 0, 1)]
    close(outputs[0], outputs[1])
    assert not np.allclose(outputs[0], outputs[2])
    with pytest.raises(ArgumentError, match="training needs a random key"):
        network.apply(params, x, train=True)


# --- ragged batches, embeddings ----------------------------------------------------------------------


def test_words_of_sentences_of_unequal_length():
    words = nn.Ragged(np.array([[3, 1, 4], [2, 0, 0]]), np.array([3, 1]))
    network = nn.serial(nn.each_step(nn.Embedding(5, 4)), nn.Bidirectional(nn.LSTM(3)), nn.Dense(2))
    params = network.init(KEY, words)
    both = network.apply(params, words)
    close(both[:1], network.apply(params, words.values[:1]), rtol=1e-6, atol=1e-7)
    close(both[1:], network.apply(params, words.values[1:, :1]), rtol=1e-6, atol=1e-7)


def test_length_mask():
    np.testing.assert_array_equal(nn.length_mask(np.array([[0], [2]]), 2), [[[False, False]], [[True, True]]])


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_embedding_and_its_gradient(shape):
    layer = nn.Embedding(6, 3, dtype=np.float64)
    numbers = RNG.integers(0, 6, shape).astype(np.int32)
    params = layer.init(KEY, numbers)
    assert params["embedding"].shape == (6, 3) and params["embedding"].dtype == np.float64
    close(layer.apply(params, numbers), np.asarray(params["embedding"])[numbers])
    weights = RNG.normal(size=(*shape, 3))
    found = functad.grad(lambda p: (weights * layer.apply(p, numbers)).sum())(params)["embedding"]
    expected = np.zeros((6, 3))
    np.add.at(expected, numbers, weights)
    close(found, expected)
    close(functad.jit(layer.apply)(params, numbers), layer.apply(params, numbers))


# --- truncated back-propagation ----------------------------------------------------------------------


def echo_loss(network):
    def loss(params, state, x, y):
        output, state = network.apply(params, x, state=state, return_state=True)
        return jnp.square(output - y).sum(), state

    return loss


def test_windows():
    x, y = np.arange(14).reshape(2, 7), np.arange(28).reshape(2, 7, 2)
    parts = list(nn.windows({"x": x, "y": y}, 3))
    assert [part["x"].shape for part in parts] == [(2, 3), (2, 3), (2, 1)]
    np.testing.assert_array_equal(np.concatenate([part["y"] for part in parts], 1), y)
    assert [part.tolist() for part in nn.windows(np.arange(3), 2, axis=0)] == [[0, 1], [2]]
    assert [part.shape for part in nn.windows(jnp.zeros((2, 3)), 2, axis=-1)] == [(2, 2), (2, 1)]


@every_layer
def test_truncated_gradients_stop_at_the_window(make):
    network = nn.stacked(make(FEATURES, return_sequences=True), nn.Dense(1))
    x, y = inputs(), inputs(BATCH, STEPS, 1)
    params = drawn(network.init(KEY, x))
    loss = echo_loss(network)
    step = nn.truncated_bptt(loss)
    state, total, grads = None, 0.0, functad.tree.map(jnp.zeros_like, params)
    for window in nn.windows((x, y), 2):
        (value, state), part = step(params, state, *window)
        total, grads = total + value, functad.tree.map(jnp.add, grads, part)
    whole, last = loss(params, None, x, y)
    close(total, whole)
    functad.tree.map(close, state, last)

    def stopping(params):  # the definition: the loss of all windows, with a wall between them
        state, total = None, 0.0
        for window in nn.windows((x, y), 2):
            value, state = loss(params, state, *window)
            state, total = functad.tree.map(lax.stop_gradient, state), total + value
        return total

    functad.tree.map(close, grads, functad.grad(stopping)(params))
    full = functad.grad(lambda p: loss(p, None, x, y)[0])(params)
    assert not np.allclose(full[0]["recurrent_kernel"], grads[0]["recurrent_kernel"])


def test_a_jitted_step_takes_the_first_window_without_a_state():
    network = nn.stacked(nn.LSTM(FEATURES, return_sequences=True), nn.Dense(1))
    x, y = inputs(dtype=np.float32), inputs(BATCH, STEPS, 1, dtype=np.float32)
    params = drawn(network.init(KEY, x), np.float32)
    step = nn.truncated_bptt(echo_loss(network))
    jitted = functad.jit(step)
    state = same = None
    for window in nn.windows((x, y), 2):
        (value, state), grads = step(params, state, *window)
        (same_value, same), same_grads = jitted(params, same, *window)
        close(same_value, value, rtol=1e-5)
        functad.tree.map(partial(close, rtol=1e-4, atol=1e-5), (same, same_grads), (state, grads))


def test_nothing_flows_back_into_the_state_of_the_window_before():
    layer = nn.GRU(FEATURES, return_sequences=True)
    x, y = inputs(), inputs(BATCH, STEPS, FEATURES)
    params = layer.init(KEY, x)
    step = nn.truncated_bptt(echo_loss(layer))
    grad = functad.grad(lambda state: step(params, state, x, y)[0][0])(np.ones((BATCH, FEATURES)))
    assert not np.asarray(grad).any()


# --- what wrong inputs are told ----------------------------------------------------------------------


def test_errors_of_combinations():
    fails(ArgumentError, r"Bidirectional: .* is no recurrent layer", lambda: nn.Bidirectional(nn.Dense(2)))
    fails(ArgumentError, "none of the 2 layers is recurrent; use serial", lambda: nn.stacked(nn.Relu(), nn.Dense(2)))
    both, stack = nn.Bidirectional(nn.GRU(2)), nn.stacked(nn.GRU(2), nn.GRU(2))
    x = inputs()
    params = nn.GRU(2).init(KEY, x)
    fails(TreeError, "a dict with 'forward' and 'backward'", lambda: both.apply(params, x))
    fails(TreeError, "stacked: params are a dict", lambda: stack.apply(params, x))
    fails(ShapeError, "1 entries, but there are 2 layers", lambda: stack.apply((params,), x))


def test_errors_of_embeddings_and_windows():
    layer = nn.Embedding(4, 2)
    params = layer.init(KEY, np.zeros(2, int))
    fails(
        ArgumentError,
        r"the input holds 4, but there are 4 rows \(0..3\)",
        lambda: layer.apply(params, np.array([1, 4])),
    )
    fails(ArgumentError, "the input holds -1", lambda: layer.apply(params, np.array([-1])))
    fails(DTypeError, "dtype float64, but must hold integers", lambda: layer.init(KEY, np.zeros(2)))
    fails(ArgumentError, "Embedding: count must be an int of at least 1", lambda: nn.Embedding(0, 2))
    fails(ArgumentError, "truncated_bptt expects a function", lambda: nn.truncated_bptt(3))
    fails(ArgumentError, "windows: size must be an int of at least 1, got 0", lambda: nn.windows(np.zeros((2, 2)), 0))
    fails(ShapeError, "needs an axis 1 over the steps", lambda: nn.windows(np.zeros(2), 1))
    fails(ShapeError, "one number of steps", lambda: nn.windows((np.zeros((2, 2)), np.zeros((2, 3))), 1))
