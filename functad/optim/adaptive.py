"""Steps of a size of their own for every element: gradients scaled by running means of their squares.

Sizes of gradients and what is divided by them are float32 at least, updates of the dtype of the gradients.

Knows pytrees of arrays; each function makes one link for `chain`.
"""

from __future__ import annotations

import math
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.calls.compound import compound
from functad.numpy.promotion import widened
from functad.optim.gradients import cast_leaves, check_state, square
from functad.optim.optimizer import Optimizer, check_number, map_leaves
from functad.records import NamedTuple
from functad.tree_util import tree_map


class ScaleByAdamState(NamedTuple):
    """How many steps were made, an int32 scalar; the means of gradients and of their squares, like the params."""

    count: Any
    mu: Any
    nu: Any


class ScaleByRmsState(NamedTuple):
    """How many steps were made, an int32 scalar; the mean of the squares of gradients, like the params."""

    count: Any
    nu: Any


class ScaleByStddevState(NamedTuple):
    """How many steps were made, an int32 scalar; the means of gradients and of their squares, like the params."""

    count: Any
    mu: Any
    nu: Any


class ScaleByRssState(NamedTuple):
    """The sum of the squares of all gradients, like the params."""

    sum_of_squares: Any


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """The mean of the gradients over the root of the mean of their squares; see `adam` for the arguments.

    >>> import functad.numpy as jnp
    >>> adaptive = scale_by_adam()
    >>> adaptive.update(jnp.array([5., -40.]), adaptive.init(jnp.zeros(2)))[0]
    Array([ 1., -1.], dtype=float32)
    """
    check_means("scale_by_adam", b1, b2, eps, eps_root)

    def init(params: Any) -> ScaleByAdamState:
        mu = tree_map(lambda p: jnp.zeros_like(p, dtype=mu_dtype), params)
        return ScaleByAdamState(jnp.zeros((), jnp.int32), mu, tree_map(zero_squares, params))

    def update(grads: Any, state: ScaleByAdamState, params: Any = None) -> tuple[Any, ScaleByAdamState]:
        check_state(state, ScaleByAdamState, "scale_by_adam")
        mu = faded_means(b1, state.mu, grads)
        nu = faded_squares(b2, state.nu, grads)
        count = state.count + 1
        updates = tree_map(lambda m, n, g: _adam(m, n, g, count, b1, b2, eps, eps_root, nesterov), mu, nu, grads)
        return updates, ScaleByAdamState(count, cast_leaves(mu, mu_dtype), nu)

    return Optimizer(init, update)


def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> Optimizer:
    """The gradients over the root of the mean of their squares; see `rmsprop` for the arguments.

    >>> import functad.numpy as jnp
    >>> adaptive = scale_by_rms(decay=0.75)
    >>> adaptive.update(jnp.array([5., -50.]), adaptive.init(jnp.zeros(2)))[0]
    Array([ 2., -2.], dtype=float32)
    """
    _check_mean_of_squares("scale_by_rms", decay, eps, initial_scale)

    def init(params: Any) -> ScaleByRmsState:
        return ScaleByRmsState(jnp.zeros((), jnp.int32), tree_map(lambda p: zero_squares(p) + initial_scale, params))

    def update(grads: Any, state: ScaleByRmsState, params: Any = None) -> tuple[Any, ScaleByRmsState]:
        check_state(state, ScaleByRmsState, "scale_by_rms")
        nu = faded_squares(decay, state.nu, grads)
        count = state.count + 1

        def direction(n: Any, g: Any) -> Any:
            if bias_correction:
                n = n * correction(decay, count, n)
            return _over_root(g, n, eps, eps_in_sqrt)

        return tree_map(direction, nu, grads), ScaleByRmsState(count, nu)

    return Optimizer(init, update)


