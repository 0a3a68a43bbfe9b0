"""Reductions along axes: sums, products, extrema and where they are, logic.

Knows promotion and the reduction primitives; means are in `means`, the forms that skip NaN in `nan_reductions`.

Shapes:
    The axes that are reduced are dropped, or stay with size 1 with `keepdims`.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: an extremum of no elements without `initial`, or an axis twice.
    ShapeError: `where` or `initial` does not broadcast to the array.
    UnsupportedNumpyError: `out` is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.evaluation import aval_of
from functad.numpy import arithmetic
from functad.numpy.building import as_array, as_boolean, refuse_out, select
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axes,
    canonical_axis,
    canonical_dtype,
    convert,
    joint_shape,
    operand,
)
from functad.primitives import elementwise as el
from functad.primitives import positions, reduction
from functad.primitives.common import broadcast_in_dim, reduce_sum, reshape

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "min",
    "prod",
    "ptp",
    "sum",
]

# --- the shared part --------------------------------------------------------------------------------


def keep_dims(result: Any, axes: tuple[int, ...], shape: tuple[int, ...], keepdims: bool) -> Any:
    """Put axes of size 1 back where a reduction dropped them."""
    if not keepdims or not axes:
        return result
    kept_shape, kept = _kept(axes, shape)
    return broadcast_in_dim(result, shape=kept_shape, broadcast_dimensions=kept)


@lru_cache(4096)
def _kept(axes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape with size 1 for each axis that is reduced, and where the axes that are left are in it."""
    kept = tuple([i for i in range(len(shape)) if i not in axes])
    return tuple([n if i in kept else 1 for i, n in enumerate(shape)]), kept


def masked(name: str, x: Any, where: Any, identity: Any) -> Any:
    """x with `identity` wherever the mask is false."""
    if where is None:
        return x
    mask = mask_of(name, where)
    shape = joint_shape(name, [x.shape, mask.shape])
    return select(broadcast_operand(mask, shape), broadcast_operand(x, shape), x.dtype.type(identity))


def mask_of(name: str, where: Any) -> Any:
    mask = asarray(where)
    if kind_of(mask.dtype) != "b":
        raise ArgumentError(f"{name}: where= must be boolean, got {mask.aval.str_short()}; write where=(mask != 0)")
    return mask


def _with_initial(name: str, result: Any, initial: Any, combine: Callable[[Any, Any], Any]) -> Any:
    if initial is None:
        return result
    value = convert(operand(name, initial), result.dtype)
    if aval_of(value).shape != ():
        raise ArgumentError(f"{name}: initial= must be a scalar, got shape {aval_of(value).shape}")
    return combine(value, result)


def _integer_sum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums and products of a dtype are taken: small integers grow to the default one."""
    if kind_of(dtype) in "fc":
        return dtype
    default = dtypes.default_int_dtype()
    if kind_of(dtype) == "b":
        return default
    if kind_of(dtype) in "iu" and dtype.itemsize < default.itemsize:
        return default if kind_of(dtype) == "i" else np.dtype(f"uint{8 * default.itemsize}")
    return dtype


def _accumulating(
    name: str,
    reduce: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    identity: int,
    a: Any,
    axis: Any,
    dtype: Any,
    out: None,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Any:
    refuse_out(name, out)
    x = as_array(name, a)
    axes = canonical_axes(name, axis, x.ndim)
    wanted = canonical_dtype(dtype)
    if wanted is None:
        wanted = _integer_sum_dtype(x.dtype) if promote_integers or kind_of(x.dtype) == "b" else x.dtype
    x = masked(name, convert(x, wanted), where, identity)
    result = reduce(x, axes=axes) if axes else x
    return keep_dims(_with_initial(name, result, initial, combine), axes, x.shape, keepdims)


# --- sums, products, extrema, logic -----------------------------------------------------------------


def sum(  # noqa: A001
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over the given axes, by default over all.

    Args:
        a: array of any shape; booleans and small integers are summed in the default integer dtype.
        axis: an axis, a tuple of them, or None for all.
        dtype: the dtype to sum in.
        keepdims: keep the reduced axes with size 1.
        initial: a number added to the sum.
        where: boolean array that broadcasts with `a`: which elements count.

    >>> import functad.numpy as jnp
    >>> jnp.sum(jnp.ones((2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float32)
    """
    return _accumulating("sum", reduce_sum, el.add, 0, a, axis, dtype, out, keepdims, initial, where, promote_integers)


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Array:
    """The product over the given axes, by default over all; arguments as for `sum`.

    >>> import functad.numpy as jnp
    >>> jnp.prod(jnp.array([2, 3, 4]))
    Array(24, dtype=int32)
    """
    return _accumulating(
        "prod",
        reduction.reduce_prod,
        el.mul,
        1,
        a,
        axis,
        dtype,
        out,
        keepdims,
        initial,
        where,
        promote_integers,
    )


