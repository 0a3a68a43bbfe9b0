"""Modified Bessel functions.

Knows their derivatives; the records have what is scaled by e^−|x|.

Shapes:
    The result has the shape of x.

Raises:
    DTypeError: x is no array of real numbers.
"""

from __future__ import annotations

from typing import Any

from functad.api.custom_rules import custom_jvp
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.numpy.building import scalar, select
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.primitives import incomplete

__all__ = ["i0"]


def i0(x: Any) -> Array:
    """I0(x), the modified Bessel function of the first kind and order 0, element-wise.

    >>> import functad.numpy as jnp
    >>> jnp.i0(1.0)
    Array(1.2660658, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("i0", x)
    if kind_of(x.dtype) == "c":
        raise DTypeError(f"i0 takes real numbers, got {x.aval.str_short()}")
    return bessel_i0(x)


@custom_jvp
def bessel_i0(x: Any) -> Any:
    """I0 of a real array. With rules of its own: |x|, which it is computed from, has a kink at 0, and I0 has none."""
    return _unscaled(x, incomplete.bessel_i0e(x))


@custom_jvp
def bessel_i1(x: Any) -> Any:
    """I1 of a real array."""
    return _unscaled(x, incomplete.bessel_i1e(x))


@bessel_i0.defjvp
def _bessel_i0_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return bessel_i0(x), el.mul(t, bessel_i1(x))  # d I0(x) = I1(x) dx


@bessel_i1.defjvp
def _bessel_i1_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    value, is_zero = bessel_i1(x), el.eq(x, scalar(x, 0))
    ratio = select(is_zero, scalar(x, 0.5), el.div(value, select(is_zero, scalar(x, 1), x)))
    return value, el.mul(t, el.sub(bessel_i0(x), ratio))  # d I1(x) = (I0(x) − I1(x) / x) dx


def _unscaled(x: Any, scaled: Any) -> Any:
    root = el.exp(el.mul(el.abs(x), scalar(x, 0.5)))  # e^|x| overflows before the product does
    return el.mul(el.mul(scaled, root), root)
