"""Sequences of unequal length in one array: `Ragged`, its mask, and layers that work on each step.

Knows nothing of recurrence.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.nn.functions import first_outside
from functad.nn.layer import Layer, applied, check_layers, combination, first_buffers
from functad.records import NamedTuple


class Ragged(NamedTuple):
    """A batch of sequences of unequal length, padded to the longest.

    A recurrent layer stops each sequence at its end: from there on the state stays as it is and outputs are zero. What
    the padding holds does not matter, as long as it is finite. Where the layer returns sequences, they are `Ragged`
    again.

    Attributes:
        values: of shape (batch, steps, …).
        lengths: how many steps of each sequence count; integers of shape (batch,), from 0 to steps.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> x = nn.Ragged(jnp.ones((2, 5, 3)), jnp.array([5, 2]))
    >>> layer = nn.GRU(4, return_sequences=True)
    >>> y = layer.apply(layer.init(functad.random.key(0), x), x)
    >>> y.values.shape, y.lengths, bool((y.values[1, 2:] == 0).all())
    ((2, 5, 4), Array([5, 2], dtype=int32), True)
    """

    values: Any
    lengths: Any


def length_mask(lengths: Any, steps: int) -> Array:
    """True at the steps that count, as a loss over all steps needs it.

    Args:
        lengths: integers of any shape, such as (batch,).
        steps: the number of steps of the padded sequences.

    Returns:
        Booleans of shape (*lengths.shape, steps).

    >>> import functad.numpy as jnp
    >>> length_mask(jnp.array([1, 3]), 3)
    Array([[ True, False, False],
           [ True,  True,  True]], dtype=bool)
    """
    return jnp.arange(steps) < jnp.asarray(lengths)[..., None]


def each_step(layer: Layer) -> Layer:
    """A layer that works on every step by itself, such as `Dense`, `Dropout` or `Embedding`, for `Ragged` inputs too.

    It gets the values, and the lengths go on with its output. An input that is no `Ragged` goes through as it is.

    Raises:
        ArgumentError: the argument is no layer.

    >>> import functad, functad.numpy as jnp
    >>> from functad import nn
    >>> x = nn.Ragged(jnp.array([[1, 2, 3], [4, 0, 0]]), jnp.array([3, 1]))
    >>> network = nn.serial(nn.each_step(nn.Embedding(5, 8)), nn.LSTM(6), nn.Dense(2))
    >>> network.apply(network.init(functad.random.key(0), x), x).shape
    (2, 2)
    """
    check_layers((layer,), "each_step")

    def init(key: Any, x: Any) -> Any:
        return layer.init(key, values_of(x))

    def buffers(x: Any) -> Any:
        return first_buffers(layer, values_of(x))

    def run(params: Any, x: Any, buffers: Any, key: Any, train: bool) -> tuple[Any, Any]:
        y, new = applied(layer, None, params, values_of(x), buffers, key, train)
        return with_values(x, y), new

    return combination("each_step", (layer,), init, run, buffers)


def values_of(x: Any) -> Any:
    """The values of a `Ragged`; anything else as it is."""
    return x.values if isinstance(x, Ragged) else x


def with_values(x: Any, values: Any) -> Any:
    """These values with the lengths of x, if x is `Ragged`; otherwise the values."""
    return x._replace(values=values) if isinstance(x, Ragged) else values


def check_lengths(x: Ragged, name: str) -> None:
    """Raise unless the lengths of a `Ragged` fit its values of shape (…, steps, features)."""
    *batch, steps, _ = x.values.shape
    lengths = jnp.asarray(x.lengths)
    if kind_of(lengths.dtype) not in "iu":
        raise DTypeError(
            f"{name}: the lengths of the Ragged input have dtype {lengths.dtype.name}, but must be integers; "
            "of a mask over the steps they are mask.sum(-1)"
        )
    if lengths.shape != tuple(batch):
        raise ShapeError(
            f"{name}: the values of the Ragged input have shape {x.values.shape}, so its lengths must have shape "
            f"{tuple(batch)}, one for each sequence, but have {lengths.shape}"
        )
    wrong = first_outside(lengths, steps + 1)
    if wrong is not None:
        raise ArgumentError(f"{name}: a sequence of {steps} steps cannot have length {wrong} (Ragged.lengths)")
