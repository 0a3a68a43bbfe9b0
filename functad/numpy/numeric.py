"""Calculus and signals on arrays: differences, interpolation, convolution, mapping over axes.

Knows other functions of this package, and `vmap`.

Raises:
    ShapeError: shapes do not fit together, or an array has too many axes.
    AxisError: the array has no such axis.
    ArgumentError: a mode that there is not, or too few elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.mapping import vmap
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import (
    arithmetic,
    complex_parts,
    concatenation,
    logic,
    manipulation,
    reductions,
    running,
    selecting,
    sorting,
)
from functad.numpy.building import as_array
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axes,
    canonical_axis,
    concrete_value,
    convert,
    operand,
    promote_dtypes,
    promote_dtypes_inexact,
)
from functad.primitives import convolution, structure
from functad.primitives import elementwise as el
from functad.primitives.common import reshape as reshape_to

__all__ = [
    "apply_along_axis",
    "apply_over_axes",
    "convolve",
    "correlate",
    "diff",
    "ediff1d",
    "gradient",
    "interp",
    "ix_",
    "trapezoid",
    "trim_zeros",
    "unwrap",
]

# --- differences ------------------------------------------------------------------------------------


@compound
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbours along an axis, n times: the shape of a, but n less along the axis.

    >>> import functad.numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = as_array("diff", a)
    if n < 0:
        raise ArgumentError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ArgumentError("diff takes an array with at least one axis")
    place = canonical_axis("diff", axis, x.ndim)
    ends = [_end(v, x, place) for v in (prepend, append)]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenation.concatenate(parts, place) if len(parts) > 1 else x
    for _ in range(n):
        length = x.shape[place]
        later = manipulation.slice_axis(x, place, min(1, length), length)
        earlier = manipulation.slice_axis(x, place, 0, max(length - 1, 0))
        x = logic.not_equal(later, earlier) if kind_of(x.dtype) == "b" else el.sub(later, earlier)
    return x


def _end(value: Any, x: Any, place: int) -> Any:
    if value is None:
        return None
    value = asarray(value)
    if value.ndim == 0:
        value = broadcast_operand(value, (*x.shape[:place], 1, *x.shape[place + 1 :]))
    return value


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours in the flattened array, with more elements at both ends: `to_begin`, `to_end`.

    Of n elements the result has the shape (n − 1,), and what is added.

    >>> import functad.numpy as jnp
    >>> jnp.ediff1d(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = manipulation.ravel(ary)
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, convert(manipulation.ravel(to_begin), x.dtype))
    if to_end is not None:
        parts.append(convert(manipulation.ravel(to_end), x.dtype))
    return concatenation.concatenate(parts)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """Central differences along the given axes, one-sided at the ends.

    Args:
        varargs: the spacing: one number, or for each axis a number or the coordinates of the elements.

    Returns:
        An array of the shape of f, or a list of them where there are several axes.

    >>> import functad.numpy as jnp
    >>> jnp.gradient(jnp.array([0.0, 1.0, 4.0]))
    Array([1., 2., 3.], dtype=float32)
    """
    if edge_order not in (None, 1):
        raise ArgumentError(f"gradient: edge_order must be 1, got {edge_order}")
    (x,) = promote_dtypes_inexact(operand("gradient", f))
    axes = canonical_axes("gradient", axis, x.ndim)
    spacings = varargs or (1.0,)
    if len(spacings) == 1:
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise ArgumentError(f"gradient: {len(varargs)} spacings for {len(axes)} axes")
    results = [_gradient_along(x, i, h) for i, h in zip(axes, spacings)]
    return results[0] if len(results) == 1 else results


def _gradient_along(x: Any, axis: int, spacing: Any) -> Any:
    length = x.shape[axis]
    if length < 2:
        raise ShapeError(f"gradient: axis {axis} of an array of shape {x.shape} needs at least two elements")
    h = convert(asarray(spacing), x.dtype, x.weak_type)

    def part(start: int, stop: int) -> Any:
        return manipulation.slice_axis(x, axis, start, stop)

    ends = [(part(1, 2), part(0, 1)), (part(length - 1, length), part(length - 2, length - 1))]
    if h.ndim == 0:
        first, last = (arithmetic.divide(arithmetic.subtract(b, a), h) for b, a in ends)
        inner = arithmetic.divide(
            arithmetic.multiply(arithmetic.subtract(part(2, length), part(0, length - 2)), 0.5), h
        )
    else:
        steps = reshape_to(diff(h), tuple(length - 1 if i == axis else 1 for i in range(x.ndim)))
        before, after = (manipulation.slice_axis(steps, axis, i, length - 2 + i) for i in (0, 1))
        first = arithmetic.divide(arithmetic.subtract(*ends[0]), manipulation.slice_axis(steps, axis, 0, 1))
        last = arithmetic.divide(
            arithmetic.subtract(*ends[1]), manipulation.slice_axis(steps, axis, length - 2, length - 1)
        )
        left = arithmetic.divide(arithmetic.subtract(part(1, length - 1), part(0, length - 2)), before)
        right = arithmetic.divide(arithmetic.subtract(part(2, length), part(1, length - 1)), after)
        weighted = arithmetic.add(arithmetic.multiply(left, after), arithmetic.multiply(right, before))
        inner = arithmetic.divide(weighted, arithmetic.add(before, after))
    return concatenation.concatenate([first, inner, last], axis)


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis of values at the places `x`, or at the distance `dx`, by the trapezoidal rule.

    y has any shape, and the result that without the axis; x is a vector of the axis' size, or of the shape of y.

    >>> import functad.numpy as jnp
    >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    """
    if x is None:
        (values,) = promote_dtypes_inexact(operand("trapezoid", y))
        widths: Any = asarray(dx)
    else:
        values, places = promote_dtypes_inexact(operand("trapezoid", y), operand("trapezoid", x))
        widths = diff(places) if places.ndim == 1 else manipulation.moveaxis(diff(places, axis=axis), axis, -1)
    values = manipulation.moveaxis(values, axis, -1)
    pairs = arithmetic.add(values[..., 1:], values[..., :-1])
    return arithmetic.multiply(reductions.sum(arithmetic.multiply(pairs, widths), -1), 0.5)


