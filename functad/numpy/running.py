"""Running sums and products along an axis.

Knows the primitives that carry a value along; the forms that skip NaN are in `nan_reductions`.

Shapes:
    The result has the array's shape, or, where no axis is named, its elements in a row.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: no axis is named of an array of several, where the Array API asks for one.
    UnsupportedNumpyError: `out` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.numpy.building import as_array, filled, refuse_out
from functad.numpy.promotion import canonical_axis, canonical_dtype, convert
from functad.primitives import cumulative, joining
from functad.primitives.common import reshape

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
]


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """The running sum along an axis, by default of the flattened array.

    >>> import functad.numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _cumulative("cumsum", a, axis, dtype, out, cumulative.cumsum)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """The running product along an axis, by default of the flattened array.

    >>> import functad.numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _cumulative("cumprod", a, axis, dtype, out, cumulative.cumprod)


def _cumulative(name: str, a: Any, axis: Any, dtype: Any, out: None, primitive: Callable[..., Any]) -> Any:
    refuse_out(name, out)
    x = as_array(name, a)
    if axis is None:
        x, index = reshape(x, (x.size,)), 0
    else:
        index = canonical_axis(name, axis, x.ndim)
    wanted = canonical_dtype(dtype)
    if wanted is None:
        wanted = dtypes.default_int_dtype() if kind_of(x.dtype) == "b" else x.dtype
    return primitive(convert(x, wanted), axis=index, reverse=False)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The running sum as the Array API names it; with `include_initial` it begins with 0.

    >>> import functad.numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _array_api_cumulative("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The running product as the Array API names it; with `include_initial` it begins with 1.

    >>> import functad.numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _array_api_cumulative("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def _array_api_cumulative(
    name: str, fun: Callable[..., Any], start: int, x: Any, axis: Any, dtype: Any, include_initial: bool
) -> Any:
    x = as_array(name, x)
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"{name}: an array of shape {x.shape} has not one axis, so axis= must name one")
    index = canonical_axis(name, 0 if axis is None else axis, x.ndim)
    default = dtypes.default_int_dtype()
    if dtype is None and kind_of(x.dtype) in "iu" and x.dtype.itemsize < default.itemsize:
        dtype = np.dtype(f"{kind_of(x.dtype)}{default.itemsize}")
    result = fun(x, index, dtype)
    if not include_initial:
        return result
    front = filled(result.dtype.type(start), tuple(1 if i == index else n for i, n in enumerate(result.shape)))
    return joining.concatenate([front, result], index)
