"""Gamma distributions, and those made of them: beta, Dirichlet, chi-square, F, Student's t, generalised normal.

Knows one way of drawing, by rejection: G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables",
ACM Transactions on Mathematical Software 26 (2000). Numbers are differentiable in the parameters: by implicit
differentiation of the distribution function (M. Figurnov, S. Mohamed and A. Mnih, 2018).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.api.custom_rules import custom_jvp
from functad.api.mapping import vmap
from functad.array import Array
from functad.dtypes import finfo
from functad.errors import ArgumentError, ShapeError
from functad.lax.loops import while_loop
from functad.numpy.building import as_array
from functad.numpy.promotion import canonical_shape
from functad.primitives import elementwise as el
from functad.primitives import strict
from functad.primitives.incomplete import random_gamma_grad
from functad.random.continuous import exponential, float_dtype, normal, uniform
from functad.random.discrete import rademacher
from functad.random.keys import split
from functad.random.parameters import parameters


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of the gamma distribution of shape parameter `a` and scale 1, differentiable in `a`.

    Args:
        key: a key, typed or raw.
        a: the shape parameter, positive; broadcasts to `shape`.
        shape: the shape of the result, by default that of `a`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: `a` does not broadcast to `shape`.
        DTypeError: `dtype` is no floating dtype.

    >>> import functad
    >>> functad.random.gamma(functad.random.key(0), 3.0, (1000,)).mean().round(1)
    Array(3., dtype=float32)
    """
    dtype = float_dtype("gamma", dtype)
    return _gamma("gamma", key, a, shape, dtype, log_space=False)


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The logarithms of random numbers of the gamma distribution, finite for small `a`, too; arguments as for `gamma`.

    >>> import functad
    >>> functad.random.loggamma(functad.random.key(0), 1e-3, (2,)).shape
    (2,)
    """
    dtype = float_dtype("loggamma", dtype)
    return _gamma("loggamma", key, a, shape, dtype, log_space=True)


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of the beta distribution, in (0, 1), differentiable in `a` and `b`.

    Args:
        key: a key, typed or raw.
        a, b: the two shape parameters, positive; they broadcast to `shape`.
        shape: the shape of the result, by default the joint one of `a` and `b`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.beta(functad.random.key(0), 2.0, 3.0, (2,)).shape
    (2,)
    """
    dtype = float_dtype("beta", dtype)
    shape, (a, b) = parameters("beta", dtype, shape, a, b)
    keys = split(key)
    logs = [_gamma("beta", k, p, shape, dtype, log_space=True) for k, p in zip(keys, (a, b))]
    largest = el.max(*logs)  # neither over- nor underflows if both are compared with the larger one
    first, second = (el.exp(el.sub(x, largest)) for x in logs)
    return el.div(first, el.add(first, second))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random probabilities of the Dirichlet distribution: vectors of sum 1, differentiable in `alpha`.

    Args:
        key: a key, typed or raw.
        alpha: the concentrations, positive, of shape (..., n).
        shape: the shape of the result without its last axis, by default that of `alpha` without its last.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    Returns:
        An array of shape (*shape, n).

    >>> import functad
    >>> import functad.numpy as jnp
    >>> functad.random.dirichlet(functad.random.key(0), jnp.ones(3), (2,)).shape
    (2, 3)
    """
    dtype, alpha = float_dtype("dirichlet", dtype), as_array("dirichlet", alpha)
    if alpha.ndim < 1:
        raise ShapeError("dirichlet: alpha must be a vector of concentrations, or an array of such, got one number")
    shape = alpha.shape[:-1] if shape is None else canonical_shape("dirichlet", shape)
    logs = _gamma("dirichlet", key, alpha, (*shape, alpha.shape[-1]), dtype, log_space=True)
    parts = jnp.exp(logs - jnp.max(logs, axis=-1, keepdims=True))
    return parts / jnp.sum(parts, axis=-1, keepdims=True)


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of the chi-square distribution.

    Args:
        key: a key, typed or raw.
        df: the degrees of freedom, positive; broadcast to `shape`.
        shape: the shape of the result, by default that of `df`.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.chisquare(functad.random.key(0), 3.0, (2,)).shape
    (2,)
    """
    dtype = float_dtype("chisquare", dtype)
    shape, (df,) = parameters("chisquare", dtype, shape, df)
    return _chisquare("chisquare", key, df, dtype)


def _chisquare(name: str, key: Any, df: Any, dtype: np.dtype) -> Any:
    two = dtype.type(2)
    return el.mul(el.exp(_gamma(name, key, el.div(df, two), None, dtype, log_space=True)), two)


def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random numbers of Fisher's F distribution.

    Args:
        key: a key, typed or raw.
        dfnum, dfden: the degrees of freedom of numerator and denominator, positive; they broadcast to `shape`.
        shape: the shape of the result, by default their joint one.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.f(functad.random.key(0), 3.0, 4.0, (2,)).shape
    (2,)
    """
    dtype = float_dtype("f", dtype)
    shape, (dfnum, dfden) = parameters("f", dtype, shape, dfnum, dfden)
    key_below, key_above = split(key)
    above, below = (_chisquare("f", k, df, dtype) for k, df in ((key_above, dfnum), (key_below, dfden)))
    return el.div(el.div(above, dfnum), el.div(below, dfden))


def t(key: Any, df: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of Student's t distribution.

    Args:
        key: a key, typed or raw.
        df: the degrees of freedom, positive; broadcast to `shape`.
        shape: the shape of the result.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.t(functad.random.key(0), 3.0, (2,)).shape
    (2,)
    """
    dtype = float_dtype("t", dtype)
    shape, (df,) = parameters("t", dtype, shape, df)
    key_normal, key_gamma = split(key)
    half = el.div(df, dtype.type(2))
    drawn = _gamma("t", key_gamma, half, None, dtype, log_space=False)
    return el.mul(normal(key_normal, shape, dtype), el.sqrt(el.div(half, drawn)))


