"""What is learned: the losses of classifiers, as the training loop takes them.

Knows networks as pairs of functions; nothing of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import nn
from functad import numpy as jnp
from functad.errors import ArgumentError
from functad.records import NamedTuple


class Dataset(NamedTuple):
    """Inputs and their classes: inputs of shape (n, …), labels int32 of shape (n,).

    >>> import numpy as np
    >>> from functad.train import Dataset
    >>> data = Dataset(np.zeros((10, 28, 28, 1), np.float32), np.zeros(10, np.int32))
    >>> data.inputs.shape
    (10, 28, 28, 1)
    """

    inputs: Any
    labels: Any


def classifier(network: nn.Layer) -> Callable[..., Any]:
    """The loss of a network that gives one score a class: softmax cross-entropy; its metric is the accuracy.

    A batch is a `Dataset`, another pair of inputs and labels, or has both as attributes of these names.

    Raises:
        ArgumentError: when it is called, if a batch is none of that.

    >>> import numpy as np
    >>> from functad import nn
    >>> batch = Dataset(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0]))
    >>> classifier(nn.Identity())((), batch, None)[1]["accuracy"]
    Array(0.75, dtype=float32)
    """

    def loss(params: Any, batch: Any, key: Any) -> Any:
        inputs, labels = _dataset("classifier", batch)
        logits = network.apply(params, inputs, key=key, train=key is not None)
        value = nn.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        return value, {"accuracy": nn.accuracy(logits, labels)}

    return loss


def binary_classifier(network: nn.Layer) -> Callable[..., Any]:
    """The loss of a network that gives one score, above 0 for class 1: binary cross-entropy; and the accuracy.

    A batch is a `Dataset`, another pair of inputs and labels, or has both as attributes of these names.

    Raises:
        ArgumentError: when it is called, if a batch is none of that.

    >>> import numpy as np
    >>> from functad import nn
    >>> batch = Dataset(np.array([[2.], [-1.], [3.]], np.float32), np.array([1, 0, 0]))
    >>> binary_classifier(nn.Identity())((), batch, None)[1]["accuracy"]
    Array(0.6666667, dtype=float32)
    """

    def loss(params: Any, batch: Any, key: Any) -> Any:
        inputs, labels = _dataset("binary_classifier", batch)
        scores = network.apply(params, inputs, key=key, train=key is not None)[:, 0]
        value = nn.sigmoid_binary_cross_entropy(scores, labels).mean()
        return value, {"accuracy": jnp.mean((scores > 0) == (labels > 0))}

    return loss


def _dataset(name: str, batch: Any) -> Dataset:
    if hasattr(batch, "inputs") and hasattr(batch, "labels"):
        return Dataset(batch.inputs, batch.labels)
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ArgumentError(
            f"{name}: a batch must be a pair (inputs, labels), but is of type {type(batch).__name__}; give fit "
            "functad.train.Dataset(inputs, labels), or a loss of your own"
        )
    return Dataset(*batch)
