"""Continuous distributions, each as a function of uniform random numbers.

Knows no generator: all randomness comes from `uniform`. The parameters are differentiable. What rounds is done by
`primitives.strict`, or is one sum, difference or quotient: so the numbers are the same to the bit in every mode.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.eager import composed
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy.promotion import (
    broadcast_operand,
    canonical_shape,
    convert,
    joint_shape,
    operand,
)
from functad.primitives import elementwise as el
from functad.primitives import strict
from functad.primitives.bitcast import bitcast_convert_type
from functad.primitives.joining import unstack
from functad.random.keys import random_bits, split

_UNSIGNED: dict[int, np.dtype] = {2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Uniform random numbers in [minval, maxval).

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).
        minval, maxval: bounds that broadcast to `shape`.

    >>> import functad
    >>> functad.random.uniform(functad.random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    dtype, shape = float_dtype("uniform", dtype), canonical_shape("uniform", shape)
    return _uniform("uniform", key, shape, dtype, minval, maxval)


def normal(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard normal random numbers.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: a floating or complex dtype, by default float32 (float64 with `enable_x64`). Complex
            numbers have independent parts of variance 1/2.

    >>> import functad
    >>> functad.random.normal(functad.random.key(0), (2,))
    Array([1.6226422, 2.025265 ], dtype=float32)
    """
    shape = canonical_shape("normal", shape)
    if dtype is not None and kind_of(dtypes.requested_dtype(dtype)) == "c":
        complex_dtype = dtypes.requested_dtype(dtype)
        part = np.empty(0, complex_dtype).real.dtype
        parts = [_normal("normal", k, shape, part) for k in unstack(split(key))]
        return el.complex(*(strict.mul(p, part.type(math.sqrt(0.5))) for p in parts))
    return _normal("normal", key, shape, float_dtype("normal", dtype))


