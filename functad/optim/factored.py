"""Adafactor: the sizes of a matrix of gradients kept as one number a row and one a column.

Knows pytrees of arrays; each function makes one link for `chain`, or a chain.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.errors import ArgumentError
from functad.optim.adaptive import zero_squares
from functad.optim.averaging import ema
from functad.optim.gradients import check_state, scale, scale_by_schedule, square
from functad.optim.masking import add_decayed_weights
from functad.optim.optimizer import Optimizer, chain, check_number, map_leaves, stateless
from functad.optim.schedules import StepSizes
from functad.records import NamedTuple
from functad.tree_util import tree_flatten, tree_map, tree_unflatten


class FactoredState(NamedTuple):
    """How many steps were made, an int32 scalar; the means of squares of rows, of columns, and of unfactored arrays."""

    count: Any
    v_row: Any
    v_col: Any
    v: Any


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> Optimizer:
    """The gradients over the root of a mean of their squares, of which rows and columns are kept; see `adafactor`.

    >>> import functad.numpy as jnp
    >>> link = scale_by_factored_rms(min_dim_size_to_factor=2)
    >>> params = jnp.zeros((2, 3))
    >>> state = link.init(params)
    >>> state.v_row.shape, state.v_col.shape
    ((2,), (3,))
    """

    def init(params: Any) -> FactoredState:
        def zeros(p: Any) -> tuple[Any, Any, Any]:
            whole, axes = zero_squares(p), _factored_axes(p.shape, factored, min_dim_size_to_factor)
            nothing = jnp.zeros((1,), whole.dtype)
            if axes is None:
                return nothing, nothing, whole
            row, column = (jnp.zeros(_without(p.shape, axis), whole.dtype) for axis in reversed(axes))
            return row, column, nothing

        leaves, structure = tree_flatten(params)
        parts = zip(*map(zeros, leaves)) if leaves else ((), (), ())
        return FactoredState(jnp.zeros((), "int32"), *(tree_unflatten(structure, list(part)) for part in parts))

    def update(grads: Any, state: FactoredState, params: Any = None) -> tuple[Any, FactoredState]:
        check_state(state, FactoredState, "scale_by_factored_rms")
        leaves, structure = tree_flatten(grads)
        kept = [structure.flatten_up_to(part, name="state") for part in state[1:]]
        t = (state.count - step_offset + 1).astype("float32")
        decay = 1 - t**-decay_rate
        found = []
        for g, row, column, whole in zip(leaves, *kept, strict=True):
            axes = _factored_axes(g.shape, factored, min_dim_size_to_factor)
            squares = square(g) + epsilon
            beta = decay.astype(squares.dtype)
            if axes is None:
                whole = beta * whole + (1 - beta) * squares
                found.append(((g / jnp.sqrt(whole)).astype(g.dtype), row, column, whole))
                continue
            smaller, larger = axes
            row = beta * row + (1 - beta) * squares.mean(larger)
            column = beta * column + (1 - beta) * squares.mean(smaller)
            reduced = smaller - 1 if smaller > larger else smaller
            of_row = (row / row.mean(reduced, keepdims=True)) ** -0.5
            u = g * jnp.expand_dims(of_row, larger) * jnp.expand_dims(column**-0.5, smaller)
            found.append((u.astype(g.dtype), row, column, whole))
        parts = zip(*found) if found else ((), (), (), ())
        updates, *new = (tree_unflatten(structure, list(part)) for part in parts)
        return updates, FactoredState(state.count + 1, *new)

    return Optimizer(init, update)


def clip_by_block_rms(threshold: float) -> Optimizer:
    """Scales the update of each array down if the root of its mean square is over a threshold.

    >>> import functad.numpy as jnp
    >>> clip_by_block_rms(1.).update(jnp.array([2., -2.]), ())[0]
    Array([ 1., -1.], dtype=float32)
    """
    check_number(threshold, "clip_by_block_rms: threshold", low=0.0)

    def cut(grads: Any, params: Any) -> Any:
        return tree_map(lambda g: (g / jnp.maximum(1.0, _rms(g) / threshold)).astype(g.dtype), grads)

    return stateless(cut)


def scale_by_param_block_rms(min_scale: float = 1e-3) -> Optimizer:
    """Multiplies the update of each array by the root of the mean square of its params, at least `min_scale`.

    >>> import functad.numpy as jnp
    >>> scale_by_param_block_rms().update(jnp.array([1., -1.]), (), jnp.array([3., 3.]))[0]
    Array([ 3., -3.], dtype=float32)
    """

    def scaled(grads: Any, params: Any) -> Any:
        if params is None:
            raise ArgumentError("scale_by_param_block_rms needs the params: call update(grads, state, params)")
        return map_leaves(
            lambda p, g: (g * jnp.maximum(_rms(p), min_scale)).astype(g.dtype), params=params, gradients=grads
        )

    return stateless(scaled)


def adafactor(
    learning_rate: float | StepSizes | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: Any = "float32",
    weight_decay_rate: float | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: Any = None,
) -> Optimizer:
    """Adafactor (Shazeer & Stern 2018): Adam's idea in the memory of the rows and columns.

    Args:
        learning_rate: a number, or a function of the step number; None for 1, of which the other factors make steps.
        min_dim_size_to_factor: matrices with a smaller side are kept whole.
        decay_rate: how fast the means of squares come to last longer.
        decay_offset: the step to count from.
        multiply_by_parameter_scale: steps in the units of the params.
        clipping_threshold: the most that the root of the mean square of an update may be; None for no limit.
        momentum: how much of the mean of updates is kept; None for none.
        dtype_momentum: in which that mean is kept.
        weight_decay_rate: how much of the params is taken off at each step.
        eps: added to squares.
        factored: whether to factor at all.
        weight_decay_mask: of which params weights decay; see `masked`. None: of all.

    `update` needs the params unless `multiply_by_parameter_scale=False` and there is no weight decay.

    >>> import functad.numpy as jnp
    >>> from functad import optim
    >>> optimizer = adafactor(0.5, min_dim_size_to_factor=2)
    >>> w = jnp.ones((2, 2))
    >>> optimizer.update(jnp.ones((2, 2)), optimizer.init(w), w)[0]
    Array([[-0.5, -0.5],
           [-0.5, -0.5]], dtype=float32)
    """
    links = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        links.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        links.append(scale_by_schedule(learning_rate) if callable(learning_rate) else scale(learning_rate))
    if multiply_by_parameter_scale:
        links.append(scale_by_param_block_rms())
    if momentum is not None:
        links.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        links.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*links, scale(-1.0))


def _factored_axes(shape: tuple[int, ...], factored: bool, smallest: int) -> tuple[int, int] | None:
    """The second largest and the largest axis of an array that is worth it."""
    if not factored or len(shape) < 2:
        return None
    order = np.argsort(shape, kind="stable")
    if shape[order[-2]] < smallest:
        return None
    return int(order[-2]), int(order[-1])


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _rms(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(square(x)) / max(math.prod(x.shape), 1))
