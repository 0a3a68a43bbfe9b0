"""W5: 784 → h → h → 10 with biases and ReLU, SGD.

Knows the network in each framework; nothing of timing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.task import Arrays, Form, Sgd, Training
from benchmarks.workloads.digits import digit_batches, glorot
from functad import nn

BATCH = 100
WIDTHS = (128, 256, 512, 1024, 2048, 4096)


def parameters(width: int) -> int:
    """How many numbers are trained."""
    return sum((inputs + 1) * outputs for inputs, outputs in _layers(width))


def _layers(width: int) -> tuple[tuple[int, int], ...]:
    return (784, width), (width, width), (width, 10)


def task(width: int) -> Training:
    rng = np.random.default_rng(0)
    params: Arrays = {}
    for i, (inputs, outputs) in enumerate(_layers(width)):
        params[f"kernel{i}"] = glorot(rng, (inputs, outputs))
        params[f"bias{i}"] = np.zeros(outputs, np.float32)
    batches = [(images.reshape(BATCH, 784), labels) for images, labels in digit_batches(BATCH)]
    torch_form = Form(_torch_loss, convert=_transposed, restore=_transposed, batch=_long_labels)
    forms = {
        "functad": Form(_functad_loss),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(_jax_loss),
    }
    return Training(params, batches, Sgd(0.015), forms)


def _functad_loss() -> Any:
    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = nn.relu(x @ params["kernel0"] + params["bias0"])
        x = nn.relu(x @ params["kernel1"] + params["bias1"])
        logits = x @ params["kernel2"] + params["bias2"]
        return nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return loss


def _jax_loss() -> Any:
    import jax

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = jax.nn.relu(x @ params["kernel0"] + params["bias0"])
        x = jax.nn.relu(x @ params["kernel1"] + params["bias1"])
        scores = jax.nn.log_softmax(x @ params["kernel2"] + params["bias2"])
        return -jax.numpy.take_along_axis(scores, labels[:, None], 1).mean()

    return loss


def _torch_loss() -> Any:
    import torch.nn.functional as F

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = F.relu(F.linear(x, params["kernel0"], params["bias0"]))
        x = F.relu(F.linear(x, params["kernel1"], params["bias1"]))
        return F.cross_entropy(F.linear(x, params["kernel2"], params["bias2"]), labels)

    return loss


def _transposed(params: Arrays) -> Arrays:
    return {name: value.T for name, value in params.items()}


def _long_labels(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, labels.astype(np.int64)
