"""What the distributions share: promotion of their arguments, and values that keep derivatives clean.

Knows dtypes and `where`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.api.arguments import P
from functad.array import Array
from functad.numpy.promotion import promote_args_inexact
from functad.scipy.special.widening import in_float64

PI_TWICE_LOG = math.log(2 * math.pi)


def elementwise(fun: Callable[P, Array]) -> Callable[P, Array]:
    """The function with its arguments as floating arrays of one dtype; NaN where one of them is."""
    name, signature = _name(fun), inspect.signature(fun)

    @wraps(fun)
    def promoted(*args: P.args, **kwargs: P.kwargs) -> Array:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        call: Any = fun
        operands = [jnp.asarray(x) for x in promote_args_inexact(name, *given.args)]
        return _unless_nan(given.args, operands, jnp.asarray(call(*operands)))

    return promoted


def in_float64_once(fun: Callable[P, Array]) -> Callable[P, Array]:
    """The function computed in 64 bits and rounded once, as what cancels in it costs 32 bits their digits."""
    name, signature = _name(fun), inspect.signature(fun)

    @wraps(fun)
    def widened(*args: P.args, **kwargs: P.kwargs) -> Array:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        call: Any = fun

        def of_arrays(*operands: Any) -> Any:
            arrays = [jnp.asarray(x) for x in operands]
            return _unless_nan(given.args, arrays, call(*arrays))

        found: Array = in_float64(name, of_arrays, *given.args, stays_weak=True)
        return found

    return widened


def _unless_nan(given: Sequence[Any], operands: Sequence[Any], found: Any) -> Any:
    """NaN where an operand is NaN: comparisons with it are false, so that it would be outside of every support."""
    for x, operand in zip(given, operands):
        if not isinstance(x, (int, float)) or x != x:
            found = jnp.where(operand != operand, np.nan, found)
    return found


def _name(fun: Callable[..., Any]) -> str:
    return f"{fun.__module__.rsplit('.', 1)[1]}.{fun.__name__}"


def inside(where: Any, x: Any, safe: Any) -> Any:
    """x where a condition holds, and elsewhere what has finite values and slopes, which a later `where` drops."""
    return jnp.where(where, x, safe)


def invalid(where: Any, x: Any) -> Any:
    """NaN where arguments make no distribution."""
    return jnp.where(where, np.nan, x)


def fractions(q: Any) -> Any:
    """q where it is a probability, else NaN."""
    return jnp.where((q >= 0) & (q <= 1), q, np.nan)


def log_minus(x: Any) -> Any:
    """log(1 − exp(−x)) of positive numbers, by the form that keeps the digits."""
    small = x < math.log(2)
    return jnp.where(small, jnp.log(-jnp.expm1(-inside(small, x, 0.5))), jnp.log1p(-jnp.exp(-inside(small, 1, x))))
