"""The squared distances of points to their nearest centres, summed, and Newton's direction for the centres.

A point's nearest centre does not change when the centres move a little: it is found first, and not differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function
from functad import lax


def cost(points: Any, centres: Any) -> Any:
    """Of points (n, d) and centres (k, d)."""
    # |p − c|² without |p|², which is the same for all centres of a point.
    distances = jnp.sum(centres**2, axis=1) - 2 * (points @ centres.T)
    nearest = jnp.argmin(lax.stop_gradient(distances), axis=1)
    return jnp.sum((points - centres[nearest]) ** 2)


def direction(points: Any, centres: Any) -> Any:
    """The gradient over the Hessian, which is diagonal: its product with ones is the diagonal."""

    def gradient(centres: Any) -> Any:
        return functad.grad(cost, argnums=1)(points, centres)

    slope, curvature = functad.jvp(gradient, (centres,), (jnp.ones_like(centres),))
    return slope / curvature


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return np.array(given["points"]), np.array(given["centroids"])


FUNCTIONS = {
    "cost": Function(_prepare, functad.jit(cost)),
    "dir": Function(_prepare, functad.jit(direction)),
}
