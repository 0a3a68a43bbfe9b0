"""The recurrent layers: their equations, gradients, states, ragged batches, and what wrong inputs are told."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from recurrent_tools import BATCH, FEATURES, INPUTS, KEY, LENGTHS, RNG, STEPS, close, drawn, fails, inputs

import functad
from functad import lax, nn
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError, TreeError
from functad.nn.ragged import values_of

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

# --- the equations, written out for one sequence of one example in plain NumPy -----------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slow_rnn(p, h, x, f=np.tanh):
    h = f(x @ p["kernel"] + p.get("bias", 0) + h @ p["recurrent_kernel"])
    return h, h


def slow_lstm(p, state, x):
    h, c = state
    w, u, b = p["kernel"], p["recurrent_kernel"], p.get("bias", np.zeros(4 * FEATURES))
    i, f, g, o = (
        x @ w[:, part] + b[part] + h @ u[:, part]
        for part in (slice(k * FEATURES, (k + 1) * FEATURES) for k in range(4))
    )
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h, c), h


def slow_gru(p, h, x):
    """PyTorch's equations, with its two biases made one where they can be."""
    w, u, b = p["kernel"], p["recurrent_kernel"], p.get("bias", np.zeros(3 * FEATURES))
    reset, update, new = (slice(k * FEATURES, (k + 1) * FEATURES) for k in range(3))
    r = sigmoid(x @ w[:, reset] + b[reset] + h @ u[:, reset])
    z = sigmoid(x @ w[:, update] + b[update] + h @ u[:, update])
    n = np.tanh(x @ w[:, new] + b[new] + r * (h @ u[:, new] + p.get("recurrent_bias", 0)))
    h = (1 - z) * n + z * h
    return h, h


def relu(x):
    return np.maximum(x, 0)


CASES = {
    "rnn": (nn.RNN, slow_rnn, nn.rnn_cell),
    "rnn relu": (
        partial(nn.RNN, nonlinearity=nn.relu),
        partial(slow_rnn, f=relu),
        partial(nn.rnn_cell, nonlinearity=nn.relu),
    ),
    "rnn identity": (
        partial(nn.RNN, nonlinearity=nn.identity),
        partial(slow_rnn, f=lambda x: x),
        partial(nn.rnn_cell, nonlinearity=nn.identity),
    ),
    "lstm": (nn.LSTM, slow_lstm, nn.lstm_cell),
    "gru": (nn.GRU, slow_gru, nn.gru_cell),
}
LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
every_case = pytest.mark.parametrize("case", CASES)
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def zero_state(make):
    zero = np.zeros(FEATURES)
    return (zero, zero) if make is nn.LSTM else zero


def slow(step, params, state, x, length=None, reverse=False):
    """Outputs and last state of one example; outputs are zero from `length` on."""
    params = functad.tree.map(np.asarray, params)
    ys = np.zeros((len(x), FEATURES))
    steps = range(len(x) if length is None else length)
    for t in reversed(steps) if reverse else steps:
        state, ys[t] = step(params, state, x[t])
    return ys, state


def stack(states):
    return functad.tree.map(lambda *parts: np.stack(parts), *states)


@every_case
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_layers_against_plain_loops(case, use_bias, reverse):
    make, step, _ = CASES[case]
    layer = make(FEATURES, use_bias=use_bias)
    x = inputs()
    params = drawn(layer.init(KEY, x))
    assert ("bias" in params) == use_bias
    options = {"reverse": reverse, "return_state": True}
    ys, state = layer.apply(params, x, return_sequences=True, **options)
    y, _ = layer.apply(params, x, **options)
    start = zero_state(make)
    expected, states = zip(*(slow(step, params, start, row, reverse=reverse) for row in x), strict=True)
    close(ys, np.stack(expected))
    close(y, np.stack(expected)[:, 0 if reverse else -1])
    functad.tree.map(close, state, stack(states))


