"""W2: four steps of 196 pixels, a tanh cell of 64, dense 10 on the last state; a Python loop, or `scan`; SGD.

Knows the network in each framework; nothing of timing. The state before the first step is zero, and so left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad.numpy as jnp
from benchmarks.task import Arrays, Form, Sgd, Training
from benchmarks.workloads.digits import digit_batches, glorot
from functad import lax, nn

BATCH, STEPS, HIDDEN = 100, 4, 64


def scan_task() -> Training:
    """The same, for functad with `scan`; the others keep their fastest form, which is the loop."""
    unrolled = task()
    return unrolled._replace(forms={**unrolled.forms, "functad": Form(_functad_scan_loss)})


def task() -> Training:
    rng = np.random.default_rng(0)
    params = {
        "input": glorot(rng, (784 // STEPS, HIDDEN)),
        "recurrent": glorot(rng, (HIDDEN, HIDDEN)),
        "bias": np.zeros(HIDDEN, np.float32),
        "out": glorot(rng, (HIDDEN, 10)),
        "out_bias": np.zeros(10, np.float32),
    }
    batches = [(images.reshape(BATCH, STEPS, -1), labels) for images, labels in digit_batches(BATCH)]
    torch_form = Form(_torch_loss, convert=_to_torch, restore=_to_torch, batch=_long_labels)
    forms = {
        "functad": Form(_functad_loss),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(_jax_loss),
    }
    return Training(params, batches, Sgd(0.015), forms)


def _functad_loss() -> Any:
    def loss(params: Any, rows: Any, labels: Any) -> Any:
        state = jnp.tanh(rows[:, 0] @ params["input"] + params["bias"])
        for t in range(1, STEPS):
            state = jnp.tanh(rows[:, t] @ params["input"] + state @ params["recurrent"] + params["bias"])
        logits = state @ params["out"] + params["out_bias"]
        return nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return loss


def _functad_scan_loss() -> Any:
    def loss(params: Any, rows: Any, labels: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            return jnp.tanh(row @ params["input"] + state @ params["recurrent"] + params["bias"]), None

        state, _ = lax.scan(step, jnp.zeros((BATCH, HIDDEN)), rows.swapaxes(0, 1))
        logits = state @ params["out"] + params["out_bias"]
        return nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return loss


def _jax_loss() -> Any:
    import jax

    def loss(params: Any, rows: Any, labels: Any) -> Any:
        state = jax.numpy.tanh(rows[:, 0] @ params["input"] + params["bias"])
        for t in range(1, STEPS):
            state = jax.numpy.tanh(rows[:, t] @ params["input"] + state @ params["recurrent"] + params["bias"])
        scores = jax.nn.log_softmax(state @ params["out"] + params["out_bias"])
        return -jax.numpy.take_along_axis(scores, labels[:, None], 1).mean()

    return loss


def torch_scores() -> Any:
    """The network in PyTorch: `(params, rows) -> scores`."""
    import torch
    import torch.nn.functional as F

    def scores(params: Any, rows: Any) -> Any:
        # One product for the inputs of all steps, as torch.nn.RNN does it, which is slower than this by a fifth.
        inputs = F.linear(rows.view(len(rows) * STEPS, -1), params["input"], params["bias"]).view(-1, STEPS, HIDDEN)
        first, *others = inputs.unbind(1)
        state = torch.tanh(first)
        for rest in others:
            state = torch.tanh(torch.addmm(rest, state, params["recurrent"].t()))
        return F.linear(state, params["out"], params["out_bias"])

    return scores


def _torch_loss() -> Any:
    import torch.nn.functional as F

    scores = torch_scores()
    return lambda params, rows, labels: F.cross_entropy(scores(params, rows), labels)


def _to_torch(params: Arrays) -> Arrays:
    return {name: value.T for name, value in params.items()}


def _long_labels(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows, labels.astype(np.int64)