@compound
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * np.pi) -> Array:
    """Phases with jumps of more than half a period replaced by their complement; the shape is that of p.

    Integers with an integer period stay integers.

    >>> import functad.numpy as jnp
    >>> jnp.unwrap(jnp.array([0.0, 3.0, 6.5]))
    Array([0.      , 3.      , 0.216815], dtype=float32)
    """
    x, _ = promote_dtypes(asarray(operand("unwrap", p)), operand("unwrap", period))
    if not x.size:
        return x
    steps = diff(x, axis=axis)
    whole = kind_of(x.dtype) in "iu"
    half = period // 2 if whole else period / 2
    wrapped = arithmetic.subtract(arithmetic.mod(arithmetic.add(steps, half), period), half)
    at_edge = logic.logical_and(logic.equal(wrapped, -half), logic.greater(steps, 0))
    if whole:  # an odd period has no place half-way
        at_edge = logic.logical_and(at_edge, period % 2 == 0)
    wrapped = selecting.where(at_edge, half, wrapped)
    limit = period / 2 if discont is None else discont
    correction = selecting.where(logic.less(arithmetic.absolute(steps), limit), 0, arithmetic.subtract(wrapped, steps))
    first = manipulation.slice_axis(x, canonical_axis("unwrap", axis, x.ndim), 0, 1)
    rest = manipulation.slice_axis(x, canonical_axis("unwrap", axis, x.ndim), 1, x.shape[axis])
    moved = arithmetic.add(rest, running.cumsum(correction, axis))
    return concatenation.concatenate([first, moved], axis)


# --- interpolation ----------------------------------------------------------------------------------


