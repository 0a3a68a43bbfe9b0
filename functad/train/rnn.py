"""The recurrent network for handwritten digits, which reads an image strip by strip.

Knows nothing of where the digits come from or how it is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import nn
from functad import numpy as jnp
from functad.errors import ArgumentError, check_int
from functad.nn import initializers

CELLS: dict[str, Callable[..., nn.Recurrent]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
NONLINEARITIES = {"tanh": nn.tanh, "relu": nn.relu, "identity": nn.identity}
RECURRENT_INITS = {"glorot": initializers.glorot_normal(), "orthogonal": initializers.orthogonal()}

_PIXELS = 784


def rnn(
    cell: str = "rnn",
    steps: int = 4,
    hidden: int = 64,
    layers: int = 1,
    bidirectional: bool = False,
    nonlinearity: str = "tanh",
    recurrent_init: str = "glorot",
    input_scale: float = 1.0,
    output_scale: float = 1.0,
) -> nn.Layer:
    """An image as a sequence of strips through a recurrent network, and a dense layer of 10 on its last output.

    Weights are normal with Glorot's variance, biases zero (but for the forget gate of the LSTM).

    Args:
        cell: "rnn", "lstm" or "gru".
        steps: into how many strips the image is cut, from top to bottom; a divisor of 784. 28: row by row.
        hidden: the size of the state.
        layers: recurrent layers one after another.
        bidirectional: read the image from both ends.
        nonlinearity: of the cell "rnn": "tanh", "relu" or "identity".
        recurrent_init: of the weights from state to state: "glorot" or "orthogonal".
        input_scale, output_scale: factors on the first weights of the inputs, and of the dense layer. Halving the
            former keeps the units away from where tanh is flat; larger scores learn faster by plain gradient descent.

    Returns:
        A layer from inputs of shape (n, 1, 28, 28) to one score for each of the ten digits.

    Raises:
        ArgumentError: the image cannot be cut into so many strips, a choice is none of those above, or does not go
            with the cell.

    >>> import functad
    >>> params = rnn().init(functad.random.key(0), functad.ShapeDtypeStruct((1, 1, 28, 28), "float32"))
    >>> functad.tree.map(lambda leaf: leaf.shape, params)[1]
    {'bias': (64,), 'kernel': (196, 64), 'recurrent_kernel': (64, 64)}
    """
    if steps < 1 or _PIXELS % steps:
        raise ArgumentError(
            f"rnn: an image of {_PIXELS} pixels cannot be cut into {steps} equal strips; try 4, 14 or 28"
        )
    layers = check_int(layers, "rnn: layers", low=1)
    for what, choice, known in (
        ("cell", cell, CELLS),
        ("nonlinearity", nonlinearity, NONLINEARITIES),
        ("recurrent_init", recurrent_init, RECURRENT_INITS),
    ):
        if choice not in known:
            raise ArgumentError(f"rnn: {what} must be one of {', '.join(map(repr, known))}, got {choice!r}")
    if cell != "rnn" and nonlinearity != "tanh":
        raise ArgumentError(f"rnn: nonlinearity={nonlinearity!r} goes with the cell 'rnn' only, not with {cell!r}")
    options: dict[str, Any] = {"nonlinearity": NONLINEARITIES[nonlinearity]} if cell == "rnn" else {}
    layer = CELLS[cell](
        hidden, kernel_init=_glorot(input_scale), recurrent_init=RECURRENT_INITS[recurrent_init], **options
    )
    if bidirectional:
        layer = nn.Bidirectional(layer)
    output = nn.Dense(10, kernel_init=_glorot(output_scale))

    def strips(images: Any) -> Any:
        return jnp.reshape(images, (images.shape[0], steps, _PIXELS // steps))

    return nn.serial(nn.Activation(strips), layer if layers == 1 else nn.stacked(*[layer] * layers), output)


def _glorot(scale: float) -> initializers.Initializer:
    return initializers.variance_scaling(scale**2, "fan_avg", "truncated_normal")
