"""The convolutional network for handwritten digits.

Knows nothing of where the digits come from or how it is trained.
"""

from __future__ import annotations

from functad import nn


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
