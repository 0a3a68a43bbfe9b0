"""Means over steps: of gradients, of updates and of params; and what to do about steps that overflow.

Knows pytrees and optimizers as pairs of functions.
"""

from __future__ import annotations

from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.errors import ArgumentError, check_int
from functad.numpy.promotion import widened
from functad.optim.adaptive import correction, faded_means
from functad.optim.gradients import cast_leaves, check_state, zeros_for
from functad.optim.optimizer import Optimizer, check_number, check_optimizer, map_leaves
from functad.records import NamedTuple
from functad.tree_util import tree_leaves, tree_map


class EmaState(NamedTuple):
    """How many updates were seen, an int32 scalar; their mean, like the params."""

    count: Any
    ema: Any


class MultiStepsState(NamedTuple):
    """How many gradients of the next step there are, an int32 scalar; the state; what these gradients come to."""

    mini_step: Any
    inner_opt_state: Any
    acc_grads: Any


class ApplyIfFiniteState(NamedTuple):
    """How many steps in turn, and in all, were left out, int32 scalars; the state."""

    notfinite_count: Any
    total_notfinite: Any
    inner_state: Any


class Average(NamedTuple):
    """A mean of params over steps: `params`, floats of 16 bits as float32; and over how many it goes, int32 scalar."""

    count: Any
    params: Any


class LossScale(NamedTuple):
    """What a loss of float16 is multiplied by before its gradient is taken: float32; and the steps since it changed."""

    scale: Any
    steps: Any


def ema(decay: float, debias: bool = True, accumulator_dtype: Any = None) -> Optimizer:
    """The exponential mean of the updates so far.

    Args:
        decay: how much of the mean is kept at each step.
        debias: make up for having started from zero.
        accumulator_dtype: in which the mean is kept; None: in that of the params.

    >>> import functad.numpy as jnp
    >>> link = ema(0.5)
    >>> state = link.init(jnp.zeros(1))
    >>> for update in (1.0, 4.0):
    ...     mean, state = link.update(jnp.array([update]), state)
    >>> mean
    Array([3.], dtype=float32)
    """
    check_number(decay, "ema: decay", low=0.0, high=1.0)

    def init(params: Any) -> EmaState:
        return EmaState(jnp.zeros((), "int32"), zeros_for(params, accumulator_dtype))

    def update(grads: Any, state: EmaState, params: Any = None) -> tuple[Any, EmaState]:
        check_state(state, EmaState, "ema")
        mean = faded_means(decay, state.ema, grads)
        count = state.count + 1
        updates = tree_map(lambda m: m * correction(decay, count, m), mean) if debias else mean
        return updates, EmaState(count, cast_leaves(mean, accumulator_dtype))

    return Optimizer(init, update)


def MultiSteps(
    opt: Optimizer, every_k_schedule: int, use_grad_mean: bool = True, *, accumulator_dtype: Any = None
) -> Optimizer:
    """One step of an optimizer for the gradients of several batches together: as of one larger batch.

    Between these steps updates are zero.

    Args:
        opt: the optimizer.
        every_k_schedule: how many batches there are to a step.
        use_grad_mean: take the mean of their gradients; else the sum.
        accumulator_dtype: in which that is kept; None: in the dtype of the params.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = MultiSteps(optim.sgd(1.), 2)
    >>> state = optimizer.init(jnp.zeros(1))
    >>> for g in (1.0, 3.0):
    ...     update, state = optimizer.update(jnp.array([g]), state)
    ...     print(update)
    [-0.]
    [-2.]
    """
    check_optimizer(opt, "MultiSteps: opt")
    every_k_schedule = check_int(every_k_schedule, "MultiSteps: every_k_schedule", low=1)

    def init(params: Any) -> MultiStepsState:
        return MultiStepsState(jnp.zeros((), "int32"), opt.init(params), zeros_for(params, accumulator_dtype))

    def update(grads: Any, state: MultiStepsState, params: Any = None) -> tuple[Any, MultiStepsState]:
        check_state(state, MultiStepsState, "MultiSteps")
        count = state.mini_step + 1

        def added(total: Any, grad: Any) -> Any:
            return total + (grad - total) / jnp.asarray(count, total.dtype) if use_grad_mean else total + grad

        total = map_leaves(added, state=state.acc_grads, gradients=grads)
        given = tree_map(lambda t, g: t.astype(jnp.asarray(g).dtype), total, grads)
        updates, inner = opt.update(given, state.inner_opt_state, params)
        full = count == every_k_schedule
        updates = tree_map(lambda u: jnp.where(full, u, -jnp.zeros_like(u)), updates)
        inner = tree_map(lambda new, old: jnp.where(full, new, old), inner, state.inner_opt_state)
        total = tree_map(lambda t, old: jnp.where(full, 0, t).astype(old.dtype), total, state.acc_grads)
        return updates, MultiStepsState(jnp.where(full, 0, count), inner, total)

    return Optimizer(init, update)


