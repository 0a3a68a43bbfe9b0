"""W3: embedding of 12,849 words in 50 numbers, convolution of width 3 to 8, ReLU, max-pooling 8, dense 1; Adam.

Knows the network in each framework; nothing of timing. The reviews are drawn: words by Zipf's law, lengths as IMDB's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad.numpy as jnp
from benchmarks.task import Adam, Arrays, Form, Training
from benchmarks.workloads.digits import glorot
from functad import nn

BATCH, WORDS, LENGTH, SIZE = 64, 12_849, 130, 50
CHANNELS, WIDTH, POOL = 8, 3, 8
PLACES = (LENGTH - WIDTH + 1) // POOL


def task() -> Training:
    rng = np.random.default_rng(0)
    params = {
        "embedding": rng.normal(0, 0.1, (WORDS, SIZE)).astype(np.float32),
        "kernel": glorot(rng, (WIDTH, SIZE, CHANNELS)),
        "bias": np.zeros(CHANNELS, np.float32),
        "out": glorot(rng, (PLACES * CHANNELS, 1)),
        "out_bias": np.zeros(1, np.float32),
    }
    torch_form = Form(_torch_loss, convert=_to_torch, restore=_from_torch, batch=_long_words)
    forms = {
        "functad": Form(_functad_loss),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(_jax_loss),
    }
    return Training(params, [_reviews(rng) for _ in range(4)], Adam(1e-3), forms)


def _reviews(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Word numbers, (batch, length) int32, 0 where the review has ended; and 0 or 1, (batch,) float32."""
    frequency = 1 / (np.arange(1, WORDS) + 2.7)
    words = 1 + rng.choice(WORDS - 1, (BATCH, LENGTH), p=frequency / frequency.sum())
    ends = 174 * np.exp(rng.normal(0, 0.7, (BATCH, 1)))
    words[np.arange(LENGTH) >= ends] = 0
    return words.astype(np.int32), rng.integers(0, 2, BATCH).astype(np.float32)


def _functad_loss() -> Any:
    convolution = nn.Conv(CHANNELS, (WIDTH,), layout="NWC")
    pool = nn.MaxPool((POOL,), layout="NWC")

    def loss(params: Any, words: Any, labels: Any) -> Any:
        x = params["embedding"][words]
        x = nn.relu(convolution.apply({"kernel": params["kernel"], "bias": params["bias"]}, x))
        x = jnp.reshape(pool.apply((), x), (BATCH, -1)) @ params["out"] + params["out_bias"]
        return nn.sigmoid_binary_cross_entropy(x[:, 0], labels).mean()

    return loss


def _jax_loss() -> Any:
    import jax

    def loss(params: Any, words: Any, labels: Any) -> Any:
        x = params["embedding"][words]
        x = jax.lax.conv_general_dilated(x, params["kernel"], (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"))
        x = jax.nn.relu(x + params["bias"])
        x = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, POOL, 1), (1, POOL, 1), "VALID")
        x = (x.reshape(BATCH, -1) @ params["out"] + params["out_bias"])[:, 0]
        return -(labels * jax.nn.log_sigmoid(x) + (1 - labels) * jax.nn.log_sigmoid(-x)).mean()

    return loss


def _torch_loss() -> Any:
    import torch.nn.functional as F

    def loss(params: Any, words: Any, labels: Any) -> Any:
        # In two dimensions, one of them of size 1: PyTorch takes less time for it than for conv1d and max_pool1d.
        x = F.embedding(words, params["embedding"]).permute(0, 2, 1).unsqueeze(2)
        x = F.max_pool2d(F.relu(F.conv2d(x, params["kernel"].unsqueeze(2), params["bias"])), (1, POOL))
        x = F.linear(x.flatten(1), params["out"], params["out_bias"])
        return F.binary_cross_entropy_with_logits(x[:, 0], labels)

    return loss


def _to_torch(params: Arrays) -> Arrays:
    """Output channel first in the kernel; the dense layer's inputs in the order of (channel, place)."""
    out = params["out"].reshape(PLACES, CHANNELS).T.reshape(1, -1)
    return {**params, "kernel": params["kernel"].transpose(2, 1, 0), "out": out}


def _from_torch(params: Arrays) -> Arrays:
    out = params["out"].reshape(CHANNELS, PLACES).T.reshape(-1, 1)
    return {**params, "kernel": params["kernel"].transpose(2, 1, 0), "out": out}


def _long_words(words: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return words.astype(np.int64), labels
