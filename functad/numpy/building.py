"""Small pieces that many array functions are written with: constants of an operand's type, selection, filling.

Knows no public function.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    ShapeError: arguments do not broadcast.
    DTypeError: an argument is no array, or of a dtype that the function does not take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from functad.array import Array, ArrayImpl
from functad.device_arrays import beside, gpus
from functad.dtypes import kind_of
from functad.errors import UnsupportedNumpyError
from functad.evaluation import aval_of
from functad.numpy.promotion import asarray, operand, promote_args_inexact, promote_pair
from functad.primitives import elementwise as el
from functad.primitives.common import broadcast_in_dim
from functad.primitives.kernels.conversion import converted
from functad.tracing import Tracer

F = TypeVar("F", bound=Callable[..., Any])


def scalar(x: Any, value: Any) -> Any:
    """A constant of the dtype of x, weak where x is, so that a result with x stays as weak as x."""
    if isinstance(x, Array) and x.weak_type:
        return ArrayImpl(converted(np.asarray(value), x.dtype), True)
    return x.dtype.type(value)


def real_scalar(x: Any, value: Any) -> Any:
    """As `scalar`, of the real dtype where x is complex."""
    return np.zeros((), x.dtype).real.dtype.type(value)


def filled(value: Any, shape: tuple[int, ...]) -> Array:
    """An operand of rank 0 repeated to a shape; one of that shape as it is. Always an Array."""
    if aval_of(value).shape == shape:
        return value if isinstance(value, Array) else ArrayImpl(np.array(value))
    assert not aval_of(value).shape, f"{aval_of(value).str_short()} has no rank 0"
    return broadcast_in_dim(value, shape=shape, broadcast_dimensions=())


def filled_like(value: Any, x: Array) -> Array:
    """An operand of rank 0 repeated to the shape of an array, where that lies."""
    if gpus and isinstance(x, ArrayImpl):
        value = beside(ArrayImpl(np.asarray(value), aval_of(value).weak_type), [x], "filled_like")
    return filled(value, x.shape)


def select(condition: Any, on_true: Any, on_false: Any) -> Array:
    """Element-wise choice between operands of one dtype, of which some may have rank 0."""
    shape = condition.shape or aval_of(on_true).shape or aval_of(on_false).shape
    return el.select_n(filled(condition, shape), filled(on_false, shape), filled(on_true, shape))


def as_array(name: str, x: Any) -> Array:
    """One operand as an Array, with the function's name in the error."""
    return x if isinstance(x, Array) else asarray(operand(name, x))


def as_boolean(name: str, x: Any) -> Array:
    """Whether the elements of an operand are not zero."""
    x = as_array(name, x)
    return x if kind_of(x.dtype) == "b" else el.ne(x, x.dtype.type(0))


def refuse_out(name: str, out: Any) -> None:
    """The error for an array that a function shall write into."""
    if out is not None:
        raise UnsupportedNumpyError(
            f"{name}: out= cannot work, because arrays are immutable; use the returned value instead: "
            f"result = functad.numpy.{name}(x)"
        )


# --- makers of element-wise functions ---------------------------------------------------------------


def named(fun: F, name: str, doc: str) -> F:
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


def unary_inexact(name: str, doc: str, primitive: str = "") -> Callable[[Any], Array]:
    """A function of floats: integers and booleans are converted first."""

    apply = getattr(el, primitive or name)

    def fun(x: Any, /) -> Any:
        if (type(x) is Tracer or type(x) is ArrayImpl) and kind_of(x.dtype) in "fc":
            return apply(x)
        return apply(*promote_args_inexact(name, x))

    return named(fun, name, doc)


def binary_function(name: str, doc: str, primitive: str = "") -> Callable[[Any, Any], Array]:
    """A function of two operands that takes every dtype."""

    apply = getattr(el, primitive or name)

    def fun(x1: Any, x2: Any, /) -> Any:
        return apply(*promote_pair(name, x1, x2))

    return named(fun, name, doc)


def binary_inexact(name: str, doc: str, primitive: str = "") -> Callable[[Any, Any], Array]:
    """A function of two floats: integers and booleans are converted first."""

    apply = getattr(el, primitive or name)

    def fun(x1: Any, x2: Any, /) -> Any:
        return apply(*promote_args_inexact(name, x1, x2))

    return named(fun, name, doc)
