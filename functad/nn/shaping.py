"""The layer that changes the shape alone: Flatten.

Knows nothing of other layers.
"""

from __future__ import annotations

import math
from typing import Any

from functad import numpy as jnp
from functad.errors import ShapeError
from functad.nn.layer import Layer, without_params


def Flatten() -> Layer:
    """All axes but the first, the batch, made one.

    Raises:
        ShapeError: the input is a scalar.

    >>> import functad.numpy as jnp
    >>> Flatten().apply((), jnp.ones((8, 6, 13, 13))).shape
    (8, 1014)
    """

    def flatten(x: Any) -> Any:
        x = jnp.asarray(x)
        if x.ndim < 1:
            raise ShapeError("Flatten(): the input is a scalar; it must have a batch axis")
        return jnp.reshape(x, (x.shape[0], math.prod(x.shape[1:])))

    return without_params(flatten, "Flatten()")
