"""The dropout layer, which draws random numbers while training.

Knows nothing of other layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import numpy as jnp
from functad import random
from functad.errors import ArgumentError
from functad.nn.layer import Layer, check_one_array


def Dropout(rate: float) -> Layer:
    """While training, set elements to zero at random and scale up the rest (Srivastava et al. 2014).

    Args:
        rate: the probability, 0 <= rate < 1, that an element is dropped.

    Returns:
        A layer without params, whose `apply` needs a `key` when `train=True`.

    Raises:
        ArgumentError: the rate is not a probability below 1, or the key is missing.

    >>> import functad, functad.numpy as jnp
    >>> layer = Dropout(0.5)
    >>> layer.apply((), jnp.ones(3))
    Array([1., 1., 1.], dtype=float32)
    >>> kept = layer.apply((), jnp.ones(1000), key=functad.random.key(0), train=True)
    >>> float(kept.max()), bool(abs(kept.mean() - 1.) < 0.1)
    (2.0, True)
    """
    name = f"Dropout({rate})"
    if isinstance(rate, bool) or not isinstance(rate, (int, float, np.number)) or not 0 <= rate < 1:
        raise ArgumentError(f"Dropout({rate!r}): rate must be at least 0 and less than 1, a number")

    def init(key: Any, x: Any) -> tuple[()]:
        return ()

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        check_one_array(x, name)
        x = jnp.asarray(x)
        if not train or rate == 0:
            return x
        if key is None:
            raise ArgumentError(
                f"{name}: training needs a random key, a fresh one for every step:\n"
                "    key, step_key = functad.random.split(key)\n"
                "    network.apply(params, x, key=step_key, train=True)"
            )
        kept = random.bernoulli(key, 1.0 - rate, x.shape)
        return jnp.where(kept, x / (1.0 - rate), jnp.zeros_like(x))

    return Layer(init, apply, name)
