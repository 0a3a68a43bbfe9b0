"""Images changed at random, so that a network sees more of them: moved, turned, bent; compiled, for a batch at once.

This file must not know what the images show, nor who is trained with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad import random
from functad.absent import absent
from functad.api import jit
from functad.api.mapping import vmap
from functad.array import Array
from functad.errors import ShapeError
from functad.scipy.ndimage import map_coordinates

__all__ = ["elastic", "rotate", "shift"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


@jit
def shift(key: Any, images: Any, most: Any = 2.0) -> Array:
    """Move each image by another distance, down and to the right, of at most so many pixels, in parts of pixels.

    Args:
        key: a random key, from which `random.split` makes one for each image.
        images: shape (n, height, width) or (n, height, width, channels). What comes in from outside is 0.
        most: pixels; the distances are uniform in [-most, most).

    Returns:
        Images of the same shape and dtype, interpolated linearly; integers are rounded.

    Raises:
        ShapeError: images of another number of axes.

    >>> import functad.numpy as jnp
    >>> images = jnp.ones((2, 3, 3))
    >>> shift(random.key(0), images, 0.5).shape
    (2, 3, 3)
    """

    def places(key: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
        down, right = random.uniform(key, (2,), minval=-most, maxval=most)
        return rows - down, columns - right

    return _moved("shift", key, images, places)


@jit
def rotate(key: Any, images: Any, most: Any = 15.0) -> Array:
    """Turn each image about its middle by another angle of at most so many degrees.

    Args:
        key, images: as of `shift`.
        most: degrees; the angles are uniform in [-most, most), counter-clockwise where they are above 0.

    Returns:
        Images of the same shape and dtype, as of `shift`.

    Raises:
        ShapeError: images of another number of axes.

    >>> import functad.numpy as jnp
    >>> rotate(random.key(0), jnp.ones((2, 8, 8, 3), "uint8"))[:, 4, 4].tolist()
    [[1, 1, 1], [1, 1, 1]]
    """

    def places(key: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
        angle = jnp.deg2rad(random.uniform(key, minval=-most, maxval=most))
        middle_row, middle_column = rows.mean(), columns.mean()
        down, right = rows - middle_row, columns - middle_column
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        return middle_row + cosine * down + sine * right, middle_column - sine * down + cosine * right

    return _moved("rotate", key, images, places)


@jit
def elastic(key: Any, images: Any, strength: Any = 8.0, smoothness: Any = 4.0) -> Array:
    """Bend each image: its pixels come from places that are moved by two smooth random fields.

    Source: P. Y. Simard, D. Steinkraus, J. C. Platt, "Best Practices for Convolutional Neural Networks Applied to
    Visual Document Analysis", ICDAR 2003. Their Gaussian is cut off at the edges, and weighs 1 there, too.

    Args:
        key, images: as of `shift`.
        strength: pixels, by which fields of numbers in [-1, 1) are multiplied after they were smoothed.
        smoothness: the standard deviation, in pixels, of the Gaussian that smooths them.

    Returns:
        Images of the same shape and dtype, as of `shift`.

    Raises:
        ShapeError: images of another number of axes.

    >>> import functad.numpy as jnp
    >>> images = jnp.ones((2, 8, 8))
    >>> bool((elastic(random.key(0), images, 0.0) == images).all())
    True
    """

    def places(key: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
        fields = random.uniform(key, (2, *rows.shape), minval=-1.0, maxval=1.0)
        down, right = strength * (_blur(rows.shape[0], smoothness) @ fields @ _blur(rows.shape[1], smoothness).T)
        return rows + down, columns + right

    return _moved("elastic", key, images, places)


def _blur(size: int, deviation: Any) -> Array:
    """The matrix that takes weighted means along an axis, whose weights are a Gaussian."""
    distance = jnp.arange(size)[:, None] - jnp.arange(size)
    # Apart: a deviation of 0 leaves each where it is.
    weights = jnp.where(distance == 0, 1.0, jnp.exp(-0.5 * (distance / deviation) ** 2))
    return weights / weights.sum(1, keepdims=True)


def _moved(name: str, key: Any, images: Any, places: Callable[[Any, Any, Any], tuple[Any, Any]]) -> Array:
    """Each image read at the places that its key gives, all channels at the same."""
    images = jnp.asarray(images)
    if images.ndim not in (3, 4):
        raise ShapeError(
            f"{name}: images have shape {images.shape}; it must be (n, height, width) or (n, height, width, channels)"
        )
    rows, columns = jnp.meshgrid(*(jnp.arange(size, dtype="float32") for size in images.shape[1:3]), indexing="ij")

    def one(key: Any, image: Any) -> Any:
        read = partial(map_coordinates, coordinates=places(key, rows, columns), order=1)
        return read(image) if image.ndim == 2 else vmap(read, -1, -1)(image)

    return vmap(one)(random.split(key, images.shape[0]), images)