def apply_if_finite(inner: Optimizer, max_consecutive_errors: int) -> Optimizer:
    """An optimizer that leaves out steps whose gradients hold NaN or infinity.

    Args:
        inner: the optimizer.
        max_consecutive_errors: of more such steps in turn the next is made all the same, so that it shows.

    Raises:
        ArgumentError: the first argument is no optimizer, or the second no int of at least 0.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = apply_if_finite(optim.sgd(1.), 3)
    >>> update, state = optimizer.update(jnp.array([jnp.nan]), optimizer.init(jnp.zeros(1)))
    >>> update, state.total_notfinite
    (Array([0.], dtype=float32), Array(1, dtype=int32))
    """
    check_optimizer(inner, "apply_if_finite: inner")
    max_consecutive_errors = check_int(max_consecutive_errors, "apply_if_finite: max_consecutive_errors", low=0)

    def init(params: Any) -> ApplyIfFiniteState:
        zero = jnp.zeros((), "int32")
        return ApplyIfFiniteState(zero, zero, inner.init(params))

    def update(grads: Any, state: ApplyIfFiniteState, params: Any = None) -> tuple[Any, ApplyIfFiniteState]:
        check_state(state, ApplyIfFiniteState, "apply_if_finite")
        finite = all_finite(grads)
        wrong = jnp.where(finite, 0, state.notfinite_count + 1)
        taken = finite | (wrong > max_consecutive_errors)
        # What is left out is zeros: so nothing is computed before it is known whether it is taken, and kept till then.
        grads = tree_map(lambda g: jnp.where(taken, g, jnp.zeros_like(g)), grads)
        updates, inner_state = inner.update(grads, state.inner_state, params)
        updates = tree_map(lambda u: jnp.where(taken, u, jnp.zeros_like(u)), updates)
        inner_state = tree_map(lambda new, old: jnp.where(taken, new, old), inner_state, state.inner_state)
        total = state.total_notfinite + jnp.where(finite, 0, 1)
        return updates, ApplyIfFiniteState(wrong, total, inner_state)

    return Optimizer(init, update)


def all_finite(tree: Any) -> Any:
    """Whether no leaf holds NaN or infinity, a scalar.

    >>> import functad.numpy as jnp
    >>> all_finite([jnp.ones(2), jnp.array(jnp.inf)])
    Array(False, dtype=bool)
    """
    finite = jnp.asarray(True)
    for leaf in tree_leaves(tree):
        finite = finite & jnp.isfinite(leaf).all()
    return finite


def average(params: Any) -> Average:
    """The mean of params over steps (Polyak & Juditsky 1992; Izmailov et al. 2018), before the first.

    That of floats of 16 bits is of float32, in which small shares of a step are not lost.

    >>> import functad.numpy as jnp
    >>> mean = average(jnp.zeros(1))
    >>> for k in (1.0, 2.0, 6.0):
    ...     mean = averaged(mean, jnp.array([k]))
    >>> mean.params
    Array([3.], dtype=float32)
    """
    return Average(jnp.zeros((), "int32"), tree_map(lambda p: jnp.zeros_like(_held(p)), params))


