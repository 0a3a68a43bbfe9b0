"""Quantiles, histograms and covariances.

Knows sorting and the reductions.

Shapes:
    The axes that are looked along are dropped, or stay with size 1 with `keepdims`; counts are vectors, one number a
    bin.

Raises:
    AxisError: the array has no such axis.
    ShapeError: weights have another shape than what they weigh, or samples differ in number.
    DTypeError: what is counted are no integers.
    ArgumentError: bins or a method that there are not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.calls.compound import compound
from functad.control import forwarding
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy import (
    arithmetic,
    complex_parts,
    concatenation,
    creation,
    linear,
    logic,
    manipulation,
    means,
    positions,
    reductions,
    rounding,
    selecting,
    sorting,
    ufuncs,
    updates,
)
from functad.numpy.building import as_array, filled, refuse_out
from functad.numpy.creation import linspace
from functad.numpy.promotion import (
    asarray,
    canonical_axes,
    concrete_value,
    convert,
    operand,
    promote_dtypes,
    promote_dtypes_inexact,
)
from functad.numpy.sorting import sort_with
from functad.primitives import cumulative
from functad.primitives import elementwise as el
from functad.primitives.common import reshape as reshape_to
from functad.tracing import has_value, trace_to_program

__all__ = [
    "bincount",
    "corrcoef",
    "cov",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]

# --- quantiles --------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: None = None,
) -> Array:
    """The values below which a fraction `q` of the elements lies; NaN if there is one.

    Args:
        q: fractions from 0 to 1, of any shape, which comes first in the result.
        method: between two elements "linear", "lower", "higher", "midpoint" or "nearest"; "inverted_cdf": the first
            element up to which there is that share of the elements, or of the weights.
        weights: how much each element counts, for "inverted_cdf": of the shape of `a`, or of the axes reduced.

    >>> import functad.numpy as jnp
    >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 0.25]))
    Array([1. , 1.5], dtype=float32)
    """
    return _quantile("quantile", a, q, axis, out, method, keepdims, weights, skip_nan=False)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: None = None,
) -> Array:
    """`quantile` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanquantile(jnp.array([3.0, jnp.nan, 1.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _quantile("nanquantile", a, q, axis, out, method, keepdims, weights, skip_nan=True)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: None = None,
) -> Array:
    """`quantile` with percentages from 0 to 100.

    >>> import functad.numpy as jnp
    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), 25)
    Array(1.5, dtype=float32)
    """
    return _quantile("percentile", a, _fractions(q), axis, out, method, keepdims, weights, skip_nan=False)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: None = None,
) -> Array:
    """`percentile` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanpercentile(jnp.array([3.0, jnp.nan, 1.0]), 50)
    Array(2., dtype=float32)
    """
    return _quantile("nanpercentile", a, _fractions(q), axis, out, method, keepdims, weights, skip_nan=True)


def _fractions(q: Any) -> Any:
    (q,) = promote_dtypes_inexact(operand("percentile", q))
    return arithmetic.divide(q, 100)


def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """The middle element along the given axes, or the mean of the two middle ones.

    >>> import functad.numpy as jnp
    >>> jnp.median(jnp.array([3.0, 1.0, 2.0, 9.0]))
    Array(2.5, dtype=float32)
    """
    return _quantile("median", a, 0.5, axis, out, "midpoint", keepdims, None, skip_nan=False)


def nanmedian(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """`median` of what is not NaN.

    >>> import functad.numpy as jnp
    >>> jnp.nanmedian(jnp.array([3.0, jnp.nan, 1.0]))
    Array(2., dtype=float32)
    """
    return _quantile("nanmedian", a, 0.5, axis, out, "midpoint", keepdims, None, skip_nan=True)


def _quantile(
    name: str, a: Any, q: Any, axis: Any, out: None, method: str, keepdims: bool, weights: Any, skip_nan: bool
) -> Any:
    refuse_out(name, out)
    if method not in _METHODS:
        raise ArgumentError(f"{name}: method must be one of {', '.join(_METHODS)}, got {method!r}")
    (x,), q = promote_dtypes_inexact(operand(name, a)), operand(name, q)
    wanted = x.dtype
    joint, _ = dtypes.lattice_join((x.dtype, x.weak_type), dtypes.dtype_of(q))
    # In few bits, positions would not be whole numbers.
    computed = dtypes.compute_dtype(dtypes.to_inexact_dtype(joint))
    x, fractions = convert(x, computed), convert(q, computed)
    axes = canonical_axes(name, axis, x.ndim)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    rest = tuple(x.shape[i] for i in kept)
    count = math.prod(x.shape[i] for i in axes)
    if count == 0:
        raise ArgumentError(f"{name}: an array of shape {x.shape} has no elements along axis={axis}")
    flat = reshape_to(fractions, (1,) * len(rest) + (fractions.size,))
    lines = reshape_to(manipulation.transpose(x, kept + axes), (*rest, count))
    if method == "inverted_cdf":
        lines, shares = sort_with(lines, _line_weights(name, weights, x, axes, kept))
    elif weights is None:
        lines = sorting.sort(lines, -1)
    else:
        raise ArgumentError(f'{name}: weights= are for method="inverted_cdf", got {method!r}')
    has_nan = logic.isnan(lines)
    if method == "inverted_cdf":
        empty = (reductions.all if skip_nan else reductions.any)(has_nan, axis=-1, keepdims=True)
        position = _position_by_shares(selecting.where(has_nan, shares.dtype.type(0), shares), flat)
        method = "lower"
    elif skip_nan:
        counts = reductions.sum(logic.logical_not(has_nan), axis=-1, dtype=x.dtype, keepdims=True)
        empty = logic.equal(counts, 0)
        position = arithmetic.multiply(flat, arithmetic.maximum(arithmetic.subtract(counts, 1), 0))
    else:
        empty = reductions.any(has_nan, axis=-1, keepdims=True)
        position = arithmetic.multiply(flat, x.dtype.type(count - 1))
    values = _between(lines, position, method, count)
    values = selecting.where(empty, x.dtype.type(np.nan), values)
    values = manipulation.moveaxis(values, -1, 0)
    reduced = tuple(1 if i in axes else n for i, n in enumerate(x.shape)) if keepdims else rest
    return convert(reshape_to(values, fractions.shape + reduced), wanted)


def _line_weights(name: str, weights: Any, x: Any, axes: tuple[int, ...], kept: tuple[int, ...]) -> Any:
    """The weight of every element, in lines as the elements are."""
    rest, count = tuple(x.shape[i] for i in kept), math.prod(x.shape[i] for i in axes)
    if weights is None:
        return filled(x.dtype.type(1), (*rest, count))
    w = convert(operand(name, weights), x.dtype)
    reduced = tuple(x.shape[i] for i in axes)
    if w.shape not in (x.shape, reduced):
        raise ShapeError(f"{name}: weights have shape {w.shape}, but must have {x.shape}, or {reduced} of the axes")
    if w.shape == x.shape:
        w = manipulation.transpose(w, kept + axes)
    return reshape_to(manipulation.broadcast_to(w, (*rest, *reduced)), (*rest, count))


def _position_by_shares(shares: Any, fractions: Any) -> Any:
    """The position of the first element up to which there is at least a fraction of all shares, one of its own too."""
    upto = cumulative.cumsum(shares, axis=shares.ndim - 1, reverse=False)
    wanted = arithmetic.multiply(upto[..., -1:], fractions)
    before = logic.logical_or(
        logic.less(upto[..., None, :], wanted[..., None]), logic.equal(upto[..., None, :], upto.dtype.type(0))
    )
    return reductions.sum(before, axis=-1, dtype=shares.dtype)


def _between(lines: Any, position: Any, method: str, count: int) -> Any:
    """Elements of sorted lines at fractional positions."""
    below, above = rounding.floor(position), rounding.ceil(position)

    def at(index: Any) -> Any:
        limited = convert(arithmetic.clip(index, 0, count - 1), dtypes.int32)
        return selecting.take_along_axis(lines, limited, -1, mode="clip")

    if method == "lower":
        return at(below)
    if method == "higher":
        return at(above)
    if method == "nearest":
        return at(selecting.where(logic.less_equal(arithmetic.subtract(position, below), 0.5), below, above))
    if method == "midpoint":
        return arithmetic.multiply(arithmetic.add(at(below), at(above)), 0.5)
    weight = arithmetic.subtract(position, below)
    return arithmetic.add(
        arithmetic.multiply(at(below), arithmetic.subtract(1, weight)), arithmetic.multiply(at(above), weight)
    )


# --- counting ---------------------------------------------------------------------------------------


_LENGTH_REWRITE = """The largest integer decides the length of the result, so it must be known. Instead of
    jnp.bincount(x)
write
    jnp.bincount(x, length=largest + 1)"""


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each integer from 0 on occurs, or the sums of their weights.

    Args:
        x: vector of integers that are not negative.
        length: the length of the result, needed where `x` is traced; larger integers are not counted.

    >>> import functad.numpy as jnp
    >>> jnp.bincount(jnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    values = as_array("bincount", x)
    if values.ndim != 1 or kind_of(values.dtype) not in "iub":
        raise (DTypeError if values.ndim == 1 else ShapeError)(
            f"bincount takes a vector of integers, got {values.aval.str_short()}"
        )
    if length is None:
        known = concrete_value(values, "bincount without length=", _LENGTH_REWRITE)
        length = max(minlength, max(int(known.max()), 0) + 1 if known.size else 0)
    counted = asarray(dtypes.default_int_dtype().type(1)) if weights is None else as_array("bincount", weights)
    if weights is not None and counted.shape != values.shape:
        raise ShapeError(f"bincount: weights of shape {counted.shape} for integers of shape {values.shape}")
    index = arithmetic.clip(convert(values, dtypes.int32) if kind_of(values.dtype) == "b" else values, 0, None)
    start = filled(counted.dtype.type(0), (length,))
    return updates.At(start)[index].add(counted, mode="drop")


def histogram_bin_edges(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,  # noqa: A002
) -> Array:
    """The edges of equal bins from the smallest to the largest element (or in `range`).

    >>> import functad.numpy as jnp
    >>> jnp.histogram_bin_edges(jnp.array([0.0, 1.0]), bins=2)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = as_array("histogram_bin_edges", a)
    dtype = dtypes.to_inexact_dtype(x.dtype)
    if isinstance(bins, str):
        raise ArgumentError(f"histogram: bins must be a number or edges, got {bins!r}")
    if np.ndim(bins) == 1:
        return asarray(bins, dtype)
    count = int(bins)
    if range is None:
        low, high = (reductions.min(x), reductions.max(x)) if x.size else (0, 1)
    else:
        low, high = range
    low, high = (asarray(v, dtype) for v in (low, high))
    flat = logic.equal(low, high)
    low = selecting.where(flat, arithmetic.subtract(low, 0.5), low)
    high = selecting.where(flat, arithmetic.add(high, 0.5), high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,  # noqa: A002
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges of the bins; the last bin includes its upper edge.

    >>> import functad.numpy as jnp
    >>> jnp.histogram(jnp.array([0.0, 0.2, 1.0]), bins=2)[0]
    Array([2., 1.], dtype=float32)
    """
    x = manipulation.ravel(as_array("histogram", a))
    edges = histogram_bin_edges(x, bins, range)
    if weights is None:
        counted = filled(dtypes.to_inexact_dtype(x.dtype).type(1), x.shape)
    else:
        counted = manipulation.ravel(promote_dtypes_inexact(x, as_array("histogram", weights))[1])
    last = edges.size - 1
    values = convert(x, edges.dtype)
    # Un-jitted, where each step is a pass over memory, a search takes less time.
    equal = np.ndim(bins) == 0 and not has_value(values)
    place = _place_among_equal(edges, values) if equal else _place_among(edges, values)
    place = selecting.where(logic.equal(values, edges[-1]), last, place)
    start = filled(counted.dtype.type(0), (edges.size,))
    counts = updates.At(start)[place].add(counted, mode="drop")[1:]
    if density:
        widths = arithmetic.subtract(edges[1:], edges[:-1])
        counts = arithmetic.divide(counts, arithmetic.multiply(widths, reductions.sum(counts)))
    return counts, edges


def _place_among(edges: Any, x: Any) -> Array:
    """How many edges are no larger than each number; for NaN all of them."""
    return convert(sorting.searchsorted(edges, x, side="right"), np.dtype(np.int32))


def _place_among_equal(edges: Any, x: Any) -> Array:
    """The same for edges that are about equally far apart: by a quotient, which is no more than one off.

    It grows with x: so it is everywhere if it is at the edges; where rounding makes it worse, a search finds it.
    """
    last = edges.size - 1
    scale = arithmetic.divide(last, arithmetic.subtract(edges[-1], edges[0]))
    ends = (filled(edges.dtype.type(end), (1,)) for end in (-np.inf, np.inf))
    around = concatenation.concatenate([next(ends), edges, next(ends)])

    def guess(v: Any) -> Any:
        steps = arithmetic.add(arithmetic.multiply(arithmetic.subtract(v, edges[0]), scale), 1)
        return convert(rounding.floor(arithmetic.clip(steps, 0, last + 1)), np.dtype(np.int32))

    def near(v: Any) -> list[Any]:
        place = guess(v)
        below, above = logic.less(v, around[place]), logic.greater_equal(v, around[arithmetic.add(place, 1)])
        place = arithmetic.add(arithmetic.subtract(place, below), above)
        return [convert(selecting.where(logic.equal(v, v), place, last + 1), np.dtype(np.int32))]

    off = arithmetic.subtract(guess(edges), creation.arange(1, last + 2))
    is_near = reductions.all(logic.logical_or(logic.equal(off, 0), logic.equal(off, -1)))
    branches = [trace_to_program(f, [aval_of(x)]) for f in (lambda v: [_place_among(edges, v)], near)]
    return forwarding.bind_cond(branches, convert(is_near, np.dtype(np.int32)), [x])[0]


def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many points lie in each rectangle of two rows of bins, and the edges of both.

    Args:
        bins: a number, or edges, for both; or a pair of them.
        range: a pair of the least and largest edges.
        weights: how much each point counts.
        density: divide by the number of points and by the rectangles' sizes.

    >>> import functad.numpy as jnp
    >>> jnp.histogram2d(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    if isinstance(bins, (list, tuple)) or np.ndim(bins) > 0:
        bins = bins if len(bins) in (1, 2) else [bins, bins]
    points = concatenation.stack([as_array("histogram2d", v) for v in promote_dtypes(x, y)], 1)
    counts, (of_x, of_y) = histogramdd(points, bins, range, weights, density)
    return counts, of_x, of_y


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points lie in each box of bins, and the edges of the bins along each coordinate.

    Args:
        sample: points, of shape (points, coordinates).
        bins: a number of bins for all coordinates, or for each a number or edges.
        range: for each coordinate None, or a pair of the least and largest edges.
        weights: how much each point counts.
        density: divide by the number of points and by the boxes' sizes.

    >>> import functad.numpy as jnp
    >>> jnp.histogramdd(jnp.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    (points,) = promote_dtypes_inexact(as_array("histogramdd", sample))
    if points.ndim != 2:
        raise ShapeError(f"histogramdd takes points of shape (points, coordinates), got shape {points.shape}")
    count = points.shape[1]
    rows = list(bins) if isinstance(bins, (list, tuple)) or np.ndim(bins) > 0 else [bins] * count
    spans = [None] * count if range is None else list(range)
    if len(rows) != count or len(spans) != count:
        raise ArgumentError(
            f"histogramdd: points of {count} coordinates need as many bins= and range=, "
            f"got {len(rows)} and {len(spans)}"
        )
    if weights is not None:
        points, weights = promote_dtypes_inexact(points, as_array("histogramdd", weights))
    columns = [points[:, i] for i, _ in enumerate(rows)]
    edges = [histogram_bin_edges(x, *given) for x, *given in zip(columns, rows, spans)]
    places = [sorting.searchsorted(e, x, side="right") for e, x in zip(edges, columns)]
    places = [selecting.where(logic.equal(x, e[-1]), e.size - 1, p) for e, x, p in zip(edges, columns, places)]
    sizes = tuple(e.size + 1 for e in edges)  # one bin below and one above, which are cut off
    flat = positions.ravel_multi_index(places, sizes, mode="clip")
    counts = reshape_to(bincount(flat, weights, length=math.prod(sizes)), sizes)
    counts = counts[(slice(1, -1),) * count]
    if density:
        counts = convert(counts, points.dtype)
        counts = arithmetic.divide(counts, reductions.sum(counts))
        for i, e in enumerate(edges):
            widths = arithmetic.subtract(e[1:], e[:-1])
            counts = arithmetic.divide(counts, reshape_to(widths, (1,) * i + (widths.size,) + (1,) * (count - 1 - i)))
    return counts, edges


# --- covariance -------------------------------------------------------------------------------------


@compound
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Array:
    """The covariance matrix of variables, one a row of observations (or one a column, with `rowvar=False`).

    dtype: what is computed in, and the result's.

    >>> import functad.numpy as jnp
    >>> jnp.cov(jnp.array([1.0, 2.0, 3.0]))
    Array(1., dtype=float32)
    """
    parts = [as_array("cov", m)] + ([] if y is None else [as_array("cov", y)])
    parts = promote_dtypes_inexact(*parts)
    if dtype is not None:
        parts = [convert(p, dtypes.requested_dtype(dtype)) for p in parts]
    for p in parts:
        if p.ndim > 2:
            raise ShapeError(f"cov takes vectors and matrices, got shape {p.shape}")
    rows = [manipulation.atleast_2d(p) for p in parts]
    rows = [r if rowvar or p.ndim < 2 else manipulation.transpose(r) for r, p in zip(rows, parts)]
    x = rows[0] if len(rows) == 1 else concatenation.concatenate(rows, 0)
    freedom = (0 if bias else 1) if ddof is None else ddof
    weights = _weights(fweights, aweights, x)
    if weights is None:
        centre = means.mean(x, axis=1, keepdims=True)
        divisor: Any = x.shape[1] - freedom
    else:
        total = reductions.sum(weights)
        weighted = arithmetic.multiply(x, manipulation.expand_dims(weights, 0))
        centre = arithmetic.divide(reductions.sum(weighted, axis=1, keepdims=True), total)
        if aweights is None:
            divisor = arithmetic.subtract(total, freedom)
        else:
            spread = reductions.sum(arithmetic.multiply(weights, asarray(aweights)))
            divisor = arithmetic.subtract(total, arithmetic.divide(arithmetic.multiply(freedom, spread), total))
    deviation = arithmetic.subtract(x, centre)
    weighted = deviation
    if weights is not None:
        weighted = arithmetic.multiply(deviation, manipulation.expand_dims(weights, 0))
    product = linear.dot(deviation, complex_parts.conjugate(manipulation.transpose(weighted)))
    if isinstance(divisor, int):
        divisor = x.dtype.type(divisor if divisor > 0 else 0)
    return manipulation.squeeze(arithmetic.divide(product, divisor))


def _weights(fweights: Any, aweights: Any, x: Any) -> Any:
    weights: Any = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        value = as_array("cov", given)
        if value.shape != (x.shape[1],):
            raise ShapeError(f"cov: {name} has shape {value.shape}, but there are {x.shape[1]} observations")
        value = convert(value, x.dtype)
        weights = value if weights is None else arithmetic.multiply(weights, value)
    return weights


@compound
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Array:
    """The matrix of correlation coefficients of variables, see `cov`.

    >>> import functad.numpy as jnp
    >>> jnp.corrcoef(jnp.array([1.0, 2.0, 3.0]), jnp.array([3.0, 2.0, 1.0]))[0, 1]
    Array(-1., dtype=float32)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return arithmetic.divide(c, c)
    deviation = ufuncs.sqrt(complex_parts.real(linear.diagonal(c)))
    c = arithmetic.divide(arithmetic.divide(c, deviation[:, None]), deviation[None, :])
    if kind_of(c.dtype) == "c":
        return el.complex(arithmetic.clip(el.real(c), -1, 1), arithmetic.clip(el.imag(c), -1, 1))
    return arithmetic.clip(c, -1, 1)
