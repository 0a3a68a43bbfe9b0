"""Learning rates that change: functions of the step number, with optax's names.

Knows numbers only. A schedule takes a step, an int or a traced int32, counted from 0, and gives a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from functad import numpy as jnp
from functad.errors import ArgumentError

StepSizes = Callable[[Any], Any]


def constant_schedule(value: float) -> StepSizes:
    """The same value at every step.

    >>> constant_schedule(0.5)(7)
    0.5
    """
    return lambda step: value


def linear_schedule(init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0) -> StepSizes:
    """From one value to another in a straight line.

    Args:
        init_value: until `transition_begin`.
        end_value: from `transition_begin + transition_steps` on.
        transition_steps: how many steps the line takes, at least 1.
        transition_begin: where it begins.

    >>> rate = linear_schedule(1., 0., 4)
    >>> [float(rate(step)) for step in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """
    _check_steps(transition_steps, "linear_schedule", "transition_steps")

    def schedule(step: Any) -> Any:
        share = jnp.clip((step - transition_begin) / transition_steps, 0.0, 1.0)
        # Exact at both ends, and constant between equal ones.
        return jnp.where(share < 1.0, init_value + (end_value - init_value) * share, end_value)

    return schedule


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> StepSizes:
    """`init_value * decay_rate ** (step / transition_steps)`.

    Args:
        init_value: until `transition_begin`.
        transition_steps: how many steps multiply by `decay_rate`, at least 1.
        decay_rate: the factor, more than 0.
        transition_begin: where the decay begins.
        staircase: fall only every `transition_steps` steps.
        end_value: where the decay stops.

    >>> rate = exponential_decay(1., 2, 0.25)
    >>> [float(rate(step)) for step in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    _check_steps(transition_steps, "exponential_decay", "transition_steps")
    if decay_rate <= 0:
        raise ArgumentError(f"exponential_decay: decay_rate={decay_rate} must be more than 0")

    def schedule(step: Any) -> Any:
        exponent = jnp.maximum((step - transition_begin) / transition_steps, 0.0)
        value = init_value * jnp.power(decay_rate, jnp.floor(exponent) if staircase else exponent)
        if end_value is None:
            return value
        return jnp.maximum(value, end_value) if decay_rate < 1 else jnp.minimum(value, end_value)

    return schedule


def cosine_decay_schedule(init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0) -> StepSizes:
    """Down along half a cosine to `alpha * init_value` (Loshchilov and Hutter 2017, equation 5).

    >>> rate = cosine_decay_schedule(1., 4)
    >>> [round(float(rate(step)), 3) for step in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """
    _check_steps(decay_steps, "cosine_decay_schedule", "decay_steps")

    def schedule(step: Any) -> Any:
        share = jnp.clip(step / decay_steps, 0.0, 1.0)
        height = (0.5 * (1.0 + jnp.cos(jnp.pi * share))) ** exponent
        return init_value * (height + alpha * (1.0 - height))  # exact at both ends

    return schedule


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> StepSizes:
    """Multiplied by a factor at each boundary.

    Args:
        init_value: before the first boundary.
        boundaries_and_scales: step number → factor from that step on.

    >>> rate = piecewise_constant_schedule(1., {2: 0.5, 3: 0.1})
    >>> [round(float(rate(step)), 3) for step in range(4)]
    [1.0, 1.0, 0.5, 0.05]
    """
    factors = dict(boundaries_and_scales or {})

    def schedule(step: Any) -> Any:
        value = jnp.asarray(init_value, jnp.float32)
        for boundary, factor in sorted(factors.items()):
            value = jnp.where(step >= boundary, value * factor, value)
        return value

    return schedule


def join_schedules(schedules: Sequence[StepSizes], boundaries: Sequence[int]) -> StepSizes:
    """Schedules one after another, each counting from its own first step.

    Args:
        schedules: at least one.
        boundaries: the steps at which the second, the third, … begins.

    >>> rate = join_schedules([linear_schedule(0., 1., 2), constant_schedule(1.)], [2])
    >>> [float(rate(step)) for step in range(4)]
    [0.0, 0.5, 1.0, 1.0]
    """
    if len(schedules) != len(boundaries) + 1:
        raise ArgumentError(
            f"join_schedules: {len(schedules)} schedules need {max(len(schedules) - 1, 0)} boundaries, "
            f"got {len(boundaries)}"
        )

    def schedule(step: Any) -> Any:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = jnp.where(step < boundary, value, later(step - boundary))
        return value

    return schedule


def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> StepSizes:
    """Up in a straight line, then constant.

    >>> rate = warmup_constant_schedule(0., 1., 2)
    >>> [float(rate(step)) for step in range(4)]
    [0.0, 0.5, 1.0, 1.0]
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_linear_decay_schedule(
    init_value: float, peak_value: float, warmup_steps: int, decay_steps: int, end_value: float = 0.0
) -> StepSizes:
    """Up in a straight line, then down in one.

    Args:
        init_value: at step 0.
        peak_value: at step `warmup_steps`.
        warmup_steps: how long it rises, at least 1.
        decay_steps: how long it takes in all, rise included.
        end_value: at step `decay_steps` and later.

    >>> rate = warmup_linear_decay_schedule(0., 1., 2, 4)
    >>> [float(rate(step)) for step in range(6)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """
    falling = decay_steps - warmup_steps
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            linear_schedule(peak_value, end_value, falling),
        ],
        [warmup_steps],
    )


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> StepSizes:
    """Up in a straight line, then down along half a cosine.

    Args:
        init_value: at step 0.
        peak_value: at step `warmup_steps`, not 0.
        warmup_steps: how long it rises, at least 1.
        decay_steps: how long it takes in all, rise included.
        end_value: at step `decay_steps` and later.
        exponent: the power of the cosine's height.

    >>> rate = warmup_cosine_decay_schedule(0., 1., 2, 4)
    >>> [round(float(rate(step)), 3) for step in range(6)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """
    falling = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, end_value / peak_value, exponent)
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), falling], [warmup_steps])


def _check_steps(steps: int, name: str, argument: str) -> None:
    if steps < 1:
        raise ArgumentError(f"{name}: {argument}={steps} must be at least 1")
