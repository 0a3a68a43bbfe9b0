"""y₀' = x₀, yᵢ' = xᵢ yᵢ₋₁ from y = 0 by the classical Runge–Kutta method, and the gradient of the last y."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function
from functad import lax

_END = 2.0


def solution(x: Any, steps: int) -> Any:
    """y at the end."""
    h = _END / steps

    def slope(y: Any) -> Any:
        return jnp.concatenate([x[:1], x[1:] * y[:-1]])

    def step(_: Any, y: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, steps, step, jnp.zeros_like(x))


def last(x: Any, steps: int) -> Any:
    return solution(x, steps)[-1]


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return np.array(given["x"]), given["s"]


_jit = partial(functad.jit, static_argnums=1)
FUNCTIONS = {
    "primal": Function(_prepare, _jit(solution)),
    "gradient": Function(_prepare, _jit(functad.grad(last))),
}
