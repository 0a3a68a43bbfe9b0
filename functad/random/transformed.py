"""Continuous distributions that are functions of uniform, normal or exponential numbers, and parameters.

Knows no generator. The parameters are differentiable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import kind_of
from functad.numpy.promotion import canonical_shape, promote_dtypes_inexact
from functad.primitives import elementwise as el
from functad.primitives import strict
from functad.random.continuous import exponential, float_dtype, normal, uniform
from functad.random.discrete import rademacher
from functad.random.keys import split
from functad.random.parameters import integer_dtype, parameters


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers whose logarithms are normal with standard deviation `sigma`.

    Args:
        key: a key, typed or raw.
        sigma: the standard deviation of the logarithms; broadcasts to `shape`.
        shape: the shape of the result, by default that of `sigma`.
        dtype: a floating or complex dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.lognormal(functad.random.key(0), 0.5, (2,)).shape
    (2,)
    """
    is_complex = dtype is not None and kind_of(dtypes.requested_dtype(dtype)) == "c"
    dtype = dtypes.requested_dtype(dtype) if is_complex else float_dtype("lognormal", dtype)
    shape, (sigma,) = parameters("lognormal", dtype, shape, sigma)
    return el.exp(el.mul(normal(key, shape, dtype), sigma))


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of the Pareto distribution: at least 1, of density b x^(−b−1).

    Args:
        key: a key, typed or raw.
        b: the exponent, positive; broadcasts to `shape`.
        shape: the shape of the result, by default that of `b`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.pareto(functad.random.key(0), 2.0, (2,))
    Array([4.3713155, 6.8326483], dtype=float32)
    """
    dtype = float_dtype("pareto", dtype)
    shape, (b,) = parameters("pareto", dtype, shape, b)
    return el.exp(el.div(exponential(key, shape, dtype), b))


def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of the Rayleigh distribution: the lengths of normal vectors in the plane.

    Args:
        key: a key, typed or raw.
        scale: the standard deviation of the vectors' coordinates; broadcasts to `shape`.
        shape: the shape of the result, by default that of `scale`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.rayleigh(functad.random.key(0), 2.0, (2,))
    Array([0.65575665, 0.41620055], dtype=float32)
    """
    dtype = float_dtype("rayleigh", dtype)
    shape, (scale,) = parameters("rayleigh", dtype, shape, scale)
    return el.mul(scale, el.sqrt(el.mul(strict.log(uniform(key, shape, dtype)), dtype.type(-2))))


def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the Maxwell distribution: the lengths of standard normal vectors in space.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.maxwell(functad.random.key(0), (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("maxwell", dtype), canonical_shape("maxwell", shape)
    return jnp.linalg.norm(normal(key, (*shape, 3), dtype), axis=-1)


def double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the Maxwell distribution with random signs, scaled and moved.

    Args:
        key: a key, typed or raw.
        loc: the centre.
        scale: the scale.
        shape: the shape of the result before that of the parameters; by default theirs.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    Returns:
        An array of the shape (*shape, *(the parameters' joint shape)), as in JAX.

    >>> import functad
    >>> functad.random.double_sided_maxwell(functad.random.key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("double_sided_maxwell", dtype), canonical_shape("double_sided_maxwell", shape)
    own, (loc, scale) = parameters("double_sided_maxwell", dtype, None, loc, scale)
    shape = (*(shape or own), *own)
    key_size, key_sign = split(key)
    return rademacher(key_sign, shape, dtype) * maxwell(key_size, shape, dtype) * scale + loc


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of the Weibull distribution.

    Args:
        key: a key, typed or raw.
        scale: the scale.
        concentration: the exponent of the distribution function 1 − exp(−(x/scale)^concentration).
        shape: the shape of the uniform numbers, with which the parameters are broadcast, as in JAX.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.weibull_min(functad.random.key(0), 2.0, 3.0, (2,))
    Array([2.8684258, 3.132825 ], dtype=float32)
    """
    dtype, shape = float_dtype("weibull_min", dtype), canonical_shape("weibull_min", shape)
    return jnp.power(exponential(key, shape, dtype), 1.0 / jnp.asarray(concentration)) * scale


def triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers between `left` and `right`, of a density with straight sides and its top at `mode`.

    Args:
        key: a key, typed or raw.
        left, mode, right: the ends and the top; they broadcast to `shape`.
        shape: the shape of the result, by default their joint one.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.triangular(functad.random.key(0), 0.0, 1.0, 2.0, (2,))
    Array([1.6764787, 1.7930212], dtype=float32)
    """
    dtype = float_dtype("triangular", dtype)
    shape, (left, mode, right) = parameters("triangular", dtype, shape, left, mode, right)
    u = uniform(key, shape, dtype)
    rising = left + jnp.sqrt(u * (right - left) * (mode - left))
    falling = right - jnp.sqrt((1 - u) * (right - left) * (right - mode))
    return jnp.where(u < (mode - left) / (right - left), rising, falling)


def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of Wald's distribution, the inverse Gaussian one of scale 1.

    Source: J. Michael, W. Schucany and R. Haas, The American Statistician 30 (1976).

    Args:
        key: a key, typed or raw.
        mean: the mean, positive; broadcasts to `shape`.
        shape: the shape of the result, by default that of `mean`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.wald(functad.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    dtype = float_dtype("wald", dtype)
    shape, (mean,) = parameters("wald", dtype, shape, mean)
    key_normal, key_uniform = split(key)
    y, u = normal(key_normal, shape, dtype) ** 2, uniform(key_uniform, shape, dtype)
    squared = mean**2
    root = mean + squared * y / 2 - mean / 2 * jnp.sqrt(4 * mean * y + squared * y**2)
    return jnp.where(u <= mean / (mean + root), root, squared / root)


def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of trials, each successful with probability p, up to the first success: 1, 2, ….

    Args:
        key: a key, typed or raw.
        p: the probability of success; broadcasts to `shape`.
        shape: the shape of the result, by default that of `p`.
        dtype: an integer dtype, by default int32 (int64 with `enable_x64`).

    >>> import functad
    >>> functad.random.geometric(functad.random.key(0), 0.01, (3,)).shape
    (3,)
    """
    dtype = integer_dtype("geometric", dtype)
    (p,) = promote_dtypes_inexact(p)
    real = np.dtype(p.dtype)
    shape, (p,) = parameters("geometric", real, shape, p)
    ratio = el.div(strict.log(uniform(key, shape, real)), strict.log1p(el.neg(p)))
    return (el.floor(ratio) + 1).astype(dtype)
