"""Half of the squared distance between a polynomial and the sign function at n points in [-1, 1], and its gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function
from functad import lax


def objective(coefficients: Any, n: int) -> Any:
    t = -1 + jnp.arange(n, dtype=coefficients.dtype) * (2 / (n - 1))
    # Horner's scheme: from the highest power down.
    polynomial, _ = lax.scan(lambda sum, x: (sum * t + x, None), jnp.zeros_like(t), coefficients, reverse=True)
    return jnp.sum((jnp.sign(t) - polynomial) ** 2) / 2


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return np.array(given["x"]), given["n"]


_jit = partial(functad.jit, static_argnums=1)
FUNCTIONS = {
    "primal": Function(_prepare, _jit(objective)),
    "gradient": Function(_prepare, _jit(functad.grad(objective))),
}