@every_case
@pytest.mark.parametrize("reverse", [False, True])
def test_ragged_batches_against_plain_loops(case, reverse):
    make, step, _ = CASES[case]
    layer = make(FEATURES)
    x = inputs()
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = 1e30  # what the padding holds must not matter
    ragged = nn.Ragged(x, LENGTHS)
    params = drawn(layer.init(KEY, ragged))
    ys, state = layer.apply(params, ragged, reverse=reverse, return_sequences=True, return_state=True)
    last = layer.apply(params, ragged, reverse=reverse)
    start = zero_state(make)
    expected, states = zip(
        *(slow(step, params, start, row, n, reverse) for row, n in zip(x, LENGTHS, strict=True)), strict=True
    )
    assert isinstance(ys, nn.Ragged) and ys.lengths is LENGTHS
    close(ys.values, np.stack(expected))
    functad.tree.map(close, state, stack(states))
    close(last, stack(states)[0] if make is nn.LSTM else stack(states))


@every_case
def test_cells_in_a_loop_of_ones_own(case):
    make, _, cell = CASES[case]
    layer = make(FEATURES)
    x = inputs()
    params = drawn(layer.init(KEY, x))
    zero = jnp.zeros((BATCH, FEATURES), np.float64)
    start = (zero, zero) if make is nn.LSTM else zero
    state, ys = lax.scan(partial(cell, params), start, x.swapaxes(0, 1))
    expected, last = layer.apply(params, x, return_sequences=True, return_state=True)
    close(np.asarray(ys).swapaxes(0, 1), expected)
    functad.tree.map(close, state, last)


# --- gradients ---------------------------------------------------------------------------------------


def networks():
    both = nn.Bidirectional(nn.LSTM(FEATURES))
    return {
        "rnn": nn.RNN(FEATURES, learned_state=True),
        "lstm": nn.LSTM(FEATURES, learned_state=True),
        "gru": nn.GRU(FEATURES, learned_state=True),
        "bidirectional": both,
        "stacked": nn.stacked(nn.GRU(3), both, nn.Dense(2)),
    }


@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_match_differences(name, ragged):
    network = networks()[name]
    x = nn.Ragged(inputs(), LENGTHS) if ragged else inputs()
    params = drawn(network.init(KEY, x))
    y = network.apply(params, x, return_sequences=True)
    weights = RNG.normal(size=values_of(y).shape)

    def loss(params):
        y = values_of(network.apply(params, x, return_sequences=True))
        return (weights * y).sum()

    direction = drawn(params)
    grads = functad.grad(loss)(params)
    slope = sum(functad.tree.leaves(functad.tree.map(lambda g, d: float((g * d).sum()), grads, direction)))
    h = 1e-6
    ahead = loss(functad.tree.map(lambda p, d: p + h * d, params, direction))
    behind = loss(functad.tree.map(lambda p, d: p - h * d, params, direction))
    assert slope == pytest.approx((float(ahead) - float(behind)) / (2 * h), rel=1e-6)
    _, tangent = functad.jvp(loss, (params,), (direction,))
    assert float(tangent) == pytest.approx(slope, rel=1e-10)


@every_layer
def test_padding_gets_no_gradient(make):
    layer = make(FEATURES)
    x = inputs()
    params = drawn(layer.init(KEY, x))
    grad = functad.grad(lambda values: layer.apply(params, nn.Ragged(values, LENGTHS)).sum())(x)
    reached = np.asarray(grad != 0).any(-1)
    np.testing.assert_array_equal(reached, np.arange(STEPS) < LENGTHS[:, None])


# --- transforms --------------------------------------------------------------------------------------


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize("ragged", [False, True])
def test_jit_gives_the_same(name, ragged):
    network = networks()[name]
    values = inputs(dtype=np.float32)
    x = nn.Ragged(values, LENGTHS) if ragged else values
    params = drawn(network.init(KEY, x), np.float32)

    def loss(params, x):
        y = network.apply(params, x, return_sequences=True)
        return jnp.square(values_of(y)).sum()

    value, grads = functad.value_and_grad(loss)(params, x)
    jitted_value, jitted_grads = functad.jit(functad.value_and_grad(loss))(params, x)
    close(jitted_value, value, rtol=1e-5)
    functad.tree.map(partial(close, rtol=1e-4, atol=1e-5), jitted_grads, grads)


@every_layer
def test_batch_axes_are_free_and_vmap_is_one_of_them(make):
    layer = make(FEATURES)
    x = inputs()
    params = drawn(layer.init(KEY, x))
    expected = layer.apply(params, x)
    close(layer.apply(params, x[1]), expected[1])
    close(layer.apply(params, x[None])[0], expected)
    close(functad.vmap(partial(layer.apply, params))(x), expected)
    close(functad.vmap(partial(layer.apply, params))(nn.Ragged(x, LENGTHS)), layer.apply(params, nn.Ragged(x, LENGTHS)))


