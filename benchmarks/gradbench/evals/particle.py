"""Steer a charged particle through the origin: descent on the square of where Euler's method lets it cross the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.evals.descent import GRADIENTS, argmin
from benchmarks.gradbench.task import Function
from functad import lax

_TIME_STEP = 0.1


def potential(x: Any, w: Any) -> Any:
    """Of two unit charges, at (10, 10 − w) and (10, 0)."""
    charges = (jnp.stack([10 + 0 * w, 10 - w]), jnp.array([10.0, 0.0], x.dtype))
    return sum(1 / jnp.sqrt(jnp.sum((x - charge) ** 2)) for charge in charges)


def crossing(w: Any, gradient: Callable[[Any], Any]) -> Any:
    """The square of the place at which the particle comes to the horizontal axis."""

    def advance(state: Any) -> Any:
        x, v = state
        return x + _TIME_STEP * v, v - _TIME_STEP * gradient(lambda x: potential(x, w))(x)

    start = (jnp.array([0.0, 8.0], w.dtype), jnp.array([0.75, 0.0], w.dtype))
    # The last state above the axis: from there the particle flies straight.
    x, v = lax.while_loop(lambda state: advance(state)[0][1] >= 0, advance, start)
    return (x[0] - x[1] * v[0] / v[1]) ** 2


def steered(w: Any, outer: str, inner: str) -> Any:
    """The w that brings the particle through the origin; `outer` and `inner` name the mode of each gradient."""
    return argmin(lambda w: crossing(w, GRADIENTS[inner]), w, GRADIENTS[outer])


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return (np.asarray(given["w"], np.float64),)


def _function(outer: str, inner: str) -> Function:
    return Function(_prepare, functad.jit(lambda w: steered(w, outer, inner)))


FUNCTIONS = {outer + inner: _function(outer, inner) for outer in GRADIENTS for inner in GRADIENTS}
