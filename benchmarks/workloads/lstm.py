"""LSTM networks: one that reads digits row by row, and a character model of English text.

Knows them in each framework; nothing of timing. Gates lie in PyTorch's order: input, forget, cell, output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import functad.numpy as jnp
from benchmarks.task import Arrays, Form, Sgd, Training
from benchmarks.workloads.digits import digit_batches, glorot
from benchmarks.workloads.text import CHARACTERS, character_batches
from functad import lax, nn


class _Sizes(NamedTuple):
    batch: int
    steps: int
    inputs: int
    hidden: int
    outputs: int


ROWS = _Sizes(100, 28, 28, 128, 10)
TEXT = _Sizes(32, 64, 64, 256, CHARACTERS)


def digit_rows() -> Training:
    """28 rows of 28 pixels, one LSTM, dense 10 on the last state, SGD."""
    params = _params(np.random.default_rng(0), ROWS)
    return Training(params, digit_batches(ROWS.batch), Sgd(0.5), _forms(_rows_loss, _rows_of_torch, _long_labels))


def characters() -> Training:
    """Embedding, one LSTM, a dense layer at every step that foretells the next character, SGD."""
    rng = np.random.default_rng(0)
    params = {"embedding": rng.standard_normal((CHARACTERS, TEXT.inputs), np.float32), **_params(rng, TEXT)}
    batches = character_batches(TEXT.batch, TEXT.steps)
    return Training(params, batches, Sgd(0.5), _forms(_text_loss, _text_of_torch, _long))


def _params(rng: np.random.Generator, sizes: _Sizes) -> Arrays:
    _, _, inputs, hidden, outputs = sizes
    return {
        "input": glorot(rng, (inputs, 4 * hidden)),
        "recurrent": glorot(rng, (hidden, 4 * hidden)),
        "bias": np.zeros(4 * hidden, np.float32),
        "out": glorot(rng, (hidden, outputs)),
        "out_bias": np.zeros(outputs, np.float32),
    }


def _forms(loss: Any, of_torch: Any, batch: Any) -> dict[str, Form]:
    torch_form = Form(of_torch, convert=_to_torch, restore=_to_torch, batch=batch)
    return {
        "functad": Form(lambda: loss(jnp, lax.scan, nn.sigmoid, nn.log_softmax)),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(lambda: _for_jax(loss)),
    }


def _for_jax(loss: Any) -> Any:
    import jax

    return loss(jax.numpy, jax.lax.scan, jax.nn.sigmoid, jax.nn.log_softmax)


def _lstm(module: Any, scan: Any, sigmoid: Any, params: Any, inputs: Any, sizes: _Sizes) -> Any:
    """The states of all steps, (steps, batch, hidden), of inputs (steps, batch, inputs)."""

    def step(carry: Any, x: Any) -> Any:
        state, cell = carry
        gates = x + state @ params["recurrent"]
        i, f, g, o = module.split(gates, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * module.tanh(g)
        state = sigmoid(o) * module.tanh(cell)
        return (state, cell), state

    zeros = module.zeros((sizes.batch, sizes.hidden), module.float32)
    # The products of the inputs of all steps as one, which every framework likes best.
    return scan(step, (zeros, zeros), inputs @ params["input"] + params["bias"])[1]


def _rows_loss(module: Any, scan: Any, sigmoid: Any, log_softmax: Any) -> Any:
    def loss(params: Any, images: Any, labels: Any) -> Any:
        states = _lstm(module, scan, sigmoid, params, images.swapaxes(0, 1), ROWS)
        scores = log_softmax(states[-1] @ params["out"] + params["out_bias"])
        return -module.take_along_axis(scores, labels[:, None], 1).mean()

    return loss


def _text_loss(module: Any, scan: Any, sigmoid: Any, log_softmax: Any) -> Any:
    def loss(params: Any, text: Any, following: Any) -> Any:
        states = _lstm(module, scan, sigmoid, params, params["embedding"][text.T], TEXT)
        scores = log_softmax(states @ params["out"] + params["out_bias"])
        return -module.take_along_axis(scores, following.T[..., None], 2).mean()

    return loss


def _rows_of_torch() -> Any:
    import torch.nn.functional as F

    def loss(params: Any, images: Any, labels: Any) -> Any:
        states = _torch_lstm(params, images, ROWS)
        return F.cross_entropy(F.linear(states[:, -1], params["out"], params["out_bias"]), labels)

    return loss


def _text_of_torch() -> Any:
    import torch.nn.functional as F

    def loss(params: Any, text: Any, following: Any) -> Any:
        states = _torch_lstm(params, F.embedding(text, params["embedding"]), TEXT)
        scores = F.linear(states, params["out"], params["out_bias"])
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())

    return loss


def _torch_lstm(params: Any, inputs: Any, sizes: _Sizes) -> Any:
    """PyTorch's own LSTM, the function behind `torch.nn.LSTM`: states (batch, steps, hidden)."""
    import torch

    zeros = torch.zeros(1, sizes.batch, sizes.hidden)
    weights = [params["input"], params["recurrent"], params["bias"], torch.zeros(4 * sizes.hidden)]
    return torch.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, True, False, True)[0]


def _to_torch(params: Arrays) -> Arrays:
    return {name: value if name == "embedding" else value.T for name, value in params.items()}


def _long_labels(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images, labels.astype(np.int64)


def _long(text: np.ndarray, following: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return text.astype(np.int64), following.astype(np.int64)
