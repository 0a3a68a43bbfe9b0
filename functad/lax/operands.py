"""How `functad.lax` takes its operands: strictly, as the primitives do, but scalars without a dtype of their own adapt.

Knows no function in particular. Promotion and broadcasting are the business of `functad.numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ConcretizationError, DTypeError, ShapeError
from functad.evaluation import aval_of, infer_avals
from functad.ir import Primitive
from functad.numpy.promotion import SCALARS, asarray, convert
from functad.primitives.common import broadcast_in_dim
from functad.tracing import bind

_KINDS = {"b": "bool", "i": "integer", "u": "integer", "f": "float", "c": "complex", "k": "key"}


def operand(name: str, x: Any) -> Any:
    """One operand: an Array, or a NumPy scalar, of the dtype it came with (32 bits for scalars that adapt)."""
    x = dtypes.adaptable(x)
    if isinstance(x, (Array, np.generic)):
        return x
    if isinstance(x, (np.ndarray, bool, int, float, complex)) or hasattr(x, "__jax_array__"):
        return asarray(x)
    raise DTypeError(
        f"lax.{name} takes arrays and numbers, but was given {x!r:.80} of type {type(x).__name__}; "
        "make an array of it with functad.numpy.asarray"
    )


def same_dtype(name: str, *args: Any) -> list[Any]:
    """Operands of one dtype: weak ones (such as Python scalars) take that of the others, if it is of the same kind."""
    types = {dtypes.dtype_of(a) for a in args if isinstance(a, (Array, np.ndarray, np.generic))}
    strong = {dtype for dtype, weak in types if not weak}
    if len(strong) != 1:  # all weak; or different, which the primitive objects to
        return [operand(name, a) for a in args]
    (dtype,) = strong
    return [_adapted(name, a, dtype) for a in args]


def _adapted(name: str, x: Any, dtype: np.dtype) -> Any:
    x = dtypes.adaptable(x)
    x = x if type(x) in SCALARS else operand(name, x)
    own, weak = dtypes.dtype_of(x)
    return convert(x, dtype) if weak and _KINDS[kind_of(own)] == _KINDS[kind_of(dtype)] else operand(name, x)


def same_shape(name: str, *args: Any) -> list[Any]:
    """Operands of one dtype and one shape: axes of size 1 are repeated, scalars stay as they are."""
    operands = same_dtype(name, *args)
    shapes = {aval_of(x).shape for x in operands} - {()}
    if len(shapes) < 2:
        return operands
    ranks = {len(s) for s in shapes}
    columns = [set(sizes) - {1} for sizes in zip(*shapes)]
    if len(ranks) > 1 or any(len(sizes) > 1 for sizes in columns):
        raise ShapeError(
            f"lax.{name} takes operands of equal shape, or scalars, but was given shapes "
            f"{', '.join(str(aval_of(x).shape) for x in operands)}; functad.numpy broadcasts by itself"
        )
    shape = tuple(max(sizes, default=1) for sizes in columns)
    return [
        broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(shape))) if aval_of(x).shape else x
        for x in operands
    ]


def bind_checked(primitive: Primitive, *args: Any, **params: Any) -> Array:
    """Apply a primitive to operands that are checked first, as only traced ones are by themselves."""
    check_fits(primitive, *args, **params)
    return bind(primitive, *args, **params)


def check_fits(primitive: Primitive, *args: Any, **params: Any) -> None:
    """Raise, in the user's terms, unless a primitive takes these operands and parameters."""
    infer_avals(primitive, [aval_of(a) for a in args], params)


def integers_of(name: str, what: str, values: Any) -> tuple[int, ...]:
    """Axes, sizes or positions as Python integers."""
    try:
        return tuple(v.__index__() for v in values)
    except ConcretizationError:
        raise
    except (TypeError, AttributeError):
        raise DTypeError(f"lax.{name}: {what} must be a sequence of integers, got {values!r:.80}") from None


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """An axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"lax.{name}: axis {axis} is out of bounds for an array with {ndim} axes")
    return int(axis) % ndim
