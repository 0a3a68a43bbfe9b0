"""Logarithms of probabilities: logit, entropies and divergences, softmax and logsumexp.

Knows their limits at 0, where they are composed of 0 · log 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.dtypes import kind_of
from functad.nn.functions import log_softmax as log_softmax_along
from functad.nn.functions import softmax as softmax_along
from functad.numpy.promotion import promote_args_inexact
from functad.primitives import elementwise as el
from functad.scipy.special.widening import in_float64


def logit(x: Any) -> Array:
    """log(x / (1 − x)), element-wise.

    >>> logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("logit", x)
    return _logit(jnp.asarray(x))


@custom_jvp
def _logit(x: Any) -> Any:
    if kind_of(x.dtype) == "c":
        return jnp.log(x / (1 - x))
    is_middle = (x > 0.3) & (x < 0.65)
    middle = jnp.where(is_middle, x, 0.5)
    # x / (1 − x) = 1 + (2 x − 1) / (1 − x), and its logarithm is 0 at 1/2
    return jnp.where(is_middle, jnp.log1p((2 * middle - 1) / (1 - middle)), jnp.log(x) - jnp.log1p(-x))


@_logit.defjvp
def _logit_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))  # d log(x / (1 − x)) = dx / (x (1 − x))


def expit(x: Any) -> Array:
    """1 / (1 + exp(−x)), element-wise.

    >>> expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return el.logistic(*promote_args_inexact("expit", x))


def xlogy(x: Any, y: Any) -> Array:
    """x log(y), and 0 where x is 0, whatever y is, element-wise.

    >>> xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*(jnp.asarray(a) for a in promote_args_inexact("xlogy", x, y)))


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    is_zero = x == 0
    return jnp.where(is_zero, 0.0, x * jnp.log(jnp.where(is_zero, 1.0, y)))


@partial(_xlogy.defjvp, symbolic_zeros=True)
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    change = 0.0  # d x log y = log y dx + x/y dy
    if not isinstance(x_dot, SymbolicZero):
        change = change + x_dot * jnp.log(y)
    if not isinstance(y_dot, SymbolicZero):
        change = change + y_dot * _over(x, y)
    return _xlogy(x, y), change


def xlog1py(x: Any, y: Any) -> Array:
    """x log(1 + y), and 0 where x is 0, whatever y is, element-wise.

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlog1py(*(jnp.asarray(a) for a in promote_args_inexact("xlog1py", x, y)))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    is_zero = x == 0
    return jnp.where(is_zero, 0.0, x * jnp.log1p(jnp.where(is_zero, 0.0, y)))


@partial(_xlog1py.defjvp, symbolic_zeros=True)
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    change = 0.0  # d x log(1+y) = log(1+y) dx + x/(1+y) dy
    if not isinstance(x_dot, SymbolicZero):
        change = change + x_dot * jnp.log1p(y)
    if not isinstance(y_dot, SymbolicZero):
        change = change + y_dot * _over(x, 1 + y)
    return _xlog1py(x, y), change


def _over(x: Any, y: Any) -> Any:
    """x / y, and 0 of 0 / 0: x log y is 0 for all y where x is."""
    neither = (x == 0) & (y == 0)
    return jnp.where(neither, 0.0, x / jnp.where(neither, 1.0, y))


@custom_jvp
def _xlogx(x: Any) -> Any:
    return _xlogy(x, x)


@_xlogx.defjvp
def _xlogx_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return _xlogx(x), t * (jnp.log(x) + 1)  # d x log x = (log x + 1) dx


def entr(x: Any) -> Array:
    """−x log(x), 0 at 0 and −∞ below, element-wise.

    >>> entr(0.5)
    Array(0.3465736, dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("entr", x)
    return jnp.where(x < 0, -jnp.inf, -_xlogx(jnp.asarray(x)))


def kl_div(p: Any, q: Any) -> Array:
    """p log(p / q) − p + q; ∞ outside of p ≥ 0, q ≥ 0 and where q alone is 0, element-wise.

    >>> kl_div(0.5, 0.25)
    Array(0.0965736, dtype=float32, weak_type=True)
    """
    return in_float64("kl_div", lambda p, q: _on_domain(_divergence, lambda p, q: q - p, p, q), p, q, stays_weak=True)


def rel_entr(p: Any, q: Any) -> Array:
    """p log(p / q); 0 where p is 0, ∞ outside of p ≥ 0, q ≥ 0 and where q alone is 0, element-wise.

    >>> rel_entr(0.5, 0.25)
    Array(0.3465736, dtype=float32, weak_type=True)
    """

    def entropy(p: Any, q: Any) -> Any:
        return _on_domain(_relative_entropy, lambda p, q: 0.0, p, q)

    return in_float64("rel_entr", entropy, p, q, stays_weak=True)


def _on_domain(function: Callable[..., Any], where_p_is_zero: Callable[..., Any], p: Any, q: Any) -> Any:
    p, q = jnp.broadcast_arrays(p, q)
    both, neither = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    inside = function(jnp.where(both, p, 1.0), jnp.where(both, q, 1.0))
    out = jnp.where(both, inside, jnp.where(neither, where_p_is_zero(p, q), jnp.inf))
    return jnp.where(jnp.isnan(p) | jnp.isnan(q), jnp.nan, out)


_SMALLEST = float(np.finfo(np.float64).tiny)


@custom_jvp
def _log_ratio(p: Any, q: Any) -> Any:
    ratio = p / q
    is_near = jnp.abs(ratio - 1) < 0.5
    near = jnp.log1p(jnp.where(is_near, p - q, 0.0) / jnp.where(is_near, q, 1.0))
    # A ratio below the normal numbers has lost digits.
    representable = (ratio >= _SMALLEST) & (ratio < jnp.inf) | jnp.isinf(p) | jnp.isinf(q)
    return jnp.where(is_near, near, jnp.where(representable, jnp.log(ratio), jnp.log(p) - jnp.log(q)))


@_log_ratio.defjvp
def _log_ratio_jvp(primals: Any, tangents: Any) -> Any:
    (p, q), (p_dot, q_dot) = primals, tangents
    return _log_ratio(p, q), p_dot / p - q_dot / q  # d log(p/q) = dp/p − dq/q


@custom_jvp
def _relative_entropy(p: Any, q: Any) -> Any:
    return p * _log_ratio(p, q)


@_relative_entropy.defjvp
def _relative_entropy_jvp(primals: Any, tangents: Any) -> Any:
    (p, q), (p_dot, q_dot) = primals, tangents
    log_ratio = _log_ratio(p, q)
    return p * log_ratio, p_dot * (log_ratio + 1) - q_dot * (p / q)  # d p log(p/q) = (log(p/q) + 1) dp − p/q dq


@custom_jvp
def _divergence(p: Any, q: Any) -> Any:
    return p * _log_ratio(p, q) + (q - p)


@_divergence.defjvp
def _divergence_jvp(primals: Any, tangents: Any) -> Any:
    (p, q), (p_dot, q_dot) = primals, tangents
    # d (p log(p/q) − p + q) = log(p/q) dp + (1 − p/q) dq
    return _divergence(p, q), p_dot * _log_ratio(p, q) + q_dot * ((q - p) / q)


def softmax(x: Any, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """exp(x) / Σ exp(x) along axes, by default all.

    >>> softmax(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return softmax_along(x, axis)


def log_softmax(x: Any, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """x − log Σ exp(x) along axes, by default all.

    >>> log_softmax(jnp.zeros(4))
    Array([-1.386294, -1.386294, -1.386294, -1.386294], dtype=float32)
    """
    return log_softmax_along(x, axis)