@every_layer
def test_unrolling_changes_nothing(make):
    x = inputs()
    params = drawn(make(FEATURES).init(KEY, x))
    close(make(FEATURES, unroll=True).apply(params, x), make(FEATURES).apply(params, x))


@every_layer
def test_the_inputs_of_all_steps_are_one_product(make):
    layer = make(FEATURES)
    x = inputs()
    program = functad.make_jaxpr(layer.apply)(layer.init(KEY, x), x)
    names = [eqn.primitive.name for eqn in program.eqns]
    (loop,) = (eqn for eqn in program.eqns if eqn.primitive.name == "scan")
    assert names.index("dot_general") < names.index("scan")
    assert [eqn.primitive.name for eqn in loop.params["jaxpr"].eqns].count("dot_general") == 1


# --- states ------------------------------------------------------------------------------------------


@every_layer
def test_a_state_handed_on_continues_the_sequence(make):
    layer = make(FEATURES, return_sequences=True)
    x = inputs()
    params = drawn(layer.init(KEY, x))
    whole, last = layer.apply(params, x, return_state=True)
    first, state = layer.apply(params, x[:, :2], return_state=True)
    second, end = layer.apply(params, x[:, 2:], state=state, return_state=True)
    close(jnp.concatenate([first, second], 1), whole)
    functad.tree.map(close, end, last)


@every_layer
def test_a_learned_state_begins_and_a_given_one_goes_before_it(make):
    layer = make(FEATURES, learned_state=True)
    x = inputs()
    params = layer.init(KEY, x)
    assert not np.asarray(params["initial_state"]).any()
    params = drawn(params)
    start = params["initial_state"]
    rows = np.broadcast_to(start[..., None, :], (*start.shape[:-1], BATCH, FEATURES))
    state = tuple(rows) if make is nn.LSTM else rows
    plain = {name: value for name, value in params.items() if name != "initial_state"}
    expected = make(FEATURES).apply(plain, x, state=state)
    close(layer.apply(params, x), expected)
    zero = functad.tree.map(np.zeros_like, state)
    close(layer.apply(params, x, state=zero), make(FEATURES).apply(plain, x))
    assert np.asarray(functad.grad(lambda p: layer.apply(p, x).sum())(params)["initial_state"]).all()


def test_no_steps_leave_the_state():
    layer = nn.LSTM(FEATURES)
    x = inputs(BATCH, 0, INPUTS)
    params = layer.init(KEY, x)
    state = (inputs(BATCH, FEATURES), inputs(BATCH, FEATURES))
    ys, last = layer.apply(params, x, state=state, return_sequences=True, return_state=True)
    assert ys.shape == (BATCH, 0, FEATURES)
    functad.tree.map(close, last, state)


# --- how params begin --------------------------------------------------------------------------------


def test_every_gate_begins_by_itself():
    x = inputs(2, 3, 50, dtype=np.float32)
    layer = nn.LSTM(40, recurrent_init=nn.initializers.orthogonal())
    params = layer.init(KEY, x)
    assert {name: (p.shape, p.dtype.name) for name, p in params.items()} == {
        "kernel": ((50, 160), "float32"),
        "recurrent_kernel": ((40, 160), "float32"),
        "bias": ((160,), "float32"),
    }
    for block in np.split(np.asarray(params["recurrent_kernel"]), 4, 1):
        close(block.T @ block, np.eye(40), atol=1e-5)
    for block in np.split(np.asarray(params["kernel"]), 4, 1):
        assert abs(block).max() <= (6 / 90) ** 0.5 and block.std() == pytest.approx((2 / 90) ** 0.5, rel=0.1)
    close(params["bias"], np.repeat([0, 1, 0, 0], 40))
    close(nn.LSTM(2, forget_bias=0.0).init(KEY, x)["bias"], np.zeros(8))
    close(nn.GRU(2, bias_init=nn.initializers.ones).init(KEY, x)["recurrent_bias"], np.ones(2))


def test_sizes_of_few_bits_do_not_overflow():
    shapes = [
        functad.tree.map(jnp.shape, layer.init(KEY, jnp.ones((1, 2, 3))))
        for layer in (nn.LSTM(np.uint8(100)), nn.LSTM(100))
    ]
    assert shapes[0] == shapes[1]


