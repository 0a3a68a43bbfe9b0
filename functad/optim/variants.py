"""The relatives of Adam and Adagrad, ready to use.

Knows only how to chain the links of other files.
"""

from __future__ import annotations

from typing import Any

from functad.optim.adam import adam, adamw
from functad.optim.adaptive import scale_by_adam
from functad.optim.gradients import scale_by_learning_rate
from functad.optim.masking import add_decayed_weights
from functad.optim.moments import (
    scale_by_adadelta,
    scale_by_adamax,
    scale_by_amsgrad,
    scale_by_lion,
    scale_by_radam,
    scale_by_trust_ratio,
    scale_by_yogi,
)
from functad.optim.optimizer import Optimizer, chain
from functad.optim.schedules import StepSizes


def nadam(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
) -> Optimizer:
    """Adam that looks ahead along the mean of the gradients (Dozat 2016); see `adam` for the arguments.

    >>> from functad import numpy as jnp
    >>> optimizer = nadam(0.25)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0].round(3)
    Array([-0.368,  0.368], dtype=float32)
    """
    return adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)


def nadamw(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = True,
) -> Optimizer:
    """`nadam` with decoupled weight decay; see `adamw` for the arguments.

    >>> from functad import numpy as jnp
    >>> optimizer, x = nadamw(0.5, weight_decay=0.5), jnp.array(8.)
    >>> optimizer.update(jnp.array(0.), optimizer.init(x), x)[0]
    Array(-2., dtype=float32)
    """
    return adamw(learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov=nesterov)


def amsgrad(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> Optimizer:
    """AMSGrad (Reddi, Kale & Kumar 2018): Adam that divides by the largest mean of squares so far.

    The arguments are those of `adam`. Means make up for having started from zero, those of squares before their maximum
    is taken; with `bias_correction_mu=False` and `bias_correction_nu=False` they do not, as in the paper. PyTorch takes
    the maximum of means that do not, and makes up for it afterwards.

    >>> from functad import numpy as jnp
    >>> optimizer = amsgrad(0.25)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0].round(3)
    Array([-0.25,  0.25], dtype=float32)
    """
    link = scale_by_amsgrad(
        b1, b2, eps, eps_root, mu_dtype, bias_correction_mu=bias_correction_mu, bias_correction_nu=bias_correction_nu
    )
    return chain(link, scale_by_learning_rate(learning_rate))


def adamax(learning_rate: float | StepSizes, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adamax (Kingma & Ba 2015): Adam that divides by a maximum of sizes, which fades by `b2` a step.

    The arguments are those of `adam`.

    >>> from functad import numpy as jnp
    >>> optimizer = adamax(0.25)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0]
    Array([-0.25,  0.25], dtype=float32)
    """
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def yogi(learning_rate: float | StepSizes, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3) -> Optimizer:
    """Yogi (Zaheer et al. 2018): Adam whose mean of squares moves by steps of bounded size.

    The arguments are those of `adam`.

    >>> from functad import numpy as jnp
    >>> optimizer = yogi(0.25)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0].round(3)
    Array([-0.25,  0.25], dtype=float32)
    """
    return chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def radam(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """RAdam (Liu et al. 2020): Adam that goes along the mean of the gradients until the mean of squares is reliable.

    The arguments are those of `adam`; `threshold` is of how many gradients that mean must stand for.

    >>> from functad import numpy as jnp
    >>> optimizer = radam(0.25)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(jnp.zeros(2)))[0]
    Array([-25. ,   2.5], dtype=float32)
    """
    link = scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov)
    return chain(link, scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    weight_decay: float = 1e-3,
    mask: Any = None,
) -> Optimizer:
    """Lion (Chen et al. 2023): steps of the learning rate along the sign of a mean of the gradients.

    Args:
        learning_rate: a number, or a function of the step number; a tenth of what Adam takes is usual.
        b1: how much of the mean goes into the step.
        b2: how much of the mean is kept at each step.
        mu_dtype: in which the mean is kept; None: in the dtype of the params.
        weight_decay: how much of the params, times the learning rate, is taken off at each step.
        mask: which params; see `masked`.

    `update` needs the params.

    >>> from functad import numpy as jnp
    >>> optimizer, x = lion(0.25, weight_decay=0.), jnp.zeros(2)
    >>> optimizer.update(jnp.array([100., -10.]), optimizer.init(x), x)[0]
    Array([-0.25,  0.25], dtype=float32)
    """
    return chain(
        scale_by_lion(b1, b2, mu_dtype), add_decayed_weights(weight_decay, mask), scale_by_learning_rate(learning_rate)
    )


def lamb(
    learning_rate: float | StepSizes,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mask: Any = None,
) -> Optimizer:
    """LAMB (You et al. 2020): Adam whose step for each array is as long as the array, for large batches.

    The arguments are those of `adamw`. `update` needs the params.

    >>> from functad import numpy as jnp
    >>> optimizer, x = lamb(0.5), jnp.array([3., 4.])
    >>> optimizer.update(jnp.array([100., 0.]), optimizer.init(x), x)[0]
    Array([-2.5, -0. ], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def adadelta(
    learning_rate: float | StepSizes = 1.0,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    weight_decay_mask: Any = None,
) -> Optimizer:
    """Adadelta (Zeiler 2012): steps in the units of the params, of a size found from those before.

    Args:
        learning_rate: a factor, or a function of the step number.
        rho: how much of the means of squares is kept at each step.
        eps: added under both roots.
        weight_decay: how much of the params is taken off, times the learning rate, at each step.
        weight_decay_mask: of which; see `masked`.

    >>> from functad import numpy as jnp
    >>> optimizer, x = adadelta(eps=1e-2), jnp.zeros(2)
    >>> optimizer.update(jnp.array([5., -40.]), optimizer.init(x), x)[0].round(3)
    Array([-0.316,  0.316], dtype=float32)
    """
    decay = [add_decayed_weights(weight_decay, weight_decay_mask)] if weight_decay else []
    return chain(*decay, scale_by_adadelta(rho, eps), scale_by_learning_rate(learning_rate))
