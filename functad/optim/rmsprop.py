"""RMSProp and Adagrad: gradients over the root of what was seen of their squares, lately or ever.

Knows only how to chain what `gradients.py` and `adaptive.py` offer.
"""

from __future__ import annotations

from functad.errors import ArgumentError
from functad.optim.adaptive import scale_by_rms, scale_by_rss, scale_by_stddev
from functad.optim.gradients import scale_by_learning_rate, trace
from functad.optim.optimizer import Optimizer, chain
from functad.optim.schedules import StepSizes


def rmsprop(
    learning_rate: float | StepSizes,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Optimizer:
    """RMSProp (Tieleman & Hinton 2012).

    Args:
        learning_rate: a number, or a function of the step number (see the schedules).
        decay: how much of the mean of the gradients' squares is kept at each step.
        eps: added against division by zero.
        initial_scale: what the mean of the squares starts from.
        eps_in_sqrt: whether eps is added under the root, or to the root.
        centered: divide by the standard deviation of the gradients (Graves 2013), not by their root mean square.
        momentum: how much of the velocity is kept at each step; None for none.
        nesterov: look ahead along the velocity; needs momentum.
        bias_correction: whether means over the first steps make up for having started from zero.

    Raises:
        ArgumentError: a number that makes no sense, or nesterov is asked for without momentum.

    >>> import functad.numpy as jnp
    >>> optimizer = rmsprop(0.25, decay=0.75)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0]
    Array([-0.5,  0.5], dtype=float32)
    """
    if nesterov and momentum is None:
        raise ArgumentError(
            "rmsprop: nesterov=True needs a momentum, such as rmsprop(0.1, momentum=0.9, nesterov=True)"
        )
    adaptive = scale_by_stddev if centered else scale_by_rms
    links = [adaptive(decay, eps, initial_scale, eps_in_sqrt, bias_correction), scale_by_learning_rate(learning_rate)]
    return chain(*links) if momentum is None else chain(*links, trace(momentum, nesterov))


def adagrad(learning_rate: float | StepSizes, initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> Optimizer:
    """Adagrad (Duchi, Hazan & Singer 2011): the more gradients an element has had, the smaller its steps.

    Args:
        learning_rate: a number, or a function of the step number (see the schedules).
        initial_accumulator_value: what the sum of the squares starts from.
        eps: added under the root, against division by zero.

    Raises:
        ArgumentError: a number that makes no sense, such as a negative learning rate.

    >>> import functad.numpy as jnp
    >>> optimizer = adagrad(0.5, initial_accumulator_value=0.)
    >>> state = optimizer.init(jnp.zeros(1))
    >>> for _ in range(4):
    ...     update, state = optimizer.update(jnp.ones(1), state)
    >>> update
    Array([-0.25], dtype=float32)
    """
    return chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate))
