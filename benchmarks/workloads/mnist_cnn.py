"""W1: convolution 3×3 to 6 channels, ReLU, max-pooling 2×2, dense 84, ReLU, dense 10; no biases; SGD.

Knows the network in each framework; nothing of timing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad.numpy as jnp
from benchmarks.task import Arrays, Form, Sgd, Training
from benchmarks.workloads.digits import digit_batches, glorot
from functad import nn

BATCH = 100


def task() -> Training:
    rng = np.random.default_rng(0)
    params = {
        "kernel": glorot(rng, (3, 3, 1, 6)),
        "hidden": glorot(rng, (1014, 84)),
        "out": glorot(rng, (84, 10)),
    }
    batches = [(images[:, None], labels) for images, labels in digit_batches(BATCH)]
    torch_form = Form(_torch_loss, convert=_to_torch, restore=_from_torch, batch=_long_labels)
    forms = {
        "functad": Form(_functad_loss),
        "torch": torch_form,
        "torch.compile": torch_form,
        "jax": Form(_jax_loss, convert=_channels_last, restore=_channels_first, batch=_images_last),
    }
    return Training(params, batches, Sgd(0.015), forms)


def _functad_loss() -> Any:
    convolution, pool = nn.Conv(6, (3, 3), use_bias=False), nn.MaxPool((2, 2))

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x = pool.apply((), nn.relu(convolution.apply({"kernel": params["kernel"]}, images)))
        x = nn.relu(jnp.reshape(x, (BATCH, -1)) @ params["hidden"])
        return nn.softmax_cross_entropy_with_integer_labels(x @ params["out"], labels).mean()

    return loss


def torch_scores() -> Any:
    """The network in PyTorch: `(params, images) -> scores`."""
    import torch.nn.functional as F

    def scores(params: Any, images: Any) -> Any:
        x = F.max_pool2d(F.relu(F.conv2d(images, params["kernel"])), 2)
        return F.linear(F.relu(F.linear(x.flatten(1), params["hidden"])), params["out"])

    return scores


def _torch_loss() -> Any:
    import torch.nn.functional as F

    scores = torch_scores()
    return lambda params, images, labels: F.cross_entropy(scores(params, images), labels)


def jax_scores() -> Any:
    """The network in JAX: `(params, images) -> scores`."""
    import jax

    def scores(params: Any, images: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(images, params["kernel"], (1, 1), "VALID", dimension_numbers=layout)
        x = jax.lax.reduce_window(jax.nn.relu(x), -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jax.nn.relu(x.reshape(len(x), -1) @ params["hidden"]) @ params["out"]

    return scores


def _jax_loss() -> Any:
    import jax

    scores = jax_scores()

    def loss(params: Any, images: Any, labels: Any) -> Any:
        logs = jax.nn.log_softmax(scores(params, images))
        return -jax.numpy.take_along_axis(logs, labels[:, None], 1).mean()

    return loss


def _to_torch(params: Arrays) -> Arrays:
    return {"kernel": params["kernel"].transpose(3, 2, 0, 1), "hidden": params["hidden"].T, "out": params["out"].T}


def _from_torch(params: Arrays) -> Arrays:
    return {"kernel": params["kernel"].transpose(2, 3, 1, 0), "hidden": params["hidden"].T, "out": params["out"].T}


def _long_labels(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images, labels.astype(np.int64)


def _images_last(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images.transpose(0, 2, 3, 1), labels


def _channels_last(params: Arrays) -> Arrays:
    """The rows of the hidden layer in the order of flattened (row, column, channel)."""
    hidden = params["hidden"].reshape(6, 13, 13, 84).transpose(1, 2, 0, 3).reshape(1014, 84)
    return {**params, "hidden": hidden}


def _channels_first(params: Arrays) -> Arrays:
    hidden = params["hidden"].reshape(13, 13, 6, 84).transpose(2, 0, 1, 3).reshape(1014, 84)
    return {**params, "hidden": hidden}
