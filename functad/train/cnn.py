"""The convolutional network for handwritten digits: its layers, and how images become its inputs.

Knows nothing of where the digits come from or how it is trained.
"""

from __future__ import annotations

import numpy as np

from functad import nn
from functad.data import MNIST
from functad.train.loop import Dataset

# Of the training pixels of MNIST, scaled to [0, 1].
_MEAN, _DEVIATION = 0.1307, 0.3081


def cnn() -> nn.Layer:
    """Convolution 3×3 to 6 channels, relu, max-pooling 2×2, dense 84, relu, dense 10; no biases.

    Returns:
        A layer from inputs of shape (n, 1, 28, 28) to one score for each of the ten digits.

    >>> import functad
    >>> params = cnn().init(functad.random.key(0), functad.ShapeDtypeStruct((1, 1, 28, 28), "float32"))
    >>> [leaf.shape for leaf in functad.tree.leaves(params)]
    [(3, 3, 1, 6), (1014, 84), (84, 10)]
    """
    return nn.serial(
        nn.Conv(6, (3, 3), use_bias=False),
        nn.Relu(),
        nn.MaxPool((2, 2)),
        nn.Flatten(),
        nn.Dense(84, use_bias=False),
        nn.Relu(),
        nn.Dense(10, use_bias=False),
    )


def as_inputs(images: np.ndarray) -> np.ndarray:
    """Grey images in [0, 1], (n, 28, 28), as inputs of mean 0 and deviation 1, (n, 1, 28, 28).

    >>> as_inputs(np.zeros((2, 28, 28), np.float32)).shape
    (2, 1, 28, 28)
    """
    return (images[:, None] - np.float32(_MEAN)) / np.float32(_DEVIATION)


def digit_sets(data: MNIST, limit: int | None = None) -> tuple[Dataset, Dataset]:
    """The data to train on, at most `limit` of them, and those to test with."""
    train = Dataset(as_inputs(data.train_images[:limit]), data.train_labels[:limit])
    return train, Dataset(as_inputs(data.test_images), data.test_labels)
