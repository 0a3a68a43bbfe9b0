"""`functad.scipy.integrate`: integrals of values at given places.

Knows names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array

__all__ = ["trapezoid"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule: the same as `functad.numpy.trapezoid`.

    Args:
        y: values.
        x: the places of the values, of the shape of y, or a vector as long as the axis.
        dx: their distance where there is no `x`.
        axis: the axis.

    Returns:
        An array of the shape of y without that axis.

    >>> import functad.numpy as jnp
    >>> trapezoid(jnp.array([0.0, 1.0, 4.0]), dx=0.5)
    Array(1.5, dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)