@compound
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Array:
    """Straight lines between the points (xp, fp), evaluated at x; beyond the ends `left` and `right`.

    Args:
        x: numbers of any shape, which is that of the result.
        xp: ascending vector.
        fp: vector of the same size.
        left, right: by default the first and the last of `fp`; "extrapolate" continues the line.
        period: the points repeat at this distance.

    >>> import functad.numpy as jnp
    >>> jnp.interp(1.5, jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0]))
    Array(15., dtype=float32)
    """
    at, places, values = promote_dtypes_inexact(*[operand("interp", v) for v in (x, xp, fp)])
    at, places, values = asarray(at), asarray(places), asarray(values)
    if places.shape == (0,):
        raise ShapeError("interp: xp and fp have no elements, so there is no line between them")
    if places.ndim != 1 or places.shape != values.shape:
        raise ShapeError(f"interp takes vectors xp and fp of one length, got shapes {places.shape} and {values.shape}")
    if period is not None:
        length = convert(operand("interp", abs(period)), places.dtype)
        at, places = arithmetic.mod(at, length), arithmetic.mod(places, length)
        order = sorting.argsort(places)
        places, values = selecting.take(places, order, 0), selecting.take(values, order, 0)
        places = concatenation.concatenate([places[-1:] - length, places, places[:1] + length])
        values = concatenation.concatenate([values[-1:], values, values[:1]])
    upper = arithmetic.clip(sorting.searchsorted(places, at, side="right"), 1, max(places.size - 1, 1))
    if places.size == 1:
        result = broadcast_operand(values, (1,))[0] + arithmetic.multiply(at, 0)
    else:
        x0, x1 = (selecting.take(places, i, 0, mode="clip") for i in (upper - 1, upper))
        f0, f1 = (selecting.take(values, i, 0, mode="clip") for i in (upper - 1, upper))
        width = arithmetic.subtract(x1, x0)
        tiny = float(finfo(places.dtype).tiny)
        flat = logic.less_equal(arithmetic.absolute(width), tiny)
        slope = arithmetic.divide(arithmetic.subtract(at, x0), selecting.where(flat, 1.0, width))
        result = selecting.where(flat, f0, arithmetic.add(f0, arithmetic.multiply(slope, arithmetic.subtract(f1, f0))))
    if period is None:
        for side, outside, edge in (
            (left, logic.less(at, places[0]), values[0]),
            (right, logic.greater(at, places[-1]), values[-1]),
        ):
            if isinstance(side, str) and side == "extrapolate":
                continue
            result = selecting.where(outside, edge if side is None else side, result)
    return result


# --- convolution ------------------------------------------------------------------------------------


def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """The convolution of two vectors: "full", "same" (as long as the longer one) or "valid" (without the ends).

    Of shapes (m,) and (n,) with m ≥ n the result has m + n − 1 elements, m or m − n + 1.
    preferred_element_type: the dtype of the result, in which the sums are taken.

    >>> import functad.numpy as jnp
    >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    return _convolve("convolve", a, v, mode, preferred_element_type, flipped=True)


def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The cross-correlation of two vectors; modes and shapes as for `convolve`.

    >>> import functad.numpy as jnp
    >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]))
    Array([2., 3.], dtype=float32)
    """
    return _convolve("correlate", a, v, mode, preferred_element_type, flipped=False)


