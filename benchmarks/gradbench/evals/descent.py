"""The gradient descent that `particle` and `saddle` prescribe, as one loop that can itself be differentiated.

The step doubles after ten that went down, and halves after one that did not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functad
import functad.numpy as jnp
from functad import lax

_FIRST_STEP, _NEAR, _GROWS_AFTER = 1e-5, 1e-5, 10

# Letter in the names of the evals' functions → which mode differentiates.
GRADIENTS: dict[str, Callable[[Any], Any]] = {"f": functad.jacfwd, "r": functad.grad}


def argmin(f: Callable[[Any], Any], start: Any, gradient: Callable[[Any], Any]) -> Any:
    """Where f is least: descent until the gradient or a step is short."""
    slope = gradient(f)

    def going(state: Any) -> Any:
        _, _, g, step, _ = state
        return _length(g) * jnp.minimum(step, 1.0) > _NEAR

    def advance(state: Any) -> Any:
        x, value, g, step, count = state
        candidate = x - step * g
        found = f(candidate)
        down = found < value
        count = jnp.where(down, count + 1, 0)
        grows = count == _GROWS_AFTER
        step = jnp.where(grows, 2 * step, jnp.where(down, step, step / 2))
        x, value = jnp.where(down, candidate, x), jnp.where(down, found, value)
        return x, value, slope(x), step, jnp.where(grows, 0, count)

    step = jnp.full((), _FIRST_STEP, start.dtype)
    return lax.while_loop(going, advance, (start, f(start), slope(start), step, jnp.zeros((), jnp.int32)))[0]


def argmax(f: Callable[[Any], Any], start: Any, gradient: Callable[[Any], Any]) -> Any:
    """Where f is greatest."""
    return argmin(lambda x: -f(x), start, gradient)


def _length(vector: Any) -> Any:
    # The gradient of a root is infinite at 0, where nothing is to be learned from it.
    squared = jnp.sum(vector**2)
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
