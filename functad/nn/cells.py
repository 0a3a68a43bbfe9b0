"""One step of each recurrent network: `rnn_cell`, `lstm_cell`, `gru_cell`.

Knows the equations; nothing of sequences, layers or initial values.

Each cell takes the params of its layer, and has the form `(params, state, x) → (state, y)`, so that
`partial(cell, params)` is the body of a `lax.scan`. The second half of a cell, from x @ kernel + bias on, is a function
of its own: a layer computes these products for all steps at once, before its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError
from functad.nn.functions import sigmoid, tanh


def rnn_cell(params: Any, state: Any, x: Any, nonlinearity: Callable[[Any], Any] = tanh) -> tuple[Any, Any]:
    """A step of the simple recurrent network (Elman 1990): h' = f(x @ kernel + bias + h @ recurrent_kernel).

    Args:
        params: a dict as the `init` of `nn.RNN` makes it: "kernel" (inputs, features), "recurrent_kernel"
            (features, features) and, if there is one, "bias" (features,).
        state: h, of shape (…, features).
        x: the input of this step, of shape (…, inputs).
        nonlinearity: f, such as `nn.tanh`, `nn.relu` or `nn.identity`.

    Returns:
        h' twice: as the new state and as the output.

    >>> import functad.numpy as jnp
    >>> params = {"kernel": jnp.ones((1, 1)), "recurrent_kernel": 0.5 * jnp.ones((1, 1))}
    >>> state, y = rnn_cell(params, jnp.array([2.]), jnp.array([3.]), nonlinearity=lambda a: a)
    >>> state, y
    (Array([4.], dtype=float32), Array([4.], dtype=float32))
    """
    return rnn_step(params, state, projected(params, x), nonlinearity)


def lstm_cell(params: Any, state: Any, x: Any) -> tuple[Any, Any]:
    """A step of the LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    With four blocks of columns i, f, g, o in x @ kernel + bias + h @ recurrent_kernel:

        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    These are PyTorch's equations, and its order: kernel = weight_ih.T, recurrent_kernel = weight_hh.T,
    bias = bias_ih + bias_hh.

    Args:
        params: a dict as the `init` of `nn.LSTM` makes it: "kernel" (inputs, 4 features), "recurrent_kernel"
            (features, 4 features) and, if there is one, "bias" (4 features,).
        state: the pair (h, c), each of shape (…, features).
        x: the input of this step, of shape (…, inputs).

    Returns:
        The new state (h', c'), and h' as the output.

    A loop of one's own:

    >>> from functools import partial
    >>> import functad, functad.numpy as jnp
    >>> from functad import lax, nn
    >>> steps = jnp.ones((7, 2, 3))  # 7 steps, a batch of 2, 3 inputs
    >>> params = nn.LSTM(4).init(functad.random.key(0), jnp.ones((2, 7, 3)))
    >>> state, ys = lax.scan(partial(nn.lstm_cell, params), (jnp.zeros((2, 4)), jnp.zeros((2, 4))), steps)
    >>> ys.shape
    (7, 2, 4)
    """
    return lstm_step(params, state, projected(params, x))


def gru_cell(params: Any, state: Any, x: Any) -> tuple[Any, Any]:
    """A step of the GRU (Cho et al. 2014), with the reset gate after the product, as it is in PyTorch and cuDNN.

    With three blocks of columns r, z, n in x @ kernel + bias, and in h @ recurrent_kernel:

        r = sigmoid(x_r + h_r)
        z = sigmoid(x_z + h_z)
        n = tanh(x_n + r * (h_n + recurrent_bias))
        h' = (1 - z) * n + z * h

    From PyTorch: kernel = weight_ih.T, recurrent_kernel = weight_hh.T, recurrent_bias = the last third of bias_hh, and
    bias = bias_ih plus the other two thirds of bias_hh.

    Args:
        params: a dict as the `init` of `nn.GRU` makes it: "kernel" (inputs, 3 features), "recurrent_kernel"
            (features, 3 features) and, if there are any, "bias" (3 features,) and "recurrent_bias" (features,).
        state: h, of shape (…, features).
        x: the input of this step, of shape (…, inputs).

    Returns:
        h' twice: as the new state and as the output.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> params = nn.GRU(4).init(functad.random.key(0), jnp.ones((2, 7, 3)))
    >>> state, y = gru_cell(params, jnp.zeros((2, 4)), jnp.ones((2, 3)))
    >>> y.shape
    (2, 4)
    """
    return gru_step(params, state, projected(params, x))


# --- the halves of a step -----------------------------------------------------------------------------


def projected(params: Any, x: Any) -> Array:
    """What the inputs give to the gates: the half of a step that does not need the state."""
    if not isinstance(params, Mapping) or not {"kernel", "recurrent_kernel"} <= params.keys():
        what = f"a dict of {list(params)}" if isinstance(params, Mapping) else f"a {type(params).__name__}"
        raise ArgumentError(
            f'a recurrent cell takes a dict with "kernel" and "recurrent_kernel" for its params, got {what}; '
            "the `init` of its layer (nn.RNN, nn.LSTM, nn.GRU) makes one"
        )
    y = jnp.asarray(x) @ params["kernel"]
    return y + params["bias"] if "bias" in params else y


def rnn_step(params: Any, state: Any, from_input: Any, nonlinearity: Callable[[Any], Any] = tanh) -> tuple[Any, Any]:
    """`rnn_cell` from the projected input on."""
    state = nonlinearity(from_input + state @ params["recurrent_kernel"])
    return state, state


def lstm_step(params: Any, state: Any, from_input: Any) -> tuple[Any, Any]:
    """`lstm_cell` from the projected input on."""
    if not isinstance(state, tuple | list | Array) or len(state) != 2:
        raise ArgumentError(f"an LSTM's state is the pair (h, c), got a {type(state).__name__}")
    h, c = state
    i, f, g, o = jnp.split(from_input + h @ params["recurrent_kernel"], 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h, c), h


def gru_step(params: Any, state: Any, from_input: Any) -> tuple[Any, Any]:
    """`gru_cell` from the projected input on."""
    x_r, x_z, x_n = jnp.split(from_input, 3, -1)
    h_r, h_z, h_n = jnp.split(state @ params["recurrent_kernel"], 3, -1)
    if "recurrent_bias" in params:
        h_n = h_n + params["recurrent_bias"]
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    n = tanh(x_n + r * h_n)
    state = (1 - z) * n + z * state
    return state, state