def _convolve(name: str, a: Any, v: Any, mode: str, dtype: Any, flipped: bool) -> Any:
    x, y = promote_dtypes_inexact(operand(name, a), operand(name, v))
    x, y = asarray(x), asarray(y)
    wanted = None if dtype is None else dtypes.requested_dtype(dtype)
    if wanted is not None and kind_of(wanted) in "fc":
        computed = dtypes.lattice_join((x.dtype, False), (wanted, False))[0]
        x, y = convert(x, computed), convert(y, computed)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"{name} takes vectors, got shapes {x.shape} and {y.shape}")
    if not x.size or not y.size:
        raise ShapeError(f"{name} takes vectors with elements, got shapes {x.shape} and {y.shape}")
    if not flipped:
        y = complex_parts.conjugate(y)
    swapped = x.size < y.size
    if swapped:
        x, y = y, x
    kernel = structure.rev(y, (0,)) if flipped else y
    size = y.size
    paddings = {"full": (size - 1, size - 1), "same": (size // 2, size - size // 2 - 1), "valid": (0, 0)}
    if mode not in paddings:
        raise ArgumentError(f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    result = _slide(x, kernel, paddings[mode])
    result = result if wanted is None else convert(result, wanted)
    # correlate(a, v) is correlate(v, a) backwards.
    return structure.rev(result, (0,)) if swapped and not flipped else result


def _slide(x: Any, kernel: Any, padding: tuple[int, int]) -> Any:
    spec = (0, 1, 2)
    result = convolution.conv_general_dilated(
        reshape_to(x, (1, 1, x.size)),
        reshape_to(kernel, (1, 1, kernel.size)),
        window_strides=(1,),
        padding=(padding,),
        lhs_dilation=(1,),
        rhs_dilation=(1,),
        dimension_numbers=convolution.ConvDimensionNumbers(spec, spec, spec),
    )
    return reshape_to(result, (result.shape[2],))


# --- mapping over axes ------------------------------------------------------------------------------


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """Apply a function of a vector, by `vmap`, to every line along an axis; the shape of its result replaces the axis.

    Raises:
        ConcretizationError: the function looks at values, by `if` or one of NumPy's own functions: lines are traced.

    >>> import functad.numpy as jnp
    >>> jnp.apply_along_axis(jnp.sum, 1, jnp.array([[1, 2], [3, 4]]))
    Array([3, 7], dtype=int32)
    """
    x = as_array("apply_along_axis", arr)
    place = canonical_axis("apply_along_axis", axis, x.ndim)
    lines = manipulation.moveaxis(x, place, -1)
    rest, length = lines.shape[:-1], lines.shape[-1]
    flat = reshape_to(lines, (int(np.prod(rest)), length))
    results = vmap(lambda line: asarray(func1d(line, *args, **kwargs)))(flat)
    inner = results.shape[1:]
    stacked = reshape_to(results, (*rest, *inner))
    first = len(rest)
    return manipulation.moveaxis(
        stacked, tuple(range(first, first + len(inner))), tuple(range(place, place + len(inner)))
    )


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Array:
    """Apply a reduction along several axes in turn; in the shape of the result they have size 1.

    >>> import functad.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), [0, 2]).shape
    (1, 3, 1)
    """
    x = as_array("apply_over_axes", a)
    for axis in canonical_axes("apply_over_axes", axes, x.ndim):
        result = asarray(func(x, axis))
        if result.ndim == x.ndim - 1:
            result = structure.expand_dims(result, (axis,))
        if result.ndim != x.ndim:
            raise ShapeError(f"apply_over_axes: the function made shape {result.shape} of {x.shape}")
        x = result
    return x


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index arrays that pick the rectangle which vectors of indices span.

    Of n vectors the i-th gives an array of n axes, of shape (1, …, its size, …, 1).

    >>> import functad.numpy as jnp
    >>> [part.shape for part in jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2, 3]))]
    [(2, 1), (1, 3)]
    """
    results = []
    for i, a in enumerate(args):
        x = as_array("ix_", a)
        if x.ndim != 1:
            raise ArgumentError(f"ix_ takes vectors, but argument {i} has shape {x.shape}")
        if kind_of(x.dtype) == "b":
            x = selecting.nonzero(x)[0]
        results.append(reshape_to(x, tuple(x.size if j == i else 1 for j in range(len(args)))))
    return tuple(results)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """An array without the zeros at its front ("f") and back ("b"), along all axes or the given ones.

    The shape shrinks by them.

    >>> import functad.numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 1, 2, 0]))
    Array([1, 2], dtype=int32)
    """
    x = as_array("trim_zeros", filt)
    rewrite = "Keep trim_zeros outside of the transformed function: the size of its result depends on the values."
    known = concrete_value(x, "trim_zeros", rewrite) != 0
    sides, places = set(trim.lower()) & {"f", "b"}, [slice(None)] * x.ndim
    for a in canonical_axes("trim_zeros", axis, x.ndim) if sides else ():
        positions = np.flatnonzero(known.any(axis=tuple(i for i in range(x.ndim) if i != a)))
        start = int(positions[0]) if "f" in sides and positions.size else 0
        stop = int(positions[-1]) + 1 if "b" in sides and positions.size else x.shape[a]
        places[a] = slice(start, stop if positions.size else start)
    return x[tuple(places)]