def _extremum(name: str, a: Any, axis: Any, out: None, keepdims: bool, initial: Any, where: Any, largest: bool) -> Any:
    refuse_out(name, out)
    x = as_array(name, a)
    axes = canonical_axes(name, axis, x.ndim)
    if where is not None and initial is None:
        raise ArgumentError(f"{name}: with where=, initial= must say what the result is where nothing counts")
    if initial is None and math.prod(x.shape[i] for i in axes) == 0:
        raise ArgumentError(
            f"{name}: an array of shape {x.shape} has no elements along axis={axis}, and {name} of nothing is "
            "undefined; pass initial= to give it a value"
        )
    dtypes.refuse_keys(name, x.dtype)
    if kind_of(x.dtype) == "b":
        reduce = reduction.reduce_or if largest else reduction.reduce_and
        combine = el.or_ if largest else el.and_
    else:
        reduce = reduction.reduce_max if largest else reduction.reduce_min
        combine = el.max if largest else el.min
    x = masked(name, convert(x, x.dtype), where, lowest(x.dtype) if largest else highest(x.dtype))
    result = reduce(x, axes=axes) if axes else x
    return keep_dims(_with_initial(name, result, initial, combine), axes, x.shape, keepdims)


def lowest(dtype: np.dtype) -> Any:
    """What no element of the dtype lies below."""
    if kind_of(dtype) == "b":
        return False
    if kind_of(dtype) in "fc":
        return -np.inf if kind_of(dtype) == "f" else complex(-np.inf, -np.inf)
    return dtypes.iinfo(dtype).min


def highest(dtype: np.dtype) -> Any:
    """What no element of the dtype lies above."""
    if kind_of(dtype) == "b":
        return True
    if kind_of(dtype) in "fc":
        return np.inf if kind_of(dtype) == "f" else complex(np.inf, np.inf)
    return dtypes.iinfo(dtype).max


@compound
def max(  # noqa: A001
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The largest element along the given axes, by default of all; NaN if there is one.

    >>> import functad.numpy as jnp
    >>> jnp.max(jnp.array([[1., 5.], [3., 2.]]), axis=1)
    Array([5., 3.], dtype=float32)
    """
    return _extremum("max", a, axis, out, keepdims, initial, where, largest=True)


@compound
def min(  # noqa: A001
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Array:
    """The smallest element along the given axes, by default of all; NaN if there is one.

    >>> import functad.numpy as jnp
    >>> jnp.amin(jnp.array([3, 1, 2]))
    Array(1, dtype=int32)

    >>> import functad.numpy as jnp
    >>> jnp.min(jnp.array([[3, 1], [2, 4]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return _extremum("min", a, axis, out, keepdims, initial, where, largest=False)


amax, amin = max, min


def _logical_reduction(
    name: str,
    a: Any,
    axis: Any,
    out: None,
    keepdims: bool,
    where: Any,
    reduce: Callable[..., Any],
    identity: bool,
) -> Any:
    refuse_out(name, out)
    x = as_boolean(name, a)
    axes = canonical_axes(name, axis, x.ndim)
    x = masked(name, x, where, identity)
    return keep_dims(reduce(x, axes=axes) if axes else x, axes, x.shape, keepdims)


def any(  # noqa: A001
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether any element is true (not zero) along the given axes, by default of all.

    >>> import functad.numpy as jnp
    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _logical_reduction("any", a, axis, out, keepdims, where, reduction.reduce_or, False)


def all(  # noqa: A001
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether all elements are true (not zero) along the given axes, by default of all.

    >>> import functad.numpy as jnp
    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _logical_reduction("all", a, axis, out, keepdims, where, reduction.reduce_and, True)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Array:
    """The number of elements that are not zero along the given axes, by default of all.

    >>> import functad.numpy as jnp
    >>> jnp.count_nonzero(jnp.array([0, 2, 3]))
    Array(2, dtype=int32)
    """
    return sum(as_boolean("count_nonzero", a), axis=axis, keepdims=keepdims)


@compound
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    """The distance from the smallest to the largest element along the given axes.

    >>> import functad.numpy as jnp
    >>> jnp.ptp(jnp.array([3, 1, 7]))
    Array(6, dtype=int32)
    """
    refuse_out("ptp", out)
    return arithmetic.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# --- positions of extrema ---------------------------------------------------------------------------


def _position(name: str, a: Any, axis: Any, out: None, keepdims: bool, primitive: Callable[..., Any]) -> Any:
    refuse_out(name, out)
    x = as_array(name, a)
    shape = x.shape
    if axis is None:
        flat, index = reshape(x, (x.size,)), 0
        axes = tuple(range(x.ndim))
    else:
        flat, index = x, canonical_axis(name, axis, x.ndim)
        axes = (index,)
    if flat.shape[index] == 0:
        raise ArgumentError(f"{name}: an array of shape {shape} has no elements along axis={axis}")
    result = primitive(flat, axis=index, index_dtype=dtypes.default_int_dtype())
    return keep_dims(result, axes, shape, keepdims)


def argmax(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the (first) largest element along an axis, by default in the flattened array.

    >>> import functad.numpy as jnp
    >>> jnp.argmax(jnp.array([[1., 5.], [3., 2.]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    return _position("argmax", a, axis, out, bool(keepdims), positions.argmax)


def argmin(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the (first) smallest element along an axis, by default in the flattened array.

    >>> import functad.numpy as jnp
    >>> jnp.argmin(jnp.array([3, 1, 2]))
    Array(1, dtype=int32)
    """
    return _position("argmin", a, axis, out, bool(keepdims), positions.argmin)
