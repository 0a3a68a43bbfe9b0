"""Optimizers as pairs of pure functions, links to chain them of, and learning-rate schedules.

Knows the public names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.optim.adam import adam, adamw
from functad.optim.adaptive import scale_by_adam, scale_by_rms, scale_by_rss, scale_by_stddev
from functad.optim.gradients import (
    add_decayed_weights,
    clip,
    clip_by_global_norm,
    global_norm,
    identity,
    scale,
    scale_by_learning_rate,
    scale_by_schedule,
    trace,
)
from functad.optim.optimizer import Optimizer, apply_updates, chain, stateless
from functad.optim.rmsprop import adagrad, rmsprop
from functad.optim.schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    warmup_constant_schedule,
    warmup_cosine_decay_schedule,
    warmup_linear_decay_schedule,
)
from functad.optim.sgd import sgd

__all__ = [
    "Optimizer",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "global_norm",
    "identity",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant_schedule",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "sgd",
    "stateless",
    "trace",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_linear_decay_schedule",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
