"""The functions that networks are made of: activations, softmax and its relatives, one-hot codes.

Knows no parameters and no layers: pure functions of arrays, with the values and gradients of `jax.nn`.

Shapes:
    The result has the shape of x; what sums along an axis drops it.

Raises:
    DTypeError: an argument is no array of numbers.
    AxisError: x has no such axis.
    ShapeError: arguments do not broadcast.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes, lax
from functad import numpy as jnp
from functad.api.custom_rules import custom_jvp
from functad.array import Array, ArrayImpl
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy.promotion import canonical_axis, widened

AxisArgument = int | Sequence[int] | None


# --- piecewise linear ---------------------------------------------------------------------------------


@compound
def relu(x: Any) -> Array:
    """The positive part: `max(x, 0)`, with the derivative 0 at 0.

    Args:
        x: real, of any shape.

    >>> import functad.numpy as jnp
    >>> relu(jnp.array([-1., 0., 2.]))
    Array([0., 0., 2.], dtype=float32)
    """
    x = jnp.asarray(x)
    # max(x, 0) would share the derivative at the tie between both sides.
    return jnp.where(x <= 0, jnp.zeros_like(x), x)


@compound
def relu6(x: Any) -> Array:
    """`min(max(x, 0), 6)`, with the derivative 0 at 0 and at 6.

    >>> import functad.numpy as jnp
    >>> relu6(jnp.array([-1., 2., 7.]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = _inexact(x)
    return jnp.where(x >= 6, jnp.full_like(x, 6), relu(x))


@compound
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Array:
    """`x` where it is at least 0, else `negative_slope * x`.

    >>> import functad.numpy as jnp
    >>> leaky_relu(jnp.array([-1., 2.]), 0.1)
    Array([-0.1,  2. ], dtype=float32)
    """
    x = jnp.asarray(x)
    return jnp.where(x >= 0, x, negative_slope * x)


@compound
def hard_tanh(x: Any) -> Array:
    """`x` cut to [-1, 1].

    >>> import functad.numpy as jnp
    >>> hard_tanh(jnp.array([-2., 0.5, 3.]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = jnp.asarray(x)
    return jnp.where(x > 1, jnp.ones_like(x), jnp.where(x < -1, jnp.full_like(x, -1), x))


@compound
def hard_sigmoid(x: Any) -> Array:
    """`relu6(x + 3) / 6`: a sigmoid made of three straight lines.

    >>> import functad.numpy as jnp
    >>> hard_sigmoid(jnp.array([-4., 0., 3.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(jnp.asarray(x) + 3.0) / 6.0


@compound
def hard_silu(x: Any) -> Array:
    """`x * hard_sigmoid(x)`; also called hard swish.

    >>> import functad.numpy as jnp
    >>> hard_silu(jnp.array([-4., 0., 3.]))
    Array([-0.,  0.,  3.], dtype=float32)
    """
    x = jnp.asarray(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


# --- smooth -------------------------------------------------------------------------------------------


def sigmoid(x: Any) -> Array:
    """The logistic function `1 / (1 + exp(-x))`.

    >>> import functad.numpy as jnp
    >>> sigmoid(jnp.array([0., 100.]))
    Array([0.5, 1. ], dtype=float32)
    """
    return lax.logistic(_inexact(x))


def tanh(x: Any) -> Array:
    """The hyperbolic tangent.

    >>> import functad.numpy as jnp
    >>> tanh(jnp.array([0., 100.]))
    Array([0., 1.], dtype=float32)
    """
    return jnp.tanh(x)


@compound
def log_sigmoid(x: Any) -> Array:
    """`log(sigmoid(x))`, without overflow: `-softplus(-x)`.

    >>> import functad.numpy as jnp
    >>> log_sigmoid(jnp.array([-100., 0.]))
    Array([-100.       ,   -0.6931472], dtype=float32)
    """
    return -softplus(-_inexact(x))


@compound
def softplus(x: Any) -> Array:
    """`log(1 + exp(x))`, without overflow.

    >>> import functad.numpy as jnp
    >>> softplus(jnp.array([0., 100.]))
    Array([  0.6931472, 100.       ], dtype=float32)
    """
    return jnp.logaddexp(_inexact(x), 0.0)


@compound
def soft_sign(x: Any) -> Array:
    """`x / (1 + |x|)`.

    >>> import functad.numpy as jnp
    >>> soft_sign(jnp.array([-1., 3.]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    x = _inexact(x)
    return x / (jnp.abs(x) + 1.0)


@compound
def silu(x: Any) -> Array:
    """`x * sigmoid(x)`; also called swish.

    >>> import functad.numpy as jnp
    >>> silu(jnp.array([0., 100.]))
    Array([  0., 100.], dtype=float32)
    """
    x = _inexact(x)
    return x * sigmoid(x)


swish = silu


@compound
def mish(x: Any) -> Array:
    """`x * tanh(softplus(x))`.

    >>> import functad.numpy as jnp
    >>> mish(jnp.array([0., 100.]))
    Array([  0., 100.], dtype=float32)
    """
    x = _inexact(x)
    return x * jnp.tanh(softplus(x))


@compound
def gelu(x: Any, approximate: bool = True) -> Array:
    """`x` times the normal distribution function at `x`.

    Args:
        x: real, of any shape.
        approximate: use the approximation by `tanh` (Hendrycks and Gimpel 2016, section 2) instead of the
            exact `erf`.

    >>> import functad.numpy as jnp
    >>> gelu(jnp.array([0., 10.]))
    Array([ 0., 10.], dtype=float32)
    """
    x = _inexact(x)
    if approximate:
        return x * (0.5 * (1.0 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    # Through erfc, for the left tail: 1 + erf(x) would cancel there.
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


@compound
def elu(x: Any, alpha: Any = 1.0) -> Array:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    >>> import functad.numpy as jnp
    >>> elu(jnp.array([-100., 2.]))
    Array([-1.,  2.], dtype=float32)
    """
    x = _inexact(x)
    # The exponential of the side not taken must stay finite: infinity times a zero cotangent is NaN.
    negative = jnp.where(x > 0, jnp.zeros_like(x), x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(negative))


@compound
def selu(x: Any) -> Array:
    """`scale * elu(x, alpha)` with the self-normalising constants of Klambauer et al. 2017, equation 14.

    >>> import functad.numpy as jnp
    >>> selu(jnp.array([0., 1.]))
    Array([0.      , 1.050701], dtype=float32)
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


@compound
def celu(x: Any, alpha: Any = 1.0) -> Array:
    """`max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))`: continuously differentiable for every alpha.

    >>> import functad.numpy as jnp
    >>> celu(jnp.array([-100., 2.]), 0.5)
    Array([-0.5,  2. ], dtype=float32)
    """
    x = _inexact(x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@compound
def squareplus(x: Any, b: Any = 4) -> Array:
    """`(x + sqrt(x**2 + b)) / 2`: a smooth relu without exponentials.

    >>> import functad.numpy as jnp
    >>> squareplus(jnp.array([0., 1.5]))
    Array([1., 2.], dtype=float32)
    """
    x = _inexact(x)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2.0


@compound
def sparse_plus(x: Any) -> Array:
    """0 up to -1, `x` from 1 on, and the parabola `(x + 1)^2 / 4` between them: a softplus that is 0.

    >>> import functad.numpy as jnp
    >>> sparse_plus(jnp.array([-2., 0., 3.]))
    Array([0.  , 0.25, 3.  ], dtype=float32)
    """
    x = _inexact(x)
    below, above = x <= -1, x >= 1
    middle = jnp.square(jnp.where(below | above, jnp.ones_like(x), x) + 1) / 4  # overflows nowhere
    return jnp.where(below, jnp.zeros_like(x), jnp.where(above, x, middle))


@compound
def sparse_sigmoid(x: Any) -> Array:
    """The derivative of `sparse_plus`: `(x + 1) / 2`, cut to [0, 1].

    >>> import functad.numpy as jnp
    >>> sparse_sigmoid(jnp.array([-2., 0., 3.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * jnp.clip(_inexact(x) + 1.0, 0.0, 2.0)


@custom_jvp
def log1mexp(x: Any) -> Array:
    """`log(1 - exp(-x))` for x >= 0, with all digits both where x is small and where it is large.

    Mächler, Accurately computing log(1 - exp(-|a|)), equation 7.

    >>> import functad.numpy as jnp
    >>> log1mexp(jnp.array([0., 1.]))
    Array([      -inf, -0.4586751], dtype=float32)
    """
    x = _inexact(x)
    return jnp.where(x < math.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


@log1mexp.defjvp
def _log1mexp_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log1mexp(x), t / jnp.expm1(x)  # d log(1 − exp(−x)) = dx / (exp(x) − 1)


def identity(x: Any) -> Array:
    """The input itself.

    >>> import functad.numpy as jnp
    >>> identity(jnp.array([1., 2.]))
    Array([1., 2.], dtype=float32)
    """
    return jnp.asarray(x)


# --- along an axis ------------------------------------------------------------------------------------


def glu(x: Any, axis: int = -1) -> Array:
    """The gated linear unit: the first half along an axis times the sigmoid of the second half.

    Raises:
        ShapeError: the axis has an odd size.

    >>> import functad.numpy as jnp
    >>> glu(jnp.array([1., 2., 0., 100.]))
    Array([0.5, 2. ], dtype=float32)
    """
    x = _inexact(x)
    size = x.shape[canonical_axis("glu", axis, x.ndim)]
    if size % 2:
        raise ShapeError(
            f"glu: axis {axis} of an array of shape {x.shape} has size {size}, which is odd; it must split "
            "into two halves"
        )
    value, gate = jnp.split(x, 2, axis)
    return value * sigmoid(gate)


@compound
def softmax(x: Any, axis: AxisArgument = -1, where: Any = None) -> Array:
    """`exp(x) / sum(exp(x))` along an axis, without overflow.

    Args:
        x: real, of any shape.
        axis: the axis or axes to normalise over; None for all.
        where: booleans that broadcast to `x`: what is False takes no part and gives 0.

    >>> import functad.numpy as jnp
    >>> softmax(jnp.array([0., 0., 1000., 1000.]))
    Array([0. , 0. , 0.5, 0.5], dtype=float32)
    """
    x = _inexact(x)
    exps = jnp.exp(_shifted(x, axis, where))
    result = exps / jnp.sum(exps, axis, keepdims=True, where=where)
    return result if where is None else jnp.where(where, result, jnp.zeros_like(result))


@compound
def log_softmax(x: Any, axis: AxisArgument = -1, where: Any = None) -> Array:
    """`log(softmax(x))`, without overflow or loss of digits.

    Args:
        x: real, of any shape.
        axis: the axis or axes to normalise over; None for all.
        where: booleans that broadcast to `x`: what is False takes no part and gives minus infinity.

    >>> import functad.numpy as jnp
    >>> log_softmax(jnp.array([0., 1000.]))
    Array([-1000.,     0.], dtype=float32)
    """
    shifted = _shifted(_inexact(x), axis, where)
    result = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, keepdims=True, where=where))
    return result if where is None else jnp.where(where, result, jnp.full_like(result, -math.inf))


@compound
def logsumexp(
    a: Any,
    axis: AxisArgument = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """`log(sum(b * exp(a)))` along an axis, without overflow.

    Args:
        a: real, of any shape.
        axis: the axis or axes to sum over; None for all.
        b: factors that broadcast to `a`; by default 1.
        keepdims: keep the axes, with size 1.
        return_sign: return the logarithm of the sum's absolute value, and its sign.
        where: booleans that broadcast to `a`: what is False takes no part.

    Returns:
        The result; a pair of result and sign with `return_sign`. Without it a negative sum gives NaN.

    >>> import functad.numpy as jnp
    >>> logsumexp(jnp.array([1000., 1000.]))
    Array(1000.6932, dtype=float32)
    """
    total, peak = sum_and_peak(a, axis, b, keepdims, where)
    if return_sign:
        return jnp.log(jnp.abs(total)) + peak, jnp.sign(total)
    return jnp.log(total) + peak


@compound
def logmeanexp(x: Any, axis: AxisArgument = None, where: Any = None, keepdims: bool = False) -> Array:
    """`log(mean(exp(x)))` along an axis, without overflow; the arguments are those of `logsumexp`.

    >>> import functad.numpy as jnp
    >>> logmeanexp(jnp.array([1000., 1000.]))
    Array(1000., dtype=float32)
    """
    x = _inexact(x)
    total, peak = sum_and_peak(widened(x), axis, None, keepdims, where)
    taken = jnp.broadcast_to(True if where is None else where, x.shape)
    count = jnp.sum(taken, axis, dtype=total.dtype, keepdims=keepdims)
    return (jnp.log(total) + peak - jnp.log(count)).astype(x.dtype)


@compound
def standardize(
    x: Any,
    axis: AxisArgument = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Array:
    """`(x - mean) / sqrt(variance + epsilon)` along an axis.

    Args:
        x: real, of any shape.
        axis: the axis or axes over which mean and variance are taken.
        mean, variance: use these instead.
        epsilon: keeps the division finite where all elements are equal.
        where: booleans that broadcast to `x`: what is False takes no part in the mean and variance.

    >>> import functad.numpy as jnp
    >>> standardize(jnp.array([1., 3.]), epsilon=0.)
    Array([-1.,  1.], dtype=float32)
    """
    x = _inexact(x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        # Of the centred values: mean(x^2) - mean(x)^2 loses all digits when the mean is large.
        centred = x - mean
        if where is not None:
            centred = jnp.where(where, centred, jnp.zeros_like(centred))  # as in `sum_and_peak`
        variance = jnp.mean(jnp.square(centred), axis, keepdims=True, where=where)
    return (x - mean) * lax.rsqrt(jnp.asarray(variance, x.dtype) + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """One row a number: 1 at that place, 0 elsewhere. A number outside of 0..num_classes-1 gives zeros.

    Args:
        x: integers, of any shape.
        num_classes: the length of the new axis.
        dtype: of the result; by default the default float.
        axis: where the new axis goes in the result.

    Raises:
        ArgumentError: the result has no such place for an axis, or `num_classes` is no integer.

    >>> import functad.numpy as jnp
    >>> one_hot(jnp.array([2, 0]), 3)
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    x = jnp.asarray(x)
    count = _class_count(num_classes)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise ArgumentError(
            f"one_hot: axis={axis} is no place for a new axis in an array of shape {x.shape}; "
            f"choose one in {-x.ndim - 1}..{x.ndim}"
        )
    place = axis % (x.ndim + 1)
    x = comparable(x, count)
    classes = jnp.arange(count, dtype=x.dtype).reshape((1,) * place + (count,) + (1,) * (x.ndim - place))
    same = jnp.expand_dims(x, place) == classes
    return same.astype(dtypes.default_float_dtype() if dtype is None else dtype)


# --- helpers ------------------------------------------------------------------------------------------


def sum_and_peak(a: Any, axis: AxisArgument, b: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """`(total, peak)` with `sum(b * exp(a)) = total * exp(peak)`: the peak, a constant, is the largest term's."""
    a = _inexact(a)
    if b is not None:
        a, b = jnp.broadcast_arrays(a, jnp.asarray(b, a.dtype))
        # A factor of 0 takes no part, even of an infinite term.
        a = jnp.where(b != 0, a, jnp.full_like(a, -math.inf))
    if where is not None:
        # What takes no part could overflow below, and infinity times a zero cotangent is NaN.
        a = jnp.where(where, a, jnp.full_like(a, -math.inf))
    peak = jnp.max(lax.stop_gradient(a), axis, keepdims=True, initial=-math.inf)
    peak = jnp.where(jnp.isfinite(peak), peak, jnp.zeros_like(peak))
    exps = jnp.exp(a - peak)
    total = jnp.sum(exps if b is None else b * exps, axis, keepdims=keepdims, where=where)
    return total, peak if keepdims else jnp.reshape(peak, total.shape)


def comparable(numbers: Any, count: int) -> Any:
    """Integers of a dtype that holds `count`, too, which in a comparison would wrap around."""
    if kind_of(numbers.dtype) in "iu" and count > jnp.iinfo(numbers.dtype).max:
        return numbers.astype("int64" if numbers.dtype.itemsize >= 4 else "int32")
    return numbers


def first_outside(numbers: Any, count: int) -> Any:
    """The first of some integers that is none of 0..count - 1, None if all are; tracers have no values to look at."""
    if not isinstance(numbers, ArrayImpl):
        return None
    values = np.asarray(numbers)
    wrong = values[(values < 0) | (values >= count)]
    return wrong[0] if wrong.size else None


def _inexact(x: Any) -> Any:
    """Integers and booleans as floats; floats and complex numbers stay what they are."""
    x = jnp.asarray(x)
    if kind_of(x.dtype) in "fc":
        return x
    return x * 1.0 if x.weak_type else x.astype(dtypes.to_inexact_dtype(x.dtype))


def _shifted(x: Any, axis: AxisArgument, where: Any) -> Any:
    """`x` minus its maximum, which cancels in every softmax; what takes no part becomes minus infinity."""
    initial = None if where is None and x.size else -math.inf
    peak = jnp.max(lax.stop_gradient(x), axis, keepdims=True, initial=initial, where=where)
    if where is not None:
        x = jnp.where(where, x, jnp.full_like(x, -math.inf))
    return x - peak


def _class_count(num_classes: Any) -> int:
    try:
        return operator.index(num_classes)
    except TypeError as problem:
        raise ArgumentError(
            f"one_hot: num_classes={num_classes!r} must be a Python integer, as it is part of the result's shape"
        ) from problem
