"""A character model of LSTM layers whose weights are diagonal: its mean loss, and the gradient in all parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function
from functad import lax, nn


def loss(parameters: Any, start: Any, text: Any) -> Any:
    """The loss of foretelling each character by those before it.

    Args:
        parameters: weights and biases of the layers (layers, 2, 4, bits), and in, out weights and out bias (3, bits).
        start: states and cells of the layers, (layers, 2, bits).
        text: characters as bits, (characters, bits).
    """
    layers, (into, out, bias) = parameters

    def step(states: Any, character: Any) -> Any:
        output, following = character * into, []
        for (weights, biases), (state, cell) in zip(layers, states, strict=True):
            forget, ingate, outgate, change = weights * jnp.stack([output, state, output, state]) + biases
            cell = cell * nn.sigmoid(forget) + nn.sigmoid(ingate) * jnp.tanh(change)
            output = nn.sigmoid(outgate) * jnp.tanh(cell)
            following.append((output, cell))
        return following, output * out + bias

    _, scores = lax.scan(step, [(state, cell) for state, cell in start], text[:-1])
    # The eval's own normalisation: log(2 + Σ exp).
    scores = scores - jnp.log(2 + jnp.sum(jnp.exp(scores), axis=1, keepdims=True))
    return -jnp.mean(text[1:] * scores)


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    extra, state, text = (np.array(given[name]) for name in ("extra_params", "state", "sequence"))
    bits = text.shape[1]
    main = np.array(given["main_params"]).reshape(-1, 2, 4, bits)
    return (main, extra), state.reshape(-1, 2, bits), text


def _flat(gradients: Any) -> Any:
    return np.concatenate([np.ravel(gradient) for gradient in gradients]).tolist()


FUNCTIONS = {
    "objective": Function(_prepare, functad.jit(loss)),
    "jacobian": Function(_prepare, functad.jit(functad.grad(loss)), _flat),
}