@composed
def _normal(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    low, span, root = _normal_constants(dtype)
    return strict.mul(root, el.erf_inv(_between(_unit(name, key, shape, dtype), low, span)))


@cache
def _normal_constants(dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """The number above −1, its distance from 1, and √2."""
    above_minus_one = np.nextafter(dtype.type(-1), dtype.type(0))
    return _of_rank_0(dtype, above_minus_one, 1 - above_minus_one, math.sqrt(2))


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Standard normal random numbers restricted to (lower, upper).

    Args:
        key: a key, typed or raw.
        lower, upper: bounds that broadcast to `shape`.
        shape: the shape of the result, by default that of the bounds.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.truncated_normal(functad.random.key(0), -1., 1., (2,)).tolist()
    [0.862, 0.941]
    """
    dtype = float_dtype("truncated_normal", dtype)
    low, high = (convert(operand("truncated_normal", b), dtype) for b in (lower, upper))
    shapes = [aval_of(b).shape for b in (low, high)]
    shape = joint_shape("truncated_normal", shapes) if shape is None else canonical_shape("truncated_normal", shape)
    low, high = (_spread("truncated_normal", b, shape) for b in (low, high))
    root = dtype.type(math.sqrt(2))
    u = _uniform("truncated_normal", key, shape, dtype, strict.erf(el.div(low, root)), strict.erf(el.div(high, root)))
    out = strict.mul(root, el.erf_inv(u))
    # Rounding must not give the bounds themselves.
    above = el.nextafter(el.stop_gradient(low), dtype.type(math.inf))
    below = el.nextafter(el.stop_gradient(high), dtype.type(-math.inf))
    return el.min(el.max(out, above), below)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Array:
    """Random numbers of the standard Gumbel distribution, `-log(-log(u))`.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).
        mode: "low" (the default), or "high" for twice the random bits, hence finer large values.

    >>> import functad
    >>> functad.random.gumbel(functad.random.key(0), (2,))
    Array([2.9233725, 3.8326175], dtype=float32)
    """
    dtype, shape = float_dtype("gumbel", dtype), canonical_shape("gumbel", shape)
    info = finfo(dtype)
    if check_mode("gumbel", mode) == "low":
        u = _positive_uniform("gumbel", key, shape, dtype)
        return el.neg(strict.log(el.neg(strict.log(u))))
    coarse, fine = unstack(_uniform("gumbel", key, (2, *shape), dtype, 0.0, 1.0))
    refined = el.add(el.add(coarse, strict.mul(dtype.type(info.eps), fine)), dtype.type(info.tiny))
    x = el.select_n(el.ge(coarse, dtype.type(0.5)), refined, coarse)
    return el.neg(strict.log(el.neg(strict.log1p(el.neg(x)))))


def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the exponential distribution of rate 1, `-log(1 - u)`; arguments as for `uniform`.

    >>> import functad
    >>> functad.random.exponential(functad.random.key(0), (2,))
    Array([2.950128 , 3.8434246], dtype=float32)
    """
    dtype, shape = float_dtype("exponential", dtype), canonical_shape("exponential", shape)
    return el.neg(strict.log1p(el.neg(_uniform("exponential", key, shape, dtype, 0.0, 1.0))))


def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the Laplace distribution of scale 1; arguments as for `uniform`.

    >>> import functad
    >>> functad.random.laplace(functad.random.key(0), (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("laplace", dtype), canonical_shape("laplace", shape)
    above_minus_one = dtype.type(-1) + dtype.type(finfo(dtype).epsneg)
    u = _uniform("laplace", key, shape, dtype, above_minus_one, 1.0)
    return strict.mul(el.sign(u), strict.log1p(el.neg(el.abs(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the standard logistic distribution, `log(u / (1 - u))`; arguments as for `uniform`.

    >>> import functad
    >>> functad.random.logistic(functad.random.key(0), (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("logistic", dtype), canonical_shape("logistic", shape)
    u = _positive_uniform("logistic", key, shape, dtype)
    return el.sub(strict.log(u), strict.log1p(el.neg(u)))


def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the standard Cauchy distribution, `tan(pi (u - 1/2))`; arguments as for `uniform`.

    >>> import functad
    >>> functad.random.cauchy(functad.random.key(0), (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("cauchy", dtype), canonical_shape("cauchy", shape)
    u = _uniform("cauchy", key, shape, dtype, finfo(dtype).eps, 1.0)
    return strict.tan(strict.mul(dtype.type(math.pi), el.sub(u, dtype.type(0.5))))


def float_dtype(name: str, dtype: Any) -> np.dtype:
    """The dtype that an argument names, checked to be a floating one."""
    if dtype is None:
        return dtypes.default_float_dtype()
    dtype = dtypes.requested_dtype(dtype)
    if kind_of(dtype) != "f":
        raise DTypeError(f"{name}: dtype must be a floating dtype, got {dtype}; try 'float32'")
    return dtype


def check_mode(name: str, mode: str | None) -> str:
    if mode not in (None, "low", "high"):
        raise ArgumentError(f"{name}: mode={mode!r} is unknown: it must be 'low' or 'high'")
    return mode or "low"


@composed
def _uniform(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, minval: Any, maxval: Any) -> Any:
    unit = _unit(name, key, shape, dtype)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit
    low, high = (_bound(name, b, dtype, shape) for b in (minval, maxval))
    return _between(unit, low, el.sub(high, low))


def _unit(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Random numbers in [0, 1): random mantissa bits under the exponent of 1 make a number in [1, 2)."""
    drawn, word, unused, pattern, one = _unit_constants(dtype)
    random = random_bits(name, key, drawn, shape)
    if drawn is not word:
        random = convert(random, word)
    random = el.or_(el.shift_right_logical(random, unused), pattern)
    return el.sub(bitcast_convert_type(random, dtype), one)


@cache
def _unit_constants(dtype: np.dtype) -> tuple[np.dtype, np.dtype, np.ndarray, np.ndarray, np.ndarray]:
    """The dtypes of drawn bits and of a number's pattern, how many bits are too many, and 1 as pattern and number."""
    word, mantissa = _UNSIGNED[dtype.itemsize], finfo(dtype).nmant
    drawn = dtypes.uint8 if mantissa < 8 else word  # JAX draws no more bits for bfloat16
    (one,) = _of_rank_0(dtype, 1)
    unused, pattern = _of_rank_0(word, 8 * drawn.itemsize - mantissa, one[()].view(word))
    return drawn, word, unused, pattern, one


def _between(unit: Any, low: Any, span: Any) -> Any:
    return el.max(low, el.add(strict.mul(unit, span), low))


def _of_rank_0(dtype: np.dtype, *values: Any) -> tuple[np.ndarray, ...]:
    """Numbers as arrays, which NumPy takes in half of the time of its scalars."""
    arrays = tuple(np.array(v, dtype) for v in values)
    for a in arrays:
        a.setflags(write=False)
    return arrays


def _bound(name: str, bound: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    """A bound in the dtype, of the shape of the result or of rank 0."""
    if type(bound) is dtype.type or (type(bound) is float and abs(bound) < 6e4):  # every float dtype holds it
        return dtype.type(bound)
    return _spread(name, convert(operand(name, bound), dtype), shape)


def _positive_uniform(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Uniform random numbers whose logarithm is finite."""
    return el.max(dtype.type(finfo(dtype).tiny), _uniform(name, key, shape, dtype, 0.0, 1.0))


def _spread(name: str, bound: Any, shape: tuple[int, ...]) -> Any:
    """A bound of the shape of the result, or of rank 0."""
    own = aval_of(bound).shape
    if own == ():
        return bound
    if joint_shape(name, [own, shape]) != shape:
        raise ShapeError(f"{name}: a parameter of shape {own} does not broadcast to shape={shape} of the result")
    return broadcast_operand(bound, shape)
