"""How far to go along a direction: a step that satisfies the strong Wolfe conditions.

Knows nothing of where the direction comes from. Nocedal and Wright 2006, algorithms 3.5 and 3.6, as one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.records import NamedTuple
from functad.tree_util import tree_map

_DECREASE = 1e-4  # c1 and c2 of the Wolfe conditions: the values usual for quasi-Newton methods
_CURVATURE = 0.9
_NARROWINGS = 30
_MARGIN = 0.1  # a new step keeps away from both ends of the interval, by this part of it


class Point(NamedTuple):
    """A step along the direction: the function's value there, its slope along the direction, its gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """`low` is the best step so far; a good one lies between it and `high`, once there is one."""

    low: Point
    high: Point
    bracketed: Any
    done: Any
    doublings: Any
    narrowings: Any


def line_search(
    evaluate: Callable[[Any], Point],
    start: Point,
    first_step: Any,
    maxiter: int,
    *,
    decrease: float = _DECREASE,
    curvature: float = _CURVATURE,
    narrowings: int = _NARROWINGS,
) -> Search:
    """Double the step until a good one is bracketed, then narrow the bracket down.

    Args:
        evaluate: a step, of the dtype of `start.step`, to the point there.
        start: the point of step 0, with a negative slope.
        first_step: the step to try first.
        maxiter: so many steps are tried at most before one is bracketed.
        decrease, curvature: c1 and c2 of the Wolfe conditions.
        narrowings: so many steps are tried at most within the bracket.

    Returns:
        What was found: `done` says whether `low` satisfies the conditions.
    """
    eps = jnp.finfo(start.step.dtype).eps
    slack = jnp.finfo(start.value.dtype).eps * jnp.abs(start.value)  # differences this small are rounding

    def unfinished(search: Search) -> Any:
        far = jnp.abs(search.high.step - search.low.step)
        split = far > eps * jnp.maximum(jnp.abs(search.high.step), jnp.abs(search.low.step))
        going_on = jnp.where(search.bracketed, split & (search.narrowings < narrowings), search.doublings < maxiter)
        return ~search.done & going_on

    def try_one(search: Search) -> Search:
        low, high = search.low, search.high
        further = jnp.where(low.step == 0, first_step, 2 * low.step)
        length = jnp.where(search.bracketed, _between(low, high), further)
        # At a minimum its derivative comes of the last steps' directions; those of lengths are 0/0 in places.
        trial = evaluate(lax.stop_gradient(length))
        enough = trial.value <= start.value + decrease * trial.step * start.slope + slack
        is_lower = enough & (trial.value < low.value + slack)  # false for NaN: the step was too long
        flat = jnp.abs(trial.slope) <= -curvature * start.slope
        # Beyond the trial the function rises, so that the minimum lies on the side of the old `low`.
        is_past = jnp.where(search.bracketed, trial.slope * (high.step - low.step) >= 0, trial.slope >= 0)
        return Search(
            low=_choose(is_lower, trial, low),
            high=_choose(is_lower, _choose(is_past, low, high), trial),
            bracketed=search.bracketed | ~is_lower | is_past,
            done=is_lower & flat,
            doublings=jnp.where(search.bracketed, search.doublings, search.doublings + 1),
            narrowings=jnp.where(search.bracketed, search.narrowings + 1, search.narrowings),
        )

    no, none = jnp.asarray(False), jnp.asarray(0, "int32")
    return lax.while_loop(unfinished, try_one, Search(start, start, no, no, none, none))


def _between(low: Point, high: Point) -> Any:
    """The minimum of the cubic with the values and slopes of both ends (equation 3.59), or the middle."""
    width = high.step - low.step
    bend = low.slope + high.slope - 3 * (high.value - low.value) / width
    root = jnp.sign(width) * jnp.sqrt(bend * bend - low.slope * high.slope)
    share = 1 - (high.slope + root - bend) / (high.slope - low.slope + 2 * root)
    inside = (share > _MARGIN) & (share < 1 - _MARGIN)  # false for NaN
    return low.step + width * jnp.where(inside, share, 0.5).astype(width.dtype)


def _choose(condition: Any, first: Point, second: Point) -> Point:
    return tree_map(lambda a, b: jnp.where(condition, a, b), first, second)
