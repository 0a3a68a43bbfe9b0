"""Links beyond Adam's: other means of gradients and of their sizes.

Knows pytrees of arrays; each function makes one link for `chain`.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.errors import ArgumentError
from functad.numpy.promotion import widened
from functad.optim.adaptive import check_means, correction, faded_means, faded_squares, zero_squares
from functad.optim.gradients import cast_leaves, check_state, square, zeros_for
from functad.optim.optimizer import Optimizer, map_leaves
from functad.records import NamedTuple
from functad.tree_util import tree_map


class ScaleByMomentsState(NamedTuple):
    """How many steps were made, an int32 scalar; a mean of the gradients and one of their sizes, like the params."""

    count: Any
    mu: Any
    nu: Any


class ScaleByAmsgradState(NamedTuple):
    """The state of Adam, and the largest mean of squares that each element has had."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


class ScaleByLionState(NamedTuple):
    """How many steps were made, an int32 scalar; the mean of the gradients, like the params."""

    count: Any
    mu: Any


class ScaleByAdaDeltaState(NamedTuple):
    """The means of the squares of gradients and of updates, like the params."""

    e_g: Any
    e_x: Any


def scale_by_amsgrad(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> Optimizer:
    """Adam whose steps never grow again; see `amsgrad` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_amsgrad()
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0]
    Array([ 1., -1.], dtype=float32)
    """
    check_means("scale_by_amsgrad", b1, b2, eps, eps_root)

    def init(params: Any) -> ScaleByAmsgradState:
        zeros = tree_map(zero_squares, params)
        return ScaleByAmsgradState(_no_steps(), zeros_for(params, mu_dtype), zeros, zeros)

    def update(grads: Any, state: ScaleByAmsgradState, params: Any = None) -> tuple[Any, ScaleByAmsgradState]:
        check_state(state, ScaleByAmsgradState, "scale_by_amsgrad")
        mu, nu = faded_means(b1, state.mu, grads), faded_squares(b2, state.nu, grads)
        count = state.count + 1
        unbiased = tree_map(lambda n: n * correction(b2, count, n), nu) if bias_correction_nu else nu
        largest = tree_map(jnp.maximum, state.nu_max, unbiased)

        def direction(m: Any, n: Any) -> Any:
            mean = m * correction(b1, count, n) if bias_correction_mu else m
            return (mean / (jnp.sqrt(n + eps_root) + eps)).astype(m.dtype)

        updates = tree_map(direction, mu, largest)
        return updates, ScaleByAmsgradState(count, cast_leaves(mu, mu_dtype), nu, largest)

    return Optimizer(init, update)


def scale_by_adamax(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """The mean of the gradients over a fading maximum of their sizes; see `adamax` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_adamax()
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0]
    Array([ 1., -1.], dtype=float32)
    """
    check_means("scale_by_adamax", b1, b2, eps, 0.0)

    def update(grads: Any, state: ScaleByMomentsState, params: Any = None) -> tuple[Any, ScaleByMomentsState]:
        check_state(state, ScaleByMomentsState, "scale_by_adamax")
        mu = faded_means(b1, state.mu, grads)
        nu = map_leaves(lambda n, g: jnp.maximum(widened(jnp.abs(g)) + eps, b2 * n), state=state.nu, gradients=grads)
        count = state.count + 1
        updates = tree_map(lambda m, n: (m * correction(b1, count, n) / n).astype(m.dtype), mu, nu)
        return updates, ScaleByMomentsState(count, mu, nu)

    return Optimizer(_moments(0.0), update)


def scale_by_yogi(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> Optimizer:
    """Adam whose mean of squares changes by steps of a bounded size; see `yogi` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_yogi()
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0].round(3)
    Array([ 1., -1.], dtype=float32)
    """
    check_means("scale_by_yogi", b1, b2, eps, eps_root)

    def update(grads: Any, state: ScaleByMomentsState, params: Any = None) -> tuple[Any, ScaleByMomentsState]:
        check_state(state, ScaleByMomentsState, "scale_by_yogi")
        mu = faded_means(b1, state.mu, grads)
        nu = map_leaves(
            lambda n, g: n - (1 - b2) * jnp.sign(n - square(g)) * square(g), state=state.nu, gradients=grads
        )
        count = state.count + 1

        def direction(m: Any, n: Any) -> Any:
            root = jnp.sqrt(n * correction(b2, count, n) + eps_root)
            return (m * correction(b1, count, n) / (root + eps)).astype(m.dtype)

        return tree_map(direction, mu, nu), ScaleByMomentsState(count, mu, nu)

    return Optimizer(_moments(initial_accumulator_value), update)


def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam that waits until its mean of squares is worth something; see `radam` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_radam()
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0]
    Array([  5., -40.], dtype=float32)
    """
    check_means("scale_by_radam", b1, b2, eps, eps_root)
    longest = 2 / (1 - b2) - 1

    def update(grads: Any, state: ScaleByMomentsState, params: Any = None) -> tuple[Any, ScaleByMomentsState]:
        check_state(state, ScaleByMomentsState, "scale_by_radam")
        mu, nu = faded_means(b1, state.mu, grads), faded_squares(b2, state.nu, grads)
        count = state.count + 1

        def direction(m: Any, n: Any, g: Any) -> Any:
            dtype = m.dtype
            if nesterov:
                m = b1 * m * correction(b1, count + 1, n) + (1 - b1) * g * correction(b1, count, n)
            else:
                m = m * correction(b1, count, n)
            # How many gradients the mean of squares stands for (Liu et al., section 3.3); decay^n / (1 - decay^n) is
            # the correction less 1.
            length = longest - 2 * count * (correction(b2, count, n) - 1)
            ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            r = jnp.sqrt(jnp.where(length >= threshold, ratio, 1.0))
            scaled = r * m / (jnp.sqrt(n * correction(b2, count, n) + eps_root) + eps)
            return jnp.where(length >= threshold, scaled, m).astype(dtype)

        return tree_map(direction, mu, nu, grads), ScaleByMomentsState(count, mu, nu)

    return Optimizer(_moments(0.0), update)


def scale_by_lion(b1: float = 0.9, b2: float = 0.99, mu_dtype: Any = None) -> Optimizer:
    """The sign of a mean of the gradients; see `lion` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_lion()
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0]
    Array([ 1., -1.], dtype=float32)
    """
    check_means("scale_by_lion", b1, b2, 0.0, 0.0)

    def init(params: Any) -> ScaleByLionState:
        return ScaleByLionState(_no_steps(), zeros_for(params, mu_dtype))

    def update(grads: Any, state: ScaleByLionState, params: Any = None) -> tuple[Any, ScaleByLionState]:
        check_state(state, ScaleByLionState, "scale_by_lion")
        updates = map_leaves(lambda m, g: jnp.sign(b1 * m + (1 - b1) * g), state=state.mu, gradients=grads)
        return updates, ScaleByLionState(state.count + 1, cast_leaves(faded_means(b2, state.mu, grads), mu_dtype))

    return Optimizer(init, update)


def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> Optimizer:
    """The gradients in the units of the params; see `adadelta` for the arguments.

    >>> import functad.numpy as jnp
    >>> link = scale_by_adadelta(eps=1e-2)
    >>> link.update(jnp.array([5., -40.]), link.init(jnp.zeros(2)))[0].round(3)
    Array([ 0.316, -0.316], dtype=float32)
    """
    check_means("scale_by_adadelta", rho, rho, eps, 0.0)

    def init(params: Any) -> ScaleByAdaDeltaState:
        zeros = tree_map(zero_squares, params)
        return ScaleByAdaDeltaState(zeros, zeros)

    def update(grads: Any, state: ScaleByAdaDeltaState, params: Any = None) -> tuple[Any, ScaleByAdaDeltaState]:
        check_state(state, ScaleByAdaDeltaState, "scale_by_adadelta")
        e_g = faded_squares(rho, state.e_g, grads)

        def direction(g: Any, a: Any, b: Any) -> Any:
            return (jnp.sqrt(b + eps) / jnp.sqrt(a + eps) * g).astype(jnp.result_type(g))

        updates = tree_map(direction, grads, e_g, state.e_x)
        return updates, ScaleByAdaDeltaState(e_g, faded_squares(rho, state.e_x, updates))

    return Optimizer(init, update)


def scale_by_trust_ratio(min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0) -> Optimizer:
    """Makes the update of each array as long as the array itself; see `lamb`.

    Args:
        min_norm: norms are taken to be at least this.
        trust_coefficient: a factor.
        eps: added to the norm of the update.

    Raises:
        ArgumentError: `update` was called without params.

    >>> import functad.numpy as jnp
    >>> scale_by_trust_ratio().update(jnp.array([3., 4.]), (), jnp.array([0., 10.]))[0]
    Array([6., 8.], dtype=float32)
    """

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        if params is None:
            raise ArgumentError("scale_by_trust_ratio needs the params: call update(grads, state, params)")

        def scaled(p: Any, g: Any) -> Any:
            of_param, of_update = (jnp.maximum(jnp.sqrt(jnp.sum(square(x))), min_norm) for x in (p, g))
            ratio = trust_coefficient * of_param / (of_update + eps)
            return g * jnp.where((of_param == 0) | (of_update == 0), 1.0, ratio).astype(g.dtype)

        return map_leaves(scaled, params=params, gradients=grads), state

    return Optimizer(lambda params: (), update)


def _moments(initial_size: float) -> Any:
    def init(params: Any) -> ScaleByMomentsState:
        mu = tree_map(lambda p: jnp.full_like(p, initial_size), params)
        return ScaleByMomentsState(_no_steps(), mu, tree_map(lambda p: zero_squares(p) + initial_size, params))

    return init


def _no_steps() -> Any:
    return jnp.zeros((), "int32")
