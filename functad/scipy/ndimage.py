"""`functad.scipy.ndimage`: values of an array between its elements.

Knows interpolation in each axis, and what lies beyond an array's edges.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import lax
from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError

__all__ = ["map_coordinates"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


def _mirrored(index: Any, size: int) -> Any:
    last = size - 1  # a triangular wave of half this length
    return jnp.abs((index + last) % (2 * last) - last)


# What each mode reads at an index outside of 0 … size − 1.
_INSIDE: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Array:
    """The values of an array at coordinates between its elements.

    Args:
        input: the array.
        coordinates: for each axis of the array the coordinates along it, arrays of one shape.
        order: 0 for the nearest element, 1 for linear interpolation.
        mode: what is beyond the edges: "constant", "nearest", "wrap", "mirror" or "reflect".
        cval: the value there in the mode "constant".

    Returns:
        An array of the shape of the coordinates and of the dtype of `input`; integers are rounded.

    Raises:
        ArgumentError: another number of coordinates than axes, another order, another mode.

    >>> import functad.numpy as jnp
    >>> map_coordinates(jnp.array([0.0, 1.0, 4.0]), [jnp.array([0.5, 1.5, 3.0])], order=1)
    Array([0.5, 2.5, 0. ], dtype=float32)
    """
    values, places = jnp.asarray(input), [jnp.asarray(c) for c in coordinates]
    if len(places) != values.ndim:
        raise ArgumentError(
            f"map_coordinates: there must be coordinates for each of the {values.ndim} axes of input, but there are "
            f"{len(places)}"
        )
    if mode not in _INSIDE:
        raise ArgumentError(f"map_coordinates: mode must be one of {', '.join(_INSIDE)}, got {mode!r}")
    if order not in (0, 1):
        raise ArgumentError(f"map_coordinates: order must be 0 (nearest) or 1 (linear), got {order!r}")
    neighbours = _nearest if order == 0 else _around
    fill = jnp.asarray(cval, values.dtype)
    total: Any = None
    for corner in itertools.product(*map(neighbours, places)):
        indices = [index for index, _ in corner]
        found = values[tuple(_INSIDE[mode](i, n) for i, n in zip(indices, values.shape))]
        if mode == "constant":
            inside = [(i >= 0) & (i < n) for i, n in zip(indices, values.shape)]
            found = jnp.where(functools.reduce(operator.and_, inside), found, fill)
        part = functools.reduce(operator.mul, (weight for _, weight in corner)) * found
        total = part if total is None else total + part
    return (_rounded(total) if kind_of(values.dtype) in "iu" else total).astype(values.dtype)


def _rounded(x: Any) -> Any:
    """Rounded to whole numbers, halves away from zero."""
    return x if kind_of(x.dtype) in "iu" else lax.round(x)


def _nearest(place: Any) -> list[tuple[Any, Any]]:
    return [(_rounded(place).astype(np.int32), place.dtype.type(1))]


def _around(place: Any) -> list[tuple[Any, Any]]:
    """The elements below and above, and their weights."""
    below = jnp.floor(place)
    share = place - below
    index = below.astype(np.int32)
    return [(index, 1 - share), (index + 1, share)]