def averaged(mean: Average, params: Any, decay: float | None = None) -> Average:
    """The mean with the params of one more step: that of all alike, or the exponential one if there is a `decay`.

    The first params are taken whole, so that there is no start from zero. Of leaves that are no floats, such as
    counters, the last are kept.

    >>> import functad.numpy as jnp
    >>> mean = averaged(average(jnp.zeros(1)), jnp.array([4.]), decay=0.75)
    >>> averaged(mean, jnp.array([8.]), decay=0.75).params
    Array([5.], dtype=float32)
    """
    _check_made_by(mean, Average, "averaged: the mean", "average(params)")
    if decay is not None:
        check_number(decay, "averaged: decay", low=0.0, high=1.0)
    count = mean.count + 1
    weight = 1 / count.astype("float32")
    if decay is not None:
        weight = jnp.maximum(jnp.where(count == 1, 1.0, 0.0), 1 - decay)

    def nearer(m: Any, p: Any) -> Any:
        p = _held(p)
        return m + (p - m) * weight.astype(m.dtype) if jnp.issubdtype(p.dtype, jnp.inexact) else p

    return Average(count, map_leaves(nearer, mean=mean.params, params=params))


def _held(p: Any) -> Any:
    """A leaf of the params as a mean holds it."""
    p = jnp.asarray(p)
    return widened(p) if jnp.issubdtype(p.dtype, jnp.inexact) else p


def loss_scale(scale: float = 2.0**15) -> LossScale:
    """The first factor of a loss of float16, whose small gradients would vanish (Micikevicius et al. 2018).

    >>> from functad import grad, numpy as jnp
    >>> factor = loss_scale()
    >>> w = jnp.array(1e-6, "float16")
    >>> scaled = grad(lambda w: jnp.square(w) * factor.scale.astype("float16"))(w)
    >>> unscaled(scaled, factor)
    Array(2.026558e-06, dtype=float32)
    """
    check_number(scale, "loss_scale: scale", low=1.0)
    return LossScale(jnp.asarray(scale, "float32"), jnp.zeros((), "int32"))


def unscaled(grads: Any, factor: LossScale) -> Any:
    """Gradients without the factor, in float32 at least.

    >>> import functad.numpy as jnp
    >>> unscaled(jnp.array([8., 16.], "float16"), loss_scale(8.))
    Array([1., 2.], dtype=float32)
    """
    _check_made_by(factor, LossScale, "unscaled: the factor", "loss_scale()")

    def divided(g: Any) -> Any:
        wide = widened(g)
        return wide / factor.scale.astype(wide.dtype)

    return tree_map(divided, grads)


def rescaled(factor: LossScale, grads: Any, period: int = 2000) -> LossScale:
    """The factor for the next step: half where gradients were not finite, double after `period` steps that were.

    It stays between 1 and the largest power of 2 that float32 has.

    Raises:
        ArgumentError: `period` is no int of at least 1.

    >>> import functad.numpy as jnp
    >>> rescaled(loss_scale(8.), jnp.array([jnp.inf])).scale
    Array(4., dtype=float32)
    """
    _check_made_by(factor, LossScale, "rescaled: the factor", "loss_scale()")
    period = check_int(period, "rescaled: period", low=1)
    finite = all_finite(grads)
    steps = jnp.where(finite, factor.steps + 1, 0)
    doubled = jnp.where(factor.scale < 2.0**127, factor.scale * 2, factor.scale)
    grown = jnp.where(steps >= period, doubled, factor.scale)
    scale = lax.select(finite, grown, jnp.maximum(factor.scale / 2, 1.0))
    return LossScale(scale, jnp.where(steps >= period, 0, steps).astype("int32"))


def _check_made_by(value: Any, kind: type, argument: str, made: str) -> None:
    """Raise unless an argument is what a function of this file made; `load` without `like` gives plain tuples."""
    if not isinstance(value, kind):
        raise ArgumentError(
            f"{argument} is of type {type(value).__name__}, not {kind.__name__}; begin with optim.{made}, and load one "
            "with functad.io.load(path, like=...)"
        )
