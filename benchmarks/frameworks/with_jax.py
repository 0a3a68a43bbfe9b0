"""JAX as a contender.

Knows JAX's public names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.frameworks.functional import Api, FunctionalCalling, FunctionalTraining
from benchmarks.task import Form, Training


def _sgd(rate: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def update(params: Any, state: Any, grads: Any) -> Any:
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), state

    return lambda params: (), update


API = Api(
    jit=jax.jit,
    value_and_grad=jax.value_and_grad,
    tree_map=jax.tree.map,
    sqrt=jnp.sqrt,
    zeros_like=jnp.zeros_like,
    device_put=jax.device_put,
    block=jax.block_until_ready,
    wait=lambda array: array.block_until_ready(),
    sgd=_sgd,
)


class _JaxTraining(FunctionalTraining):
    def allocated(self) -> int:
        """Bytes: temporaries, and results that take no donated memory, as XLA planned them."""
        plan = self.step.lower(*self.arguments()).compile().memory_analysis()
        return plan.temp_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes


def contender(task: Any, form: Form, *, compiled: bool) -> Any:
    """The task in JAX, jitted."""
    return _JaxTraining(task, form, API) if isinstance(task, Training) else FunctionalCalling(task, form, API)
