"""Adam, and Adam with decoupled weight decay.

Knows only how to chain what `gradients.py` and `adaptive.py` offer.
"""

from __future__ import annotations

from typing import Any

from functad.optim.adaptive import scale_by_adam
from functad.optim.gradients import scale_by_learning_rate
from functad.optim.masking import add_decayed_weights
from functad.optim.optimizer import Optimizer, chain
from functad.optim.schedules import StepSizes


def adam(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam (Kingma & Ba 2015): steps of about the learning rate for every element, whatever its gradients' size.

    Args:
        learning_rate: a number, or a function of the step number (see the schedules).
        b1: how much of the mean of the gradients is kept at each step.
        b2: how much of the mean of their squares is kept.
        eps: added to the root, against division by zero.
        eps_root: added under the root, so that its derivative exists.
        mu_dtype: the dtype in which the mean of the gradients is stored; by default that of the params.
        nesterov: look ahead along the mean of the gradients (Dozat 2016).

    Raises:
        ArgumentError: a number that makes no sense, such as a negative learning rate or a b1 above 1.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = adam(0.25)
    >>> x = jnp.array([1., -1.])
    >>> update, state = optimizer.update(jnp.array([100., -10.]), optimizer.init(x))
    >>> optim.apply_updates(x, update)
    Array([ 0.75, -0.75], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


def adamw(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019): weights shrink by their own size.

    Args:
        weight_decay: how much of the params, times the learning rate, is taken off at each step.
        mask: of which params, such as `by_path(lambda path: "bias" not in path)`; see `masked`.

    The other arguments are those of `adam`. `update` needs the params.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = adamw(0.5, weight_decay=0.5)
    >>> x = jnp.array(8.)
    >>> update, state = optimizer.update(jnp.array(0.), optimizer.init(x), x)
    >>> optim.apply_updates(x, update)
    Array(6., dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
