"""`odeint`: initial value problems, by steps that adapt; derivatives by the adjoint equation, run backwards in time.

Knows loops and custom rules. The method is Dormand and Prince's of order 5(4), with its own interpolant of order 4
(Hairer, Nørsett and Wanner 1993, II.4 to II.6); the adjoint is that of Chen et al. 2018, appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import dtypes, lax
from functad import numpy as jnp
from functad.absent import absent
from functad.api import closure_convert, vjp
from functad.api.custom_rules import custom_vjp
from functad.api.mapping import vmap
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.flatten_util import ravel_pytree
from functad.records import NamedTuple
from functad.tree_util import tree_flatten, tree_map, tree_unflatten

__all__ = ["odeint"]

Dynamics = Callable[..., Any]

# --- the method -------------------------------------------------------------------------------------

_NODES = (0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The difference of the solutions of order 5 and 4.
_ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
_DENSE = (
    -12715105075 / 11282082432,
    0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
_SAFETY, _LEAST, _MOST = 0.9, 0.2, 10.0  # how a step's length follows from the last one's


class _Options(NamedTuple):
    rtol: float
    atol: float
    mxstep: float
    hmax: float


class _IntegratorState(NamedTuple):
    """After a step: where it led, the slope there, the next length; where it began, and its interpolant."""

    y: Any
    slope: Any
    t: Any
    length: Any
    t_before: Any
    dense: Any


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = jnp.inf,
    hmax: float = jnp.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args) at the given times.

    Args:
        func: gives the slope, a pytree like `y0`.
        y0: the state at the time t[0]: a pytree of arrays.
        t: times, a vector of floats that increase.
        args: what `func` takes besides: pytrees of arrays. What it closes over is differentiated too.
        rtol, atol: a step's error may be `atol + rtol * |y|`, as the root of the mean square of all elements.
        mxstep: the most steps between two times; where they do not suffice, the result is NaN from there on.
        hmax: the longest step.

    Returns:
        A pytree like `y0`, with the times along a new first axis. It has derivatives in reverse mode.

    Raises:
        ShapeError: the times are no vector.
        DTypeError: they are no floats.

    >>> import functad.numpy as jnp
    >>> odeint(lambda y, t: -y, 1.0, jnp.array([0., 1.])).round(4)
    Array([1.    , 0.3679], dtype=float32)
    """
    times = jnp.asarray(t)
    if times.ndim != 1 or times.size < 1:
        raise ShapeError(f"odeint takes times of shape (k,), got {times.shape}")
    if kind_of(times.dtype) != "f":
        raise DTypeError(f"odeint takes times that are floats, got {times.dtype}")
    args = tree_map(jnp.asarray, args)
    y0 = tree_map(_inexact, y0)
    converted, closed_over = closure_convert(func, y0, times[0], *args)
    flat, unravel = ravel_pytree(y0)

    def dynamics(y: Any, t: Any, *rest: Any) -> Any:
        return ravel_pytree(converted(unravel(y), t, *rest))[0].astype(y.dtype)

    ys = _odeint(dynamics, _Options(rtol, atol, mxstep, hmax), flat, times, (*args, *closed_over))
    return vmap(unravel)(ys)


def _inexact(x: Any) -> Array:
    x = jnp.asarray(x)
    return jnp.asarray(x, dtypes.to_inexact_dtype(x.dtype))


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _odeint(dynamics: Dynamics, options: _Options, y0: Any, times: Any, args: tuple[Any, ...]) -> Array:
    """The states, one a row, at all times."""

    def slope(y: Any, t: Any) -> Any:
        return dynamics(y, t, *args)

    most = math.ceil(min(options.mxstep, np.iinfo(np.int32).max))

    def advance(state: _IntegratorState, target: Any) -> tuple[_IntegratorState, Any]:
        def unfinished(carry: tuple[Any, _IntegratorState]) -> Any:
            count, state = carry
            return (state.t < target) & (count < most) & (state.t + state.length > state.t)

        def step(carry: tuple[Any, _IntegratorState]) -> tuple[Any, _IntegratorState]:
            return carry[0] + 1, _step(slope, options, carry[1])

        _, state = lax.while_loop(unfinished, step, (jnp.asarray(0, "int32"), state))
        return state, jnp.where(state.t >= target, _interpolated(state, target), jnp.nan)

    start = slope(y0, times[0])
    shortest = 4 * jnp.finfo(times.dtype).eps * jnp.abs(times[0])  # a shorter step would not change the time
    length = jnp.maximum(_first_length(slope, options, y0, start, times[0]).astype(times.dtype), shortest)
    length = jnp.minimum(length, options.hmax).astype(times.dtype)
    dense = jnp.stack([y0, *[jnp.zeros_like(y0)] * 4])
    state = _IntegratorState(y0, start, times[0], length, times[0], dense)
    _, ys = lax.scan(advance, state, times[1:])
    return jnp.concatenate([y0[None], ys])


