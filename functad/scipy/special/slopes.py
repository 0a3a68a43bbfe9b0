"""Values of which the formula has other slopes than the function: at ends, and where a constant is put in.

Knows nothing of the functions.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from functad import numpy as jnp
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.primitives import elementwise as el


def exactly(value: Any, x: Any) -> Any:
    """An exact value, with the slopes of x, which is that value but for rounding."""
    return el.stop_gradient(value) + jnp.where(jnp.isfinite(x), x - el.stop_gradient(x), 0.0)


@custom_jvp
def with_slope(value: Any, slope: Any, x: Any) -> Any:
    """A value that has the given slope in x, an infinite one too."""
    return value


@partial(with_slope.defjvp, symbolic_zeros=True)
def _with_slope_jvp(primals: Any, tangents: Any) -> Any:
    value_dot, _, x_dot = tangents
    change = 0.0 if isinstance(value_dot, SymbolicZero) else value_dot
    if not isinstance(x_dot, SymbolicZero):
        change = change + primals[1] * x_dot
    return with_slope(*primals), change
