"""Means, variances and standard deviations along axes.

Knows the sums of `reductions`; the forms that skip NaN are in `nan_reductions`, medians in `statistics`.

Shapes:
    The axes that are reduced are dropped, or stay with size 1 with `keepdims`.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: weights do not fit the array, or an axis twice.
    ShapeError: `where` or a known mean does not broadcast to the array.
    UnsupportedNumpyError: `out` is given.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.numpy import arithmetic, ufuncs
from functad.numpy.building import as_array, filled, refuse_out, select
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axes,
    canonical_dtype,
    convert,
    joint_shape,
    operand,
    promote_dtypes,
)
from functad.numpy.reductions import keep_dims, mask_of, masked, sum
from functad.primitives import elementwise as el
from functad.primitives import structure
from functad.primitives.common import broadcast_in_dim, reduce_sum

__all__ = [
    "average",
    "mean",
    "std",
    "var",
]


def _count(x: Any, axes: tuple[int, ...], where: Any, keepdims: bool, dtype: np.dtype) -> Any:
    """How many elements count in each reduction, as a scalar of the dtype where that is known."""
    if where is None:
        return dtype.type(math.prod(x.shape[i] for i in axes))
    mask = broadcast_operand(mask_of("mean", where), joint_shape("mean", [x.shape, asarray(where).shape]))
    return sum(mask, axis=axes, dtype=dtype, keepdims=keepdims)


@compound
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """The arithmetic mean along the given axes, by default of all elements; integers give floats.

    >>> import functad.numpy as jnp
    >>> jnp.mean(jnp.array([1, 2, 4]))
    Array(2.3333333, dtype=float32)
    """
    refuse_out("mean", out)
    x = as_array("mean", a)
    axes = canonical_axes("mean", axis, x.ndim)
    wanted = canonical_dtype(dtype) or dtypes.to_inexact_dtype(x.dtype)
    computed = dtypes.compute_dtype(wanted)
    if where is None:
        total = keep_dims(reduce_sum(convert(x, computed), axes=axes), axes, x.shape, keepdims)
        count = computed.type(math.prod(x.shape[i] for i in axes)) if kind_of(computed) in "fc" else None
    else:
        total = sum(x, axes, dtype=computed, keepdims=keepdims, where=where)
        count = _count(x, axes, where, keepdims, computed)
    if count is None:
        return convert(arithmetic.true_divide(total, math.prod(x.shape[i] for i in axes)), wanted)
    return convert(el.div(total, count), wanted)


@compound
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """The weighted mean along the given axes; with `returned=True` also the sums of the weights.

    >>> import functad.numpy as jnp
    >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.5, dtype=float32)
    """
    x = as_array("average", a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        axes = canonical_axes("average", axis, x.ndim)
        total = filled(result.dtype.type(math.prod(x.shape[i] for i in axes)), result.shape)
        return (result, total) if returned else result
    x, w = promote_dtypes(x, as_array("average", weights))
    if kind_of(x.dtype) not in "fc":
        inexact = dtypes.to_inexact_dtype(x.dtype)
        x, w = convert(x, inexact), convert(w, inexact)
    if x.shape != w.shape:
        axes = canonical_axes("average", axis, x.ndim)
        if w.shape != tuple(x.shape[i] for i in axes):
            raise ArgumentError(
                f"average: weights of shape {w.shape} fit neither the array's shape {x.shape} nor its axis={axis}"
            )
        w = structure.transpose(w, sorted(range(w.ndim), key=axes.__getitem__))
        w = broadcast_in_dim(w, shape=x.shape, broadcast_dimensions=sorted(axes))
    total = sum(w, axis, keepdims=keepdims)
    result = arithmetic.true_divide(sum(arithmetic.multiply(x, w), axis, keepdims=keepdims), total)
    return (result, total) if returned else result


_mean = mean


@compound
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """The variance along the given axes, by default of all elements.

    Args:
        ddof: what is subtracted from the number of elements in the divisor (`correction` is the Array API's name).
        mean: the mean, if it is known: it broadcasts against `a`.

    The other arguments are those of `sum`.

    >>> import functad.numpy as jnp
    >>> jnp.var(jnp.array([1.0, 3.0]), ddof=1)
    Array(2., dtype=float32)
    """
    refuse_out("var", out)
    freedom = ddof if correction is None else correction
    x = as_array("var", a)
    axes = canonical_axes("var", axis, x.ndim)
    given = canonical_dtype(dtype)
    wanted = dtypes.to_inexact_dtype(x.dtype) if given is None else given
    if kind_of(x.dtype) == "c" and given is None:
        wanted = np.zeros((), x.dtype).real.dtype
    computed, _ = dtypes.lattice_join((x.dtype, False), (wanted, False))
    computed = dtypes.compute_dtype(dtypes.to_inexact_dtype(computed))
    x = convert(x, computed)
    centre = _mean(x, axes, keepdims=True, where=where) if mean is None else convert(operand("var", mean), computed)
    deviation = arithmetic.subtract(x, centre)
    # What takes no part may be NaN or infinite; 0 times the slope of its square would be NaN.
    deviation = masked("var", deviation, where, 0)
    if kind_of(computed) == "c":
        squared = el.add(el.square(el.real(deviation)), el.square(el.imag(deviation)))
    else:
        squared = el.square(deviation)
    total = sum(squared, axes, keepdims=keepdims, where=where)
    if where is None and isinstance(freedom, (int, float)):
        count: Any = math.prod(x.shape[i] for i in axes) - freedom
        return convert(el.div(total, total.dtype.type(count if count > 0 else np.nan)), wanted)
    count = arithmetic.subtract(
        _count(x, axes, where, keepdims, total.dtype), convert(operand("var", freedom), total.dtype)
    )
    return convert(
        select(el.gt(count, total.dtype.type(0)), arithmetic.divide(total, count), total.dtype.type(np.nan)),
        wanted,
    )


@compound
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
) -> Array:
    """The standard deviation along the given axes; arguments as for `var`.

    >>> import functad.numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    return ufuncs.sqrt(var(a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))