def _step(slope: Dynamics, options: _Options, state: _IntegratorState) -> _IntegratorState:
    """One step; of one whose error is too large only a shorter length remains."""
    y, h = state.y, _real(state.length, state.y)
    slopes = [state.slope]
    for node, weights in zip(_NODES[1:], _STAGES[1:]):
        at = y + h * _weighted(weights, slopes)
        slopes.append(slope(at, state.t + state.length * node))
    # The last stage is the solution, and its slope the first one of the next step.
    allowed = options.atol + options.rtol * jnp.maximum(jnp.abs(y), jnp.abs(at))
    error = _root_mean_square(h * _weighted(_ERROR, slopes) / allowed)
    growth = _SAFETY * jnp.where(error > 0, error, 1.0) ** -0.2
    growth = jnp.where(error > 0, jnp.clip(growth, jnp.where(error < 1, 1.0, _LEAST), _MOST), _MOST)
    growth = jnp.where(jnp.isfinite(error), growth, _LEAST)
    length = jnp.minimum(state.length * growth.astype(state.length.dtype), options.hmax).astype(state.length.dtype)
    moved = at - y
    dense = jnp.stack(
        [
            y,
            moved,
            h * slopes[0] - moved,
            2 * moved - h * (slopes[0] + slopes[-1]),
            h * _weighted(_DENSE, slopes),
        ]
    )
    new = _IntegratorState(at, slopes[-1], state.t + state.length, length, state.t, dense)
    kept = state._replace(length=length)
    return tree_map(lambda a, b: jnp.where(error <= 1, a, b), new, kept)


def _interpolated(state: _IntegratorState, target: Any) -> Any:
    """The state at a time within the last step."""
    width = state.t - state.t_before
    share = _real((target - state.t_before) / jnp.where(width == 0, 1, width), state.y)
    rest, d = 1 - share, state.dense
    return d[0] + share * (d[1] + rest * (d[2] + share * (d[3] + rest * d[4])))


def _first_length(slope: Dynamics, options: _Options, y0: Any, start: Any, t0: Any) -> Any:
    """A length for the first step, from how the slope changes along a tiny one (II.4)."""
    allowed = options.atol + options.rtol * jnp.abs(y0)
    size, steepness = _root_mean_square(y0 / allowed), _root_mean_square(start / allowed)
    is_tiny = (size < 1e-5) | (steepness < 1e-5)
    tiny = jnp.where(is_tiny, 1e-6, 0.01 * size / jnp.where(is_tiny, 1.0, steepness))
    later = slope(y0 + _real(tiny, y0) * start, t0 + tiny.astype(t0.dtype))
    bend = _root_mean_square((later - start) / allowed) / tiny
    largest = jnp.maximum(steepness, bend)
    by_bend = (0.01 / jnp.where(largest > 0, largest, 1.0)) ** 0.2
    return jnp.minimum(100 * tiny, jnp.where(largest > 1e-15, by_bend, jnp.maximum(1e-6, tiny * 1e-3)))


def _weighted(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    return sum(w * s for w, s in zip(weights, slopes) if w)


def _real(x: Any, like: Any) -> Any:
    """A time in the precision of the state."""
    return x.astype(jnp.finfo(like.dtype).dtype)


def _root_mean_square(x: Any) -> Any:
    return jnp.sqrt(jnp.mean(jnp.real(x) ** 2 + jnp.imag(x) ** 2 if kind_of(x.dtype) == "c" else x**2))


# --- the adjoint ------------------------------------------------------------------------------------


def _odeint_fwd(dynamics: Dynamics, options: _Options, y0: Any, times: Any, args: tuple[Any, ...]) -> Any:
    ys = _odeint(dynamics, options, y0, times, args)
    return ys, (ys, times, args)


def _odeint_bwd(dynamics: Dynamics, options: _Options, residuals: Any, cotangents: Any) -> Any:
    ys, times, args = residuals
    leaves, tree = tree_flatten(args)
    smooth = [i for i, x in enumerate(leaves) if kind_of(x.dtype) in "fc"]
    nothing = [jnp.zeros_like(leaves[i]) for i in smooth]
    _, unravel = ravel_pytree((ys[0], ys[0], times[0], nothing))

    def backwards(state: Any, s: Any, *leaves: Any) -> Any:
        """The slopes, at the time −s, of y, of its cotangent a, and of those of the time and of args: −a ∂f."""
        y, a, _, _ = unravel(state)

        def of_smooth(y: Any, t: Any, values: list[Any]) -> Any:
            known = dict(zip(smooth, values))
            return dynamics(y, t, *tree_unflatten(tree, [known.get(i, x) for i, x in enumerate(leaves)]))

        slope, pullback = vjp(of_smooth, y, -s, [leaves[i] for i in smooth])
        return ravel_pytree((-slope, *pullback(a)))[0]

    def between(carry: tuple[Any, Any, Any], of_step: Any) -> Any:
        a, start_bar, bars = carry
        y, t, t_before, bar, bar_before = of_step
        t_bar = jnp.real(jnp.dot(dynamics(y, t, *args), bar))  # y moves on with its time
        state, _ = ravel_pytree((y, a, start_bar - t_bar, bars))
        states = _odeint(backwards, options, state, jnp.stack([-t, -t_before]), tuple(leaves))
        _, a, start_bar, bars = unravel(states[1])
        return (a + bar_before, start_bar, bars), t_bar

    steps = (ys[1:], times[1:], times[:-1], cotangents[1:], cotangents[:-1])
    end = (cotangents[-1], jnp.zeros_like(times[0]), nothing)
    (y_bar, start_bar, bars), t_bars = lax.scan(between, end, steps, reverse=True)
    found = dict(zip(smooth, bars))
    args_bar = tree_unflatten(tree, [found.get(i) for i in range(len(leaves))])
    return y_bar, jnp.concatenate([start_bar[None], t_bars]), args_bar


_odeint.defvjp(_odeint_fwd, _odeint_bwd)

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
