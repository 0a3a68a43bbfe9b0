"""functad as a contender.

Knows functad's public names.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import functad
import functad.numpy as jnp
from benchmarks.frameworks.functional import Api, FunctionalCalling, FunctionalTraining
from benchmarks.task import Form, Training
from functad import optim


def _sgd(rate: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    optimizer = optim.sgd(rate)

    def update(params: Any, state: Any, grads: Any) -> Any:
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    return optimizer.init, update


API = Api(
    jit=functad.jit,
    value_and_grad=functad.value_and_grad,
    tree_map=functad.tree.map,
    sqrt=jnp.sqrt,
    zeros_like=jnp.zeros_like,
    device_put=functad.device_put,
    block=functad.block_until_ready,
    wait=None,
    sgd=_sgd,
)


class _FunctadTraining(FunctionalTraining):
    def allocated(self) -> int:
        """Bytes: the largest sum of new memory while a step runs, objects of Python included."""
        tracemalloc.start()
        try:
            self.run(3)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            self.run(1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return peak - before


def contender(task: Any, form: Form, *, compiled: bool) -> Any:
    """The task in functad, jitted."""
    return _FunctadTraining(task, form, API) if isinstance(task, Training) else FunctionalCalling(task, form, API)
