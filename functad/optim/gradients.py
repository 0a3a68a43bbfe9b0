"""What is done to gradients on their way to the params: scaled, clipped, averaged.

Knows pytrees of arrays; each function makes one link for `chain`.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError
from functad.numpy.promotion import widened
from functad.optim.optimizer import Optimizer, check_number, map_leaves, stateless
from functad.optim.schedules import StepSizes
from functad.records import NamedTuple
from functad.tree_util import tree_leaves, tree_map


class ScheduleState(NamedTuple):
    """How many steps were made: an int32 scalar."""

    count: Any


class TraceState(NamedTuple):
    """The velocity, like the params."""

    trace: Any


def identity() -> Optimizer:
    """Leaves the gradients as they are.

    >>> identity().update(2., ())
    (2.0, ())
    """
    return stateless(lambda grads, params: grads)


def scale(step_size: float) -> Optimizer:
    """Multiplies by a number.

    >>> scale(-0.5).update(2., ())
    (-1.0, ())
    """
    check_number(step_size, "scale: step_size")
    return stateless(lambda grads, params: tree_map(lambda g: step_size * g, grads))


def scale_by_schedule(step_size_fn: StepSizes) -> Optimizer:
    """Multiplies by a number that depends on the step.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> halving = scale_by_schedule(optim.exponential_decay(1., 1, 0.5))
    >>> state = halving.init(jnp.array(8.))
    >>> for _ in range(3):
    ...     update, state = halving.update(jnp.array(8.), state)
    >>> update, state
    (Array(2., dtype=float32), ScheduleState(count=Array(3, dtype=int32)))
    """

    def init(params: Any) -> ScheduleState:
        return ScheduleState(jnp.zeros((), jnp.int32))

    def update(grads: Any, state: ScheduleState, params: Any = None) -> tuple[Any, ScheduleState]:
        check_state(state, ScheduleState, "scale_by_schedule")
        factor = step_size_fn(state.count)
        # In the dtype of each gradient, lest a float32 factor widen float16 ones.
        updates = tree_map(lambda g: jnp.asarray(factor, g.dtype) * g, grads)
        return updates, ScheduleState(state.count + 1)

    return Optimizer(init, update)


def scale_by_learning_rate(learning_rate: float | StepSizes, *, flip_sign: bool = True) -> Optimizer:
    """Multiplies by minus the learning rate, a number or a schedule: downhill; uphill with `flip_sign=False`.

    >>> scale_by_learning_rate(0.5).update(2., ())
    (-1.0, ())
    """
    if not callable(learning_rate):
        check_number(learning_rate, "scale_by_learning_rate: learning_rate", low=0.0)
        return scale(-learning_rate if flip_sign else learning_rate)
    schedule = learning_rate
    return scale_by_schedule((lambda step: -schedule(step)) if flip_sign else schedule)


def trace(decay: float, nesterov: bool = False, accumulator_dtype: Any = None) -> Optimizer:
    """Momentum: adds up the gradients, the older the less: `velocity = grads + decay * velocity`.

    Args:
        decay: how much is kept of the velocity at each step.
        nesterov: look ahead: the update is `grads + decay * velocity` with the new velocity (Sutskever et al.
            2013).
        accumulator_dtype: in which the velocity is kept; None: in that of the params.

    >>> import functad.numpy as jnp
    >>> momentum = trace(0.5)
    >>> state = momentum.init(jnp.zeros(1))
    >>> for _ in range(3):
    ...     update, state = momentum.update(jnp.ones(1), state)
    >>> update
    Array([1.75], dtype=float32)
    """

    check_number(decay, "trace: decay", low=0.0, high=1.0)

    def init(params: Any) -> TraceState:
        return TraceState(zeros_for(params, accumulator_dtype))

    def update(grads: Any, state: TraceState, params: Any = None) -> tuple[Any, TraceState]:
        check_state(state, TraceState, "trace")
        # The state has the structure of the params: what departs from it are the gradients.
        velocity = map_leaves(lambda v, g: g + decay * v, state=state.trace, gradients=grads)
        updates = tree_map(lambda g, v: g + decay * v, grads, velocity) if nesterov else velocity
        return updates, TraceState(cast_leaves(velocity, accumulator_dtype))

    return Optimizer(init, update)


def clip(max_delta: float) -> Optimizer:
    """Cuts every element to [-max_delta, max_delta].

    >>> import functad.numpy as jnp
    >>> clip(1.).update(jnp.array([0.5, -3.]), ())[0]
    Array([ 0.5, -1. ], dtype=float32)
    """
    check_number(max_delta, "clip: max_delta", low=0.0)
    return stateless(lambda grads, params: tree_map(lambda g: jnp.clip(g, -max_delta, max_delta), grads))


def clip_by_global_norm(max_norm: float) -> Optimizer:
    """Scales all gradients down together if their common norm is over `max_norm` (Pascanu et al. 2013).

    >>> import functad.numpy as jnp
    >>> clip_by_global_norm(1.).update({"a": jnp.array([3.]), "b": jnp.array([4.])}, ())[0]
    {'a': Array([0.6], dtype=float32), 'b': Array([0.8], dtype=float32)}
    """
    check_number(max_norm, "clip_by_global_norm: max_norm", low=0.0)
    if max_norm <= 0:
        raise ArgumentError(f"clip_by_global_norm: max_norm={max_norm} must be more than 0")

    def cut(grads: Any, params: Any) -> Any:
        norm = global_norm(grads)
        factor = max_norm / jnp.maximum(norm, max_norm)
        return tree_map(lambda g: g * jnp.asarray(factor, g.dtype), grads)

    return stateless(cut)


def global_norm(updates: Any) -> Array:
    """The Euclidean norm of all elements of a pytree together: a scalar.

    >>> import functad.numpy as jnp
    >>> global_norm({"a": jnp.array([3.]), "b": jnp.array([4.])})
    Array(5., dtype=float32)
    """
    return jnp.sqrt(sum((jnp.sum(square(leaf)) for leaf in tree_leaves(updates)), start=jnp.zeros(())))


def square(x: Any) -> Any:
    """The square of the magnitude, in float32 at least: in float16 it overflows from 256 on, and is 0 below 0.0002."""
    x = widened(x)
    if jnp.iscomplexobj(x):
        return jnp.square(jnp.real(x)) + jnp.square(jnp.imag(x))
    return jnp.square(x)


def cast_leaves(tree: Any, dtype: Any) -> Any:
    """The leaves in a dtype; None: as they are."""
    return tree if dtype is None else tree_map(lambda leaf: leaf.astype(dtype), tree)


def zeros_for(params: Any, dtype: Any) -> Any:
    """Zeros like the params, in a dtype; None: in theirs."""
    return tree_map(lambda p: jnp.zeros_like(p, dtype=dtype), params)


def check_state(state: Any, kind: type, name: str) -> None:
    """Raise unless a state is what `init` made; `load` without `like` gives plain tuples."""
    if not isinstance(state, kind):
        raise ArgumentError(
            f"{name}: the state is of type {type(state).__name__}, not {kind.__name__}; use the one that init of this "
            "optimizer made, and functad.io.load(path, like=optimizer.init(params)) to load one"
        )
