"""Reductions that skip NaN: each is its plain form on an array in which NaN is replaced, or masked out.

Knows the plain reductions.

Shapes:
    The axes that are reduced are dropped, or stay with size 1 with `keepdims`; a running sum or product keeps its
    axis.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: an extremum of no elements without `initial`, or an axis twice.
    ShapeError: `where`, `initial` or weights do not broadcast to the array.
    UnsupportedNumpyError: `out` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.numpy import logic, means, reductions, running, ufuncs
from functad.numpy.building import as_array, select
from functad.primitives import elementwise as el

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _replacing_nan(name: str, a: Any, value: Any) -> tuple[Any, Any]:
    """The array with every NaN replaced, and where they were (None where the dtype has none)."""
    x = as_array(name, a)
    if kind_of(x.dtype) not in "fc":
        return x, None
    mask = el.ne(x, x)
    return select(mask, x.dtype.type(value), x), mask


@compound
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`sum` that counts NaN as 0.

    >>> import functad.numpy as jnp
    >>> jnp.nansum(jnp.array([2.0, jnp.nan, 3.0]))
    Array(5., dtype=float32)
    """
    return reductions.sum(_replacing_nan("nansum", a, 0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """`prod` that counts NaN as 1.

    >>> import functad.numpy as jnp
    >>> jnp.nanprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array(6., dtype=float32)
    """
    return reductions.prod(_replacing_nan("nanprod", a, 1)[0], axis, dtype, out, keepdims, initial, where)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """`cumsum` that counts NaN as 0.

    >>> import functad.numpy as jnp
    >>> jnp.nancumsum(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 5.], dtype=float32)
    """
    return running.cumsum(_replacing_nan("nancumsum", a, 0)[0], axis, dtype, out)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Array:
    """`cumprod` that counts NaN as 1.

    >>> import functad.numpy as jnp
    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return running.cumprod(_replacing_nan("nancumprod", a, 1)[0], axis, dtype, out)


def _nan_extremum(
    name: str,
    fun: Callable[..., Any],
    fill: float,
    a: Any,
    axis: Any,
    out: None,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    x, mask = _replacing_nan(name, a, fill)
    result = fun(x, axis, out, keepdims, initial, where)
    if mask is None or initial is not None:
        return result
    return select(reductions.all(mask, axis, keepdims=keepdims, where=where), result.dtype.type(np.nan), result)


@compound
def nanmax(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """`max` that ignores NaN; NaN where there is nothing else.

    >>> import functad.numpy as jnp
    >>> jnp.nanmax(jnp.array([2.0, jnp.nan, 3.0]))
    Array(3., dtype=float32)
    """
    return _nan_extremum("nanmax", reductions.max, -np.inf, a, axis, out, keepdims, initial, where)


@compound
def nanmin(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """`min` that ignores NaN; NaN where there is nothing else.

    >>> import functad.numpy as jnp
    >>> jnp.nanmin(jnp.array([2.0, jnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    return _nan_extremum("nanmin", reductions.min, np.inf, a, axis, out, keepdims, initial, where)


def _nan_position(
    name: str, fun: Callable[..., Any], fill: float, a: Any, axis: Any, out: None, keepdims: bool | None
) -> Any:
    x, mask = _replacing_nan(name, a, fill)
    result = fun(x, axis, out, keepdims)
    if mask is None:
        return result
    return select(reductions.all(mask, axis, keepdims=bool(keepdims)), result.dtype.type(-1), result)


def nanargmax(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """`argmax` that ignores NaN; -1 where there is nothing else.

    >>> import functad.numpy as jnp
    >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2, dtype=int32)
    """
    return _nan_position("nanargmax", reductions.argmax, -np.inf, a, axis, out, keepdims)


def nanargmin(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """`argmin` that ignores NaN; -1 where there is nothing else.

    >>> import functad.numpy as jnp
    >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1, dtype=int32)
    """
    return _nan_position("nanargmin", reductions.argmin, np.inf, a, axis, out, keepdims)


def _not_nan(name: str, a: Any, where: Any) -> tuple[Any, Any]:
    x = as_array(name, a)
    if kind_of(x.dtype) not in "fc":
        return x, where
    good = el.eq(x, x)
    return x, good if where is None else logic.logical_and(good, where)


@compound
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Array:
    """`mean` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanmean(jnp.array([2.0, jnp.nan, 3.0]))
    Array(2.5, dtype=float32)
    """
    x, good = _not_nan("nanmean", a, where)
    return means.mean(x, axis, dtype, out, keepdims, where=good)


@compound
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """`var` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanvar(jnp.array([2.0, jnp.nan, 3.0]))
    Array(0.25, dtype=float32)
    """
    x, good = _not_nan("nanvar", a, where)
    return means.var(x, axis, dtype, out, ddof, keepdims, where=good, mean=mean)


@compound
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Array:
    """`std` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanstd(jnp.array([2.0, jnp.nan, 3.0]))
    Array(0.5, dtype=float32)
    """
    return ufuncs.sqrt(nanvar(a, axis, dtype, out, ddof, keepdims, where, mean))
