"""log Σ exp(xᵢ), with the maximum taken out, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function


def log_sum_exp(x: Any) -> Any:
    largest = jnp.max(x)
    return largest + jnp.log(jnp.sum(jnp.exp(x - largest)))


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return (np.array(given["x"]),)


FUNCTIONS = {
    "primal": Function(_prepare, functad.jit(log_sum_exp)),
    "gradient": Function(_prepare, functad.jit(functad.grad(log_sum_exp))),
}
