"""min over x of max over y of |x|² − |y|²: a gradient descent of a gradient descent, each in either mode."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.evals.descent import GRADIENTS, argmax, argmin
from benchmarks.gradbench.task import Function


def height(x: Any, y: Any) -> Any:
    return jnp.sum(x**2) - jnp.sum(y**2)


def saddle_point(start: Any, outer: str, inner: str) -> Any:
    """x and y, joined; `outer` and `inner` name the mode of each gradient."""

    def highest(x: Any) -> Any:
        return height(x, argmax(lambda y: height(x, y), start, GRADIENTS[inner]))

    x = argmin(highest, start, GRADIENTS[outer])
    y = argmax(lambda y: height(x, y), start, GRADIENTS[inner])
    return jnp.concatenate([x, y])


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return (np.array(given["start"]),)


def _function(outer: str, inner: str) -> Function:
    return Function(_prepare, functad.jit(lambda start: saddle_point(start, outer, inner)))


FUNCTIONS = {outer + inner: _function(outer, inner) for outer in GRADIENTS for inner in GRADIENTS}
