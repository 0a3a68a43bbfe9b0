"""Modified Bessel functions of orders 0 and 1, element-wise.

Knows how those scaled by e^−|x|, which are primitives, make the others.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.scipy.special.widening import in_float64


def i0(x: Any) -> Array:
    """I0(x), element-wise.

    >>> i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return in_float64("i0", lambda x: _unscaled(x, el.bessel_i0e(x)), x)


def i0e(x: Any) -> Array:
    """e^−|x| I0(x), element-wise.

    >>> i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return el.bessel_i0e(*promote_args_inexact("i0e", x))


def i1(x: Any) -> Array:
    """I1(x), element-wise.

    >>> i1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return in_float64("i1", lambda x: _unscaled(x, el.bessel_i1e(x)), x)


def i1e(x: Any) -> Array:
    """e^−|x| I1(x), element-wise.

    >>> i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return el.bessel_i1e(*promote_args_inexact("i1e", x))


def _unscaled(x: Any, scaled: Any) -> Any:
    root = jnp.exp(jnp.abs(x) / 2)  # e^|x| overflows before the product does
    return scaled * root * root
