"""Parts of complex numbers: real, imaginary, conjugate, angle; and what is not finite, replaced in each part.

Knows promotion and the element-wise primitives.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    DTypeError: an argument is no array, or of a dtype that the function does not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.numpy.building import filled_like, scalar, select
from functad.numpy.promotion import (
    asarray,
    concrete_value,
    convert,
    operand,
    promote_args_inexact,
    promote_shapes,
)
from functad.numpy.ufuncs import rad2deg
from functad.primitives import elementwise as el

__all__ = [
    "ComplexWarning",
    "angle",
    "conj",
    "conjugate",
    "imag",
    "nan_to_num",
    "real",
    "real_if_close",
]

ComplexWarning = np.exceptions.ComplexWarning


def real(val: Any, /) -> Array:
    """The real part; of a real array the array itself.

    >>> import functad.numpy as jnp
    >>> jnp.real(1 + 2j)
    Array(1., dtype=float32, weak_type=True)
    """
    x = asarray(val)
    return el.real(x) if kind_of(x.dtype) == "c" else x


def real_if_close(a: Any, tol: float = 100) -> Array:
    """The real part of a complex array whose imaginary part is small everywhere, and any other array itself.

    The shape is that of a.

    Args:
        a: array; a complex one must have a known value, which decides the dtype of the result.
        tol: what is small: above 1 in units of the dtype's machine epsilon.

    >>> import functad.numpy as jnp
    >>> jnp.real_if_close(jnp.array([1 + 1e-7j]))
    Array([1.], dtype=float32)
    """
    x = asarray(a)
    if kind_of(x.dtype) != "c":
        return x
    rewrite = "Write functad.numpy.real(x): the dtype of a result cannot depend on values."
    size = np.abs(concrete_value(x, "real_if_close", rewrite).imag)
    return el.real(x) if np.all(size < (tol * finfo(x.dtype).eps if tol > 1 else tol)) else x


def imag(val: Any, /) -> Array:
    """The imaginary part; of a real array zeros.

    >>> import functad.numpy as jnp
    >>> jnp.imag(1 + 2j)
    Array(2., dtype=float32, weak_type=True)
    """
    x = asarray(val)
    return el.imag(x) if kind_of(x.dtype) == "c" else filled_like(scalar(x, 0), x)


def conjugate(x: Any, /) -> Array:
    """The complex conjugate; of a real array the array itself.

    >>> import functad.numpy as jnp
    >>> jnp.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)

    >>> import functad.numpy as jnp
    >>> jnp.conjugate(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    x = asarray(x)
    return el.conj(x) if kind_of(x.dtype) == "c" else x


conj = conjugate


def angle(z: Any, deg: bool = False) -> Array:
    """The angle of complex numbers z in radians, or with `deg` in degrees.

    >>> import functad.numpy as jnp
    >>> jnp.angle(1j, deg=True)
    Array(90., dtype=float32, weak_type=True)
    """
    (z,) = promote_args_inexact("angle", z)
    result = el.atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Replace NaN by `nan`, and infinities by the largest finite numbers or what is given; of complex x in both parts.

    x has any shape, and the result that of x and of what is given.

    >>> import functad.numpy as jnp
    >>> jnp.nan_to_num(jnp.array([jnp.nan, 1.0]), nan=7.0)
    Array([7., 1.], dtype=float32)
    """
    x = asarray(x)
    if kind_of(x.dtype) == "c":
        return el.complex(*(nan_to_num(part, copy, nan, posinf, neginf) for part in (el.real(x), el.imag(x))))
    if kind_of(x.dtype) != "f":
        return x
    limits = finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    fill = [convert(operand("nan_to_num", v), x.dtype) for v in (nan, high, low)]
    if any(v.ndim for v in fill):
        x, *fill = promote_shapes("nan_to_num", x, *fill)
    result = select(el.ne(x, x), fill[0], x)
    result = select(el.eq(x, scalar(x, np.inf)), fill[1], result)
    return select(el.eq(x, scalar(x, -np.inf)), fill[2], result)
