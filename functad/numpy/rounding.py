"""Rounding, element-wise: to integers, to decimals, and a number in its whole part and its fraction.

Knows promotion and the element-wise primitives.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    DTypeError: an argument is no array, or of a dtype that the function does not take.
    ArgumentError: integers are to be rounded to tens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.numpy.building import named, refuse_out, scalar, select
from functad.numpy.promotion import asarray, convert, promote_args_inexact
from functad.primitives import elementwise as el

__all__ = [
    "around",
    "ceil",
    "fix",
    "floor",
    "modf",
    "rint",
    "round",
    "trunc",
]


def _rounding(name: str, doc: str) -> Callable[[Any], Array]:
    apply = getattr(el, name)

    def fun(x: Any, /) -> Any:
        x = asarray(x)
        return x if kind_of(x.dtype) in "iub" else apply(x)

    return named(fun, name, doc)


floor = _rounding(
    "floor",
    """The largest integer not above x, element-wise, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.floor(-1.5)
    Array(-2., dtype=float32, weak_type=True)
    """,
)
ceil = _rounding(
    "ceil",
    """The smallest integer not below x, element-wise, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.ceil(1.2)
    Array(2., dtype=float32, weak_type=True)
    """,
)


def trunc(x: Any, /) -> Array:
    """x without its fraction, in the dtype of x.

    >>> import functad.numpy as jnp
    >>> jnp.fix(jnp.array([-1.5, 1.5]))
    Array([-1.,  1.], dtype=float32)

    >>> import functad.numpy as jnp
    >>> jnp.trunc(-1.5)
    Array(-1., dtype=float32, weak_type=True)
    """
    x = asarray(x)
    if kind_of(x.dtype) in "iub":
        return x
    return select(el.lt(x, scalar(x, 0)), el.ceil(x), el.floor(x))


fix = trunc


def rint(x: Any, /) -> Array:
    """The nearest integer as a float; halves go to the even one.

    >>> import functad.numpy as jnp
    >>> jnp.rint(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    (x,) = promote_args_inexact("rint", x)
    return _round_to_even(x)


def round(a: Any, decimals: int = 0, out: None = None) -> Array:  # noqa: A001
    """Round to a number of decimals; halves go to the even neighbour.

    a has any shape, which the result keeps; `decimals` is a Python integer.

    >>> import functad.numpy as jnp
    >>> jnp.around(1.25, 1)
    Array(1.2, dtype=float32, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.round(jnp.array([0.5, 1.5]))
    Array([0., 2.], dtype=float32)
    """
    refuse_out("round", out)
    x = asarray(a)
    if kind_of(x.dtype) in "iub":
        if decimals < 0:
            raise ArgumentError(f"round: integers cannot be rounded to {decimals} decimals; convert to floats first")
        return x
    if decimals == 0:
        return _round_to_even(x)
    working = convert(x, dtypes.compute_dtype(x.dtype), x.weak_type)
    factor = scalar(working, 10.0**decimals)
    rounded = el.div(_round_to_even(el.mul(working, factor)), factor)
    return convert(rounded, x.dtype, x.weak_type)


around = round


def _round_to_even(x: Any) -> Any:
    if kind_of(x.dtype) == "c":
        return el.complex(el.round(el.real(x), 1), el.round(el.imag(x), 1))
    return el.round(x, 1)


def modf(x: Any, /) -> tuple[Any, Any]:
    """The fraction and the whole part, both with the sign of x.

    >>> import functad.numpy as jnp
    >>> jnp.modf(2.5)
    (Array(0.5, dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    (x,) = promote_args_inexact("modf", x)
    whole = trunc(x)
    # −(|x| − |whole|) is −0 for whole negative x; infinities have a fraction of 0, too.
    fraction = select(el.lt(x, scalar(x, 0)), el.neg(el.sub(el.neg(x), el.neg(whole))), el.sub(x, whole))
    for infinity, zero in ((np.inf, 0.0), (-np.inf, -0.0)):
        fraction = select(el.eq(x, scalar(x, infinity)), scalar(x, zero), fraction)
    return select(el.eq(x, scalar(x, 0)), x, fraction), whole
