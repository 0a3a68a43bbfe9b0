"""Stochastic gradient descent, with momentum and Nesterov's look ahead.

Knows only how to chain what `gradients.py` offers.
"""

from __future__ import annotations

from typing import Any

from functad.errors import ArgumentError
from functad.optim.gradients import scale_by_learning_rate, trace
from functad.optim.optimizer import Optimizer, chain, check_number
from functad.optim.schedules import StepSizes


def sgd(
    learning_rate: float | StepSizes,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> Optimizer:
    """Stochastic gradient descent.

    Args:
        learning_rate: a number, or a function of the step number (see the schedules).
        momentum: how much of the velocity is kept at each step, usually 0.9; None for none.
        nesterov: look ahead along the velocity (Sutskever et al. 2013); needs momentum.
        accumulator_dtype: in which the velocity is kept; None: in the dtype of the params.

    Raises:
        ArgumentError: the learning rate is no number of at least 0, the momentum none of 0 to 1, or nesterov is asked
            for without momentum.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = sgd(0.5, momentum=0.5)
    >>> x = jnp.array(1.)
    >>> state = optimizer.init(x)
    >>> for _ in range(2):
    ...     update, state = optimizer.update(jnp.array(1.), state)
    ...     x = optim.apply_updates(x, update)
    >>> x
    Array(-0.25, dtype=float32)
    """
    if nesterov and momentum is None:
        raise ArgumentError("sgd: nesterov=True needs a momentum, such as sgd(0.1, momentum=0.9, nesterov=True)")
    if not callable(learning_rate):
        check_number(learning_rate, "sgd: learning_rate", low=0.0)
    if momentum is not None:
        check_number(momentum, "sgd: momentum", low=0.0, high=1.0)
    downhill = scale_by_learning_rate(learning_rate)
    return chain(downhill) if momentum is None else chain(trace(momentum, nesterov, accumulator_dtype), downhill)