def test_init_under_jit_and_eval_shape():
    network = nn.stacked(nn.LSTM(3), nn.Bidirectional(nn.GRU(2)), nn.RNN(4), nn.Dense(2))
    x = inputs(dtype=np.float32)
    params = network.init(KEY, x)
    shapes = functad.tree.map(lambda p: p.shape, params)
    assert functad.tree.map(lambda p: p.shape, functad.eval_shape(network.init, KEY, x)) == shapes
    assert functad.tree.map(lambda p: p.shape, functad.jit(network.init)(KEY, x)) == shapes


# --- what wrong inputs are told ----------------------------------------------------------------------


def test_errors_of_inputs():
    layer = nn.LSTM(2)
    x = inputs()
    params = layer.init(KEY, x)
    fails(ArgumentError, "LSTM: features must be an int of at least 1, got 0", lambda: nn.LSTM(0))
    fails(ArgumentError, "nonlinearity must be a function such as nn.tanh, got 'tanh'", lambda: nn.RNN(2, "tanh"))
    fails(
        ShapeError, r"LSTM\(2\): the input must have shape \(batch, steps, inputs\)", lambda: layer.init(KEY, x[0, 0])
    )
    fails(DTypeError, "dtype int64, but the layer takes floats", lambda: layer.apply(params, x.astype(int)))
    fails(ShapeError, r"kernel of shape \(4, 8\) takes \(batch, steps, 4\)", lambda: layer.apply(params, x[..., :3]))
    fails(ShapeError, r"params\['kernel'\] has shape", lambda: nn.LSTM(3).apply(params, x))
    fails(TreeError, "params are a dict with", lambda: nn.GRU(2).apply(params, x))
    fails(ArgumentError, r"are nn.Ragged\(values, lengths\)", lambda: layer.apply(params, (x, LENGTHS)))


def test_errors_of_states():
    layer, simple = nn.LSTM(2), nn.GRU(2)
    x = inputs()
    params, simple_params = layer.init(KEY, x), simple.init(KEY, x)
    good = np.zeros((BATCH, 2))
    fails(ArgumentError, r"must be a pair \(h, c\)", lambda: layer.apply(params, x, state=good))
    fails(
        ArgumentError, "state is of type tuple, but must be one", lambda: simple.apply(simple_params, x, state=(good,))
    )
    fails(ShapeError, r"state\[1\] has shape \(2,\)", lambda: layer.apply(params, x, state=(good, good[0])))
    fails(
        DTypeError,
        "dtype float32, but the layer computes in float64",
        lambda: simple.apply(simple_params, x, state=good.astype(np.float32)),
    )
    both = nn.Bidirectional(simple)
    fails(ArgumentError, "a tuple of 2", lambda: both.apply(both.init(KEY, x), x, state=good))


def test_errors_of_lengths():
    layer = nn.GRU(2)
    x = inputs()
    params = layer.init(KEY, x)

    def apply(lengths):
        return lambda: layer.apply(params, nn.Ragged(x, lengths))

    fails(DTypeError, r"must be integers; of a mask over the steps they are mask.sum\(-1\)", apply(np.ones(BATCH)))
    fails(ShapeError, r"must have shape \(3,\), one for each sequence", apply(LENGTHS[:2]))
    fails(ArgumentError, "a sequence of 5 steps cannot have length 6", apply(LENGTHS + 1))
    fails(
        ArgumentError,
        r"put a layer for Ragged inputs into\s+each_step",
        lambda: nn.Dense(2).init(KEY, nn.Ragged(x, LENGTHS)),
    )


@pytest.mark.parametrize("cell", [nn.lstm_cell, nn.gru_cell, nn.rnn_cell])
@pytest.mark.parametrize("params", [{}, [], {"kernel": np.ones((3, 3), np.float32)}])
def test_a_cell_says_what_its_params_are(cell, params):
    with pytest.raises(ArgumentError, match='takes a dict with "kernel" and "recurrent_kernel"'):
        cell(params, (np.ones(3), np.ones(3)), np.ones(3))


def test_an_lstm_says_what_its_state_is():
    params = {"kernel": np.ones((3, 12)), "recurrent_kernel": np.ones((3, 12))}
    with pytest.raises(ArgumentError, match=r"state is the pair \(h, c\), got a ndarray"):
        nn.lstm_cell(params, np.ones(3), np.ones(3))
