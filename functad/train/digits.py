"""How images of digits become inputs: kept as pixels, scaled in each step.

Knows nothing of where the digits come from, nor of any network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import nn
from functad.api import ShapeDtypeStruct
from functad.data import MNIST
from functad.train.tasks import Dataset

# Of the training pixels of MNIST, scaled to [0, 1].
_MEAN, _DEVIATION = 0.1307, 0.3081


def as_inputs(images: Any) -> Any:
    """Grey images as inputs of mean 0 and deviation 1.

    Args:
        images: shape (n, 28, 28); floats in [0, 1], or pixels of 0 to 255 as uint8.

    Returns:
        float32 of shape (n, 1, 28, 28); a NumPy array if the images are one.

    >>> as_inputs(np.zeros((2, 28, 28), np.float32)).shape
    (2, 1, 28, 28)
    """
    if images.dtype == np.uint8:
        images = images.astype(np.float32) / np.float32(255)
    return (images[:, None] - np.float32(_MEAN)) / np.float32(_DEVIATION)


def on_pixels(network: nn.Layer) -> nn.Layer:
    """The network on images as they are stored, uint8 of shape (n, 28, 28): scaling them is part of each step.

    So they take a quarter of the memory, and of the time to gather a batch. The params are those of the network.
    """

    def init(key: Any, x: Any) -> Any:
        return network.init(key, ShapeDtypeStruct((x.shape[0], 1, *x.shape[1:]), "float32"))

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        return network.apply(params, as_inputs(x), key=key, train=train)

    return nn.Layer(init, apply)


def digit_sets(data: MNIST, limit: int | None = None) -> tuple[Dataset, Dataset]:
    """The pixels to train on, at most `limit` images, and those to test with."""
    train = Dataset(_pixels(data.train_images[:limit]), data.train_labels[:limit])
    return train, Dataset(_pixels(data.test_images), data.test_labels)


def _pixels(images: np.ndarray) -> np.ndarray:
    """Drawn digits have whole grey levels, too, so that nothing is lost."""
    return images if images.dtype == np.uint8 else np.rint(images * np.float32(255)).astype(np.uint8)
