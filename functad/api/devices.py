"""Where arrays live: JAX's functions for moving and awaiting them. There is one device, the CPU.

Knows pytrees of arrays; no transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.api.arguments import as_value
from functad.tree_util import tree_map


def devices(backend: Any = None) -> list[str]:
    """The devices that arrays can live on.

    >>> import functad
    >>> functad.devices()
    ['cpu']
    """
    return ["cpu"]


def default_backend() -> str:
    """The kind of device that computes: `"cpu"`."""
    return "cpu"


def device_put(x: Any, device: Any = None) -> Any:
    """A pytree with an `Array` for every array-like leaf.

    >>> import functad, numpy as np
    >>> functad.device_put({"a": np.ones(2)})
    {'a': Array([1., 1.], dtype=float64)}
    """
    return tree_map(lambda leaf: as_value(leaf, lambda: "a leaf given to device_put"), x)


def device_get(x: Any) -> Any:
    """A pytree with a NumPy array for every `Array`; nothing is copied, so they are read-only.

    >>> import functad, functad.numpy as jnp
    >>> functad.device_get(jnp.ones(2))
    array([1., 1.], dtype=float32)
    """
    return tree_map(np.asarray, x)


def block_until_ready(x: Any) -> Any:
    """x: computations are finished when they return.

    >>> import functad
    >>> functad.block_until_ready(3)
    3
    """
    return x
