"""Optimizers as pairs of pure functions, links to chain them of, and learning-rate schedules.

Knows the public names only.

Args:
    learning_rate: the size of a step, a number or a schedule.
    b1, b2, decay, rho, decay_rate: how slowly running means forget, from 0 to 1.
    eps, eps_root, epsilon: what keeps divisions from 0.
    eps_in_sqrt: add `eps` below the root.
    bias_correction: divide by what running means lack at the start.
    initial_scale, initial_accumulator_value: what the running mean, or sum, begins with.
    mu_dtype: the dtype in which the mean of gradients is kept.
    nesterov: look ahead by one step.
    weight_decay: by what params shrink, in units of the learning rate.
    mask: which params do so, a pytree of booleans or a function that gives one.
    init_value, peak_value: the learning rate at the start and at its peak.
    warmup_steps, decay_steps: how many steps it rises and falls.

Shapes:
    Params are a pytree of arrays of any shapes; gradients, updates and running means have its structure and shapes. A
    schedule takes the number of a step, and gives a number.

Raises:
    ArgumentError: a number out of its range, when the optimizer is made; a state of another optimizer, or no params
        where they are needed, in `update`.
    TreeError: gradients have another structure than the params, in `update`.
    ShapeError: a gradient has another shape than its param, in `update`.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.optim.adam import adam, adamw
from functad.optim.adaptive import scale_by_adam, scale_by_rms, scale_by_rss, scale_by_stddev
from functad.optim.gradients import (
    clip,
    clip_by_global_norm,
    global_norm,
    identity,
    scale,
    scale_by_learning_rate,
    scale_by_schedule,
    trace,
)
from functad.optim.masking import add_decayed_weights, by_path, freeze, masked, multi_transform, set_to_zero
from functad.optim.optimizer import Optimizer, SearchingOptimizer, TableRows, apply_updates, chain, stateless
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
from functad.system.later import elsewhere

if TYPE_CHECKING:
    from functad.optim.averaging import (
        MultiSteps,
        all_finite,
        apply_if_finite,
        average,
        averaged,
        ema,
        loss_scale,
        rescaled,
        unscaled,
    )
    from functad.optim.factored import adafactor, clip_by_block_rms, scale_by_factored_rms, scale_by_param_block_rms
    from functad.optim.least_squares import LeastSquaresResults, levenberg_marquardt
    from functad.optim.moments import (
        scale_by_adadelta,
        scale_by_adamax,
        scale_by_amsgrad,
        scale_by_lion,
        scale_by_radam,
        scale_by_trust_ratio,
        scale_by_yogi,
    )
    from functad.optim.quasi_newton import lbfgs, scale_by_lbfgs, scale_by_zoom_linesearch, value_and_grad_from_state
    from functad.optim.rows import lazy, rows_of
    from functad.optim.variants import adadelta, adamax, amsgrad, lamb, lion, nadam, nadamw, radam, yogi

__all__ = [
    "LeastSquaresResults",
    "MultiSteps",
    "Optimizer",
    "SearchingOptimizer",
    "TableRows",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "add_decayed_weights",
    "all_finite",
    "amsgrad",
    "apply_if_finite",
    "apply_updates",
    "average",
    "averaged",
    "by_path",
    "chain",
    "clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "ema",
    "exponential_decay",
    "freeze",
    "global_norm",
    "identity",
    "join_schedules",
    "lamb",
    "lazy",
    "lbfgs",
    "levenberg_marquardt",
    "linear_schedule",
    "lion",
    "loss_scale",
    "masked",
    "multi_transform",
    "nadam",
    "nadamw",
    "piecewise_constant_schedule",
    "radam",
    "rescaled",
    "rmsprop",
    "rows_of",
    "scale",
    "scale_by_adadelta",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_amsgrad",
    "scale_by_factored_rms",
    "scale_by_lbfgs",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_param_block_rms",
    "scale_by_radam",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "scale_by_trust_ratio",
    "scale_by_yogi",
    "scale_by_zoom_linesearch",
    "set_to_zero",
    "sgd",
    "stateless",
    "trace",
    "unscaled",
    "value_and_grad_from_state",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_linear_decay_schedule",
    "yogi",
]

if not TYPE_CHECKING:
    # They take `lax`, line searches and solvers along, which are more than all that SGD and Adam need.
    _PLACES = {
        "functad.optim.averaging": [
            "MultiSteps", "all_finite", "apply_if_finite", "average", "averaged", "ema", "loss_scale", "rescaled",
            "unscaled",
        ],
        "functad.optim.factored": [
            "adafactor", "clip_by_block_rms", "scale_by_factored_rms", "scale_by_param_block_rms",
        ],
        "functad.optim.least_squares": ["LeastSquaresResults", "levenberg_marquardt"],
        "functad.optim.moments": [
            "scale_by_adadelta", "scale_by_adamax", "scale_by_amsgrad", "scale_by_lion", "scale_by_radam",
            "scale_by_trust_ratio", "scale_by_yogi",
        ],
        "functad.optim.quasi_newton": [
            "lbfgs", "scale_by_lbfgs", "scale_by_zoom_linesearch", "value_and_grad_from_state",
        ],
        "functad.optim.rows": ["lazy", "rows_of"],
        "functad.optim.variants": ["adadelta", "adamax", "amsgrad", "lamb", "lion", "nadam", "nadamw", "radam", "yogi"],
    }  # fmt: skip
    __getattr__ = absent(__name__, found=elsewhere(__name__, _PLACES))


def __dir__() -> list[str]:
    return __all__
