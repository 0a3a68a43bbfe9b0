"""Where a step stands in its sequence: learned, sinusoidal and rotary positions.

Knows nothing of attention.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.errors import ShapeError, check_int
from functad.nn.initializers import Initializer, normal
from functad.nn.layer import Layer, check_floats, check_one_array, check_params, struct_of, without_params

_SMALL = normal(0.02)


def LearnedPositions(steps: int, embedding_init: Initializer = _SMALL) -> Layer:
    """Add a learned row to each step.

    Args:
        steps: the most that a sequence may have.
        embedding_init: called as `init(key, shape, dtype)`.

    Returns:
        A layer that keeps the shape (…, steps, features). Its params are a dict: "embedding", (steps, features).

    Raises:
        ShapeError: a longer sequence. DTypeError, TreeError: as `Dense`.

    >>> import functad, functad.numpy as jnp
    >>> layer = LearnedPositions(16)
    >>> x = jnp.zeros((2, 5, 8))
    >>> params = layer.init(functad.random.key(0), x)
    >>> bool((layer.apply(params, x)[1] == params["embedding"][:5]).all())
    True
    """
    name = f"LearnedPositions({steps})"
    steps = check_int(steps, "LearnedPositions: steps", low=1)

    def init(key: Any, x: Any) -> dict[str, Any]:
        x = struct_of(x)
        _check(x, steps, name)
        return {"embedding": embedding_init(key, (steps, x.shape[-1]), x.dtype)}

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        x = jnp.asarray(x)
        _check(x, steps, name)
        check_params(params, {"embedding": (steps, x.shape[-1])}, name)
        return x + params["embedding"][: x.shape[-2]]

    return Layer(init, apply, name)


def SinusoidalPositions() -> Layer:
    """Add `sinusoidal_positions` to the steps (Vaswani et al. 2017).

    Returns:
        A layer without params that keeps the shape (…, steps, features).

    >>> import functad.numpy as jnp
    >>> SinusoidalPositions().apply((), jnp.zeros((1, 2, 4)))[0].round(4)
    Array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]], dtype=float32)
    """

    def add(x: Any) -> Any:
        x = jnp.asarray(x)
        _check(x, None, "SinusoidalPositions()")
        return x + sinusoidal_positions(*x.shape[-2:]).astype(x.dtype)

    return without_params(add, "SinusoidalPositions()")


def sinusoidal_positions(steps: int, features: int) -> Any:
    """Sines and cosines of each position, in turns, with wavelengths from 2π to 10,000 · 2π.

    Returns:
        float32 of shape (steps, features).

    >>> sinusoidal_positions(3, 4).shape
    (3, 4)
    """
    angles = np.arange(steps)[:, None] * 10_000.0 ** (-(np.arange(features) // 2 * 2) / features)
    return jnp.asarray(np.where(np.arange(features) % 2, np.cos(angles), np.sin(angles)), "float32")


def rotary_embedding(x: Any, first: Any = 0, base: float = 10_000.0) -> Any:
    """Queries or keys turned by angles that grow with their positions (Su et al. 2021).

    A product of a query and a key so turned depends on how far apart they are, not on where.

    Args:
        x: floats of shape (…, steps, heads, extent), the extent even; its halves are the two coordinates.
        first: the position of the first step, an integer.
        base: the longest wavelength is about 2π times this.

    Returns:
        The shape and dtype of x.

    Raises:
        ShapeError: the extent is odd.

    >>> import functad.numpy as jnp
    >>> rotary_embedding(jnp.ones((2, 1, 2))).round(3).reshape(2, 2)
    Array([[ 1.   ,  1.   ],
           [-0.301,  1.382]], dtype=float32)
    """
    x = jnp.asarray(x)
    check_floats(x, "rotary_embedding")
    if x.ndim < 3 or x.shape[-1] % 2:
        raise ShapeError(f"rotary_embedding takes (…, steps, heads, extent) with an even extent, not {x.shape}")
    half = x.shape[-1] // 2
    dtype = jnp.promote_types(x.dtype, "float32")
    rates = jnp.exp(jnp.arange(half, dtype=dtype) * (-math.log(base) / half))
    angles = ((first + jnp.arange(x.shape[-3])).astype(dtype)[:, None] * rates)[:, None, :]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _check(x: Any, steps: int | None, name: str) -> None:
    check_one_array(x, name)
    check_floats(x, name)
    if len(x.shape) < 2 or (steps is not None and x.shape[-2] > steps):
        most = "" if steps is None else f", at most {steps} steps"
        raise ShapeError(f"{name}: the input must have shape (…, steps, features){most}, but has {tuple(x.shape)}")