def scale_by_stddev(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> Optimizer:
    """The gradients over their standard deviation; see `rmsprop` for the arguments.

    >>> import functad.numpy as jnp
    >>> adaptive = scale_by_stddev(decay=0.5)
    >>> adaptive.update(jnp.array([5., -50.]), adaptive.init(jnp.zeros(2)))[0]
    Array([ 2., -2.], dtype=float32)
    """
    _check_mean_of_squares("scale_by_stddev", decay, eps, initial_scale)

    def init(params: Any) -> ScaleByStddevState:
        nu = tree_map(lambda p: zero_squares(p) + initial_scale, params)
        return ScaleByStddevState(jnp.zeros((), jnp.int32), tree_map(jnp.zeros_like, params), nu)

    def update(grads: Any, state: ScaleByStddevState, params: Any = None) -> tuple[Any, ScaleByStddevState]:
        check_state(state, ScaleByStddevState, "scale_by_stddev")
        mu = faded_means(decay, state.mu, grads)
        nu = faded_squares(decay, state.nu, grads)
        count = state.count + 1

        def direction(m: Any, n: Any, g: Any) -> Any:
            if bias_correction:
                factor = correction(decay, count, n)
                m, n = m * factor, n * factor
            # Of equal gradients the variance is 0, but for rounding.
            return _over_root(g, jnp.maximum(n - square(m), 0), eps, eps_in_sqrt)

        return tree_map(direction, mu, nu, grads), ScaleByStddevState(count, mu, nu)

    return Optimizer(init, update)


def scale_by_rss(initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> Optimizer:
    """The gradients over the root of the sum of all their squares; see `adagrad` for the arguments.

    >>> import functad.numpy as jnp
    >>> adaptive = scale_by_rss(initial_accumulator_value=0.)
    >>> adaptive.update(jnp.array([5., 0.]), adaptive.init(jnp.zeros(2)))[0]
    Array([1., 0.], dtype=float32)
    """
    check_number(initial_accumulator_value, "scale_by_rss: initial_accumulator_value", low=0.0)
    check_number(eps, "scale_by_rss: eps", low=0.0)

    def init(params: Any) -> ScaleByRssState:
        return ScaleByRssState(tree_map(lambda p: zero_squares(p) + initial_accumulator_value, params))

    def update(grads: Any, state: ScaleByRssState, params: Any = None) -> tuple[Any, ScaleByRssState]:
        check_state(state, ScaleByRssState, "scale_by_rss")
        total = map_leaves(lambda s, g: s + square(g), state=state.sum_of_squares, gradients=grads)

        def direction(s: Any, g: Any) -> Any:
            seen = s > 0
            # Where no gradient has ever been, the root of 1 stands in: without eps it would be 0 / 0.
            return jnp.where(seen, g / jnp.sqrt(jnp.where(seen, s + eps, 1)), 0).astype(jnp.result_type(g))

        return tree_map(direction, total, grads), ScaleByRssState(total)

    return Optimizer(init, update)


# --- means of which each step keeps a part -------------------------------------------------------------


def faded_means(decay: Any, means: Any, grads: Any) -> Any:
    """The running means of gradients after another step."""
    return map_leaves(lambda m, g: _mean(decay, m, g), state=means, gradients=grads)


def faded_squares(decay: Any, means: Any, grads: Any) -> Any:
    """The running means of the squares of gradients after another step."""
    return map_leaves(lambda n, g: _mean_of_squares(decay, n, g), state=means, gradients=grads)


# --- what is done to each leaf ------------------------------------------------------------------------


@compound
def _mean(decay: Any, mean: Any, g: Any) -> Any:
    return decay * mean + (1 - decay) * g


@compound
def _mean_of_squares(decay: Any, mean: Any, g: Any) -> Any:
    return decay * mean + (1 - decay) * square(g)


@compound
def _adam(m: Any, n: Any, g: Any, count: Any, b1: Any, b2: Any, eps: Any, eps_root: Any, nesterov: bool) -> Any:
    """The step of a leaf of which m and n are the means of gradients and of their squares."""
    dtype = m.dtype
    if nesterov:
        # Looks one step ahead: what the mean would be if the next gradient were this one.
        m = b1 * m * correction(b1, count + 1, n) + (1 - b1) * g * correction(b1, count, n)
    else:
        m = m * correction(b1, count, n)
    return (m / (jnp.sqrt(n * correction(b2, count, n) + eps_root) + eps)).astype(dtype)


@compound
def _over_root(g: Any, n: Any, eps: Any, eps_in_sqrt: bool) -> Any:
    root = jnp.sqrt(n + eps) if eps_in_sqrt else jnp.sqrt(n) + eps
    return (g / root).astype(jnp.result_type(g))


def _check_mean_of_squares(name: str, decay: Any, eps: Any, initial_scale: Any) -> None:
    check_number(decay, f"{name}: decay", low=0.0, high=1.0)
    check_number(eps, f"{name}: eps", low=0.0)
    check_number(initial_scale, f"{name}: initial_scale", low=0.0)


def check_means(name: str, b1: Any, b2: Any, eps: Any, eps_root: Any) -> None:
    """Raise unless the numbers of an optimizer that keeps two means make sense."""
    for argument, value in (("b1", b1), ("b2", b2)):
        check_number(value, f"{name}: {argument}", low=0.0, high=1.0)
    for argument, value in (("eps", eps), ("eps_root", eps_root)):
        check_number(value, f"{name}: {argument}", low=0.0)


def zero_squares(param: Any) -> Any:
    """Zeros for the squares of the magnitudes of a param."""
    return jnp.zeros_like(widened(jnp.real(param)))


@compound
def correction(decay: Any, count: Any, like: Any) -> Any:
    """The factor that makes a mean from zeros unbiased after `count` steps, in the dtype of `like`.

    1 / (1 - decay^count), without the cancellation that costs float32 five digits when decay is nearly 1.
    """
    dtype = jnp.promote_types(like.dtype, jnp.float32)
    if isinstance(decay, Array):
        log_decay: Any = jnp.log(jnp.asarray(decay, dtype))
    else:
        log_decay = math.log(decay) if decay > 0 else -math.inf
    return (-1 / jnp.expm1(log_decay * count.astype(dtype))).astype(like.dtype)