def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random numbers of density proportional to exp(−|x|^p).

    Args:
        key: a key, typed or raw.
        p: the exponent, a positive number.
        shape: the shape of the result.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    >>> import functad
    >>> functad.random.generalized_normal(functad.random.key(0), 4.0, (2,)).shape
    (2,)
    """
    dtype, shape = float_dtype("generalized_normal", dtype), canonical_shape("generalized_normal", shape)
    key_size, key_sign = split(key)
    size = _gamma("generalized_normal", key_size, 1 / p, shape, dtype, log_space=False)
    return rademacher(key_sign, shape, dtype) * size ** (1 / p)


def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Array:
    """Random points, uniform in the unit ball of the p-norm.

    Args:
        key: a key, typed or raw.
        d: the number of dimensions.
        p: the norm's exponent, a positive number.
        shape: the shape of the result without its last axis.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    Returns:
        An array of shape (*shape, d).

    >>> import functad
    >>> functad.random.ball(functad.random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    dtype, shape = float_dtype("ball", dtype), canonical_shape("ball", shape)
    if not hasattr(d, "__index__") or d < 0:
        raise ArgumentError(f"ball: d, the number of dimensions, must be an integer of at least 0, got {d!r}")
    key_point, key_radius = split(key)
    point = generalized_normal(key_point, p, (*shape, d), dtype)
    rest = exponential(key_radius, shape, dtype)
    return point / ((jnp.sum(jnp.abs(point) ** p, axis=-1) + rest) ** (1 / p))[..., None]


# --- one gamma variable -----------------------------------------------------------------------------


def _gamma(name: str, key: Any, a: Any, shape: Any, dtype: np.dtype, log_space: bool) -> Any:
    """Each element has a key of its own, so that how often one is drawn anew changes no other."""
    shape, (a,) = parameters(name, dtype, shape, a)
    keys = split(key, math.prod(shape))
    if not math.prod(shape):
        return a
    draw = _drawn_logs if log_space else _drawn
    return jnp.reshape(draw(keys, jnp.ravel(a)), shape)


@custom_jvp
def _drawn(keys: Any, a: Any) -> Any:
    return vmap(partial(_draw, log_space=False))(keys, a)


@custom_jvp
def _drawn_logs(keys: Any, a: Any) -> Any:
    return vmap(partial(_draw, log_space=True))(keys, a)


@_drawn.defjvp
def _drawn_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    out = _drawn(*primals)
    return out, tangents[1] * random_gamma_grad(primals[1], out)


@_drawn_logs.defjvp
def _drawn_logs_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    out = _drawn_logs(*primals)
    sample = jnp.maximum(jnp.exp(out), finfo(out.dtype).tiny)
    return out, tangents[1] * (random_gamma_grad(primals[1], sample) / sample)  # d log x = dx / x


def _draw(key: Any, a: Any, log_space: bool) -> Any:
    """One gamma variable: d·v for d = a − 1/3 and a v that is accepted; for a < 1 one of a + 1, times u^(1/a)."""
    number = a.dtype.type
    one, tiny_part = number(1), number(1 / 3)
    is_large = el.ge(a, one)
    d = el.sub(el.select_n(is_large, el.add(a, one), a), tiny_part)
    key, boost_key = split(key)
    v = _accepted(key, d, el.div(tiny_part, el.sqrt(d)))
    if log_space:
        drawn = el.neg(exponential(boost_key, (), a.dtype))
        zero_or_nan = el.mul(a, 0 * one)  # NaN of an infinite a
        boost = el.select_n(el.or_(is_large, el.eq(drawn, number(0))), el.mul(drawn, el.div(one, a)), zero_or_nan)
        return el.add(el.add(strict.log(d), strict.log(v)), boost)
    boost = el.pow(el.sub(one, uniform(boost_key, (), a.dtype)), el.div(one, a))
    one_or_nan = el.div(a, a)
    return el.mul(el.mul(d, v), el.select_n(is_large, boost, one_or_nan))


def _accepted(key: Any, d: Any, c: Any) -> Any:
    """v = (1 + c x)³ of a normal x, drawn anew until a uniform u says that it has the right density."""
    number = d.dtype.type
    one, zero, two = (jnp.full((), n, d.dtype) for n in (1, 0, 2))

    def is_rejected(state: Any) -> Any:
        _, square, v, u = state
        is_outside = el.ge(u, el.sub(number(1), strict.mul(number(0.0331), strict.mul(square, square))))
        bound = strict.mul(d, el.add(el.sub(number(1), v), strict.log(v)))
        return el.and_(is_outside, el.ge(strict.log(u), el.add(strict.mul(square, number(0.5)), bound)))

    def draw(state: Any) -> Any:
        key, normal_key, uniform_key = split(state[0], 3)
        _, x, root = while_loop(lambda s: el.le(s[2], number(0)), draw_root, (normal_key, zero, -one))
        v = strict.mul(strict.mul(root, root), root)
        return key, strict.mul(x, x), v, uniform(uniform_key, (), d.dtype)

    def draw_root(state: Any) -> Any:
        key, subkey = split(state[0])
        x = normal(subkey, (), d.dtype)
        return key, x, el.add(number(1), strict.mul(x, c))

    return while_loop(is_rejected, draw, (key, zero, one, two))[2]
