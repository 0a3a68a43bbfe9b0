"""`functad.scipy.interpolate`: values between those on a grid.

Knows searches in sorted arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.numpy.promotion import promote_dtypes_inexact


class RegularGridInterpolator:
    """Values between those at the points of a rectangular grid, which need not be evenly spaced.

    Args:
        points: for each axis of the grid its coordinates, a vector in ascending order.
        values: array of shape (sizes of the grid, …).
        method: "linear" (in each variable) or "nearest" (of two at equal distances the lower one).
        bounds_error: False; to raise would need to know the points.
        fill_value: what points outside of the grid get, or None: the nearest cell goes on.

    >>> import functad.numpy as jnp
    >>> rain = RegularGridInterpolator((jnp.array([0., 1.]), jnp.array([0., 2.])), jnp.array([[1., 3.], [2., 4.]]))
    >>> rain(jnp.array([0.5, 1.]))
    Array([2.5], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        _check_method(method)
        if bounds_error:
            raise ArgumentError("RegularGridInterpolator: bounds_error must be False; fill_value marks what is outside")
        (self.values,) = map(jnp.asarray, promote_dtypes_inexact(jnp.asarray(values)))
        self.grid = tuple(jnp.asarray(p) for p in points)
        sizes = tuple(p.size for p in self.grid)
        if any(p.ndim != 1 or p.size < 2 for p in self.grid) or self.values.shape[: len(sizes)] != sizes:
            raise ShapeError(
                f"RegularGridInterpolator: points of shapes {[p.shape for p in self.grid]} must be vectors of at "
                f"least two elements, one for each of the first axes of values, of shape {self.values.shape}"
            )
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        if fill_value is not None and not np.can_cast(jnp.asarray(fill_value).dtype, self.values.dtype, "same_kind"):
            raise DTypeError(f"RegularGridInterpolator: fill_value={fill_value!r} is no {self.values.dtype}")

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points of shape (…, d), d the number of the grid's axes; or a tuple of d arrays.

        Returns:
            array of shape (…, and what follows the grid's axes in values).
        """
        chosen = self.method if method is None else method
        _check_method(chosen)
        x, d = _coordinates(xi, len(self.grid)), len(self.grid)
        if x.shape[-1] != d:
            raise ShapeError(f"RegularGridInterpolator: points have {x.shape[-1]} coordinates, but the grid {d} axes")
        flat = x.reshape(-1, d)
        cells = [self._cell(flat[:, k], grid) for k, grid in enumerate(self.grid)]
        found = self._linear(cells) if chosen == "linear" else self._nearest(cells)
        rows = (-1, *(1,) * (found.ndim - 1))
        found = jnp.where(jnp.isnan(flat).any(1).reshape(rows), np.nan, found)
        if self.fill_value is not None:
            outside = jnp.zeros(flat.shape[0], bool)
            for k, grid in enumerate(self.grid):
                outside = outside | (flat[:, k] < grid[0]) | (flat[:, k] > grid[-1])
            found = jnp.where(outside.reshape(rows), self.fill_value, found)
        return found.reshape(*x.shape[:-1], *self.values.shape[d:])

    def _cell(self, x: Any, grid: Any) -> tuple[Any, Any]:
        """The number of the cell that coordinates lie in, or are nearest to, and where in it, from 0 to 1."""
        cell = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, grid.size - 2)
        return cell, (x - grid[cell]) / (grid[cell + 1] - grid[cell])

    def _linear(self, cells: Sequence[tuple[Any, Any]]) -> Any:
        total: Any = 0
        for corner in itertools.product((0, 1), repeat=len(cells)):
            place = tuple(cell + c for (cell, _), c in zip(cells, corner))
            weight = math.prod(part if c else 1 - part for (_, part), c in zip(cells, corner))
            at_corner = self.values[place]
            total = total + at_corner * jnp.reshape(weight, (-1, *(1,) * (at_corner.ndim - 1)))
        return total

    def _nearest(self, cells: Sequence[tuple[Any, Any]]) -> Any:
        return self.values[tuple(jnp.where(part <= 0.5, cell, cell + 1) for cell, part in cells)]


def _check_method(method: str) -> None:
    if method not in ("linear", "nearest"):
        raise ArgumentError(f"RegularGridInterpolator: method={method!r} must be 'linear' or 'nearest'")


def _coordinates(xi: Any, d: int) -> Any:
    """Points of shape (…, d); a vector is one point, or, on a grid of one axis, several."""
    if isinstance(xi, tuple):
        return jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, xi)), -1)
    x = jnp.asarray(xi)
    if x.ndim == 1:
        return x[:, None] if d == 1 else x[None, :]
    return x[None, None] if x.ndim == 0 else x


__all__ = ["RegularGridInterpolator"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
