"""Random counts: Poisson, binomial and multinomial.

Knows sums of waiting times for small counts, and transformed rejection for large ones: W. Hörmann, "The transformed
rejection method for generating Poisson random variables", and "The generation of binomial random variates" (both 1993).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad import numpy as jnp
from functad.array import Array
from functad.lax.loops import scan, while_loop
from functad.numpy.promotion import canonical_shape, operand, promote_dtypes_inexact
from functad.primitives import elementwise as el
from functad.primitives import strict
from functad.random.continuous import float_dtype, uniform
from functad.random.keys import clone, split
from functad.random.parameters import integer_dtype, parameters


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random counts of the Poisson distribution.

    Args:
        key: a key, typed or raw.
        lam: the expected counts, not negative; broadcast to `shape`.
        shape: the shape of the result, by default that of `lam`.
        dtype: an integer dtype, by default int32 (int64 with `enable_x64`).

    Returns:
        An array of that shape and dtype; −1 where `lam` is negative, infinite or NaN.

    Raises:
        ShapeError: `lam` does not broadcast to `shape`.
        DTypeError: `dtype` is no integer dtype.

    >>> import functad
    >>> functad.random.poisson(functad.random.key(0), 4.0, (3,)).dtype
    dtype('int32')
    """
    dtype = integer_dtype("poisson", dtype)
    shape, (lam,) = parameters("poisson", dtypes.as_dtype("float32"), shape, lam)
    is_few = jnp.isnan(lam) | (lam < machine_model.FEW_COUNTED)
    few = _few_of_poisson(key, jnp.where(is_few, lam, 0.0))
    many = _many_of_poisson(clone(key), jnp.where(is_few | jnp.isinf(lam), 1e5, lam))
    count = jnp.where(lam == 0, 0, jnp.where(is_few, few, many))
    return jnp.where(jnp.isinf(lam), -1, count).astype(dtype)


def _few_of_poisson(key: Any, lam: Any) -> Any:
    """How many exponential waiting times fit into lam (D. Knuth, The Art of Computer Programming 2, 3.4.1)."""
    return _waits(key, lam, lambda log_u: el.neg(log_u), lambda total: total < lam, carried=0)


def _waits(key: Any, like: Any, wait: Callable[[Any], Any], is_within: Callable[[Any], Any], carried: int) -> Any:
    """How many waiting times, made of logarithms of uniform numbers, have a sum that is still within.

    carried: which of the two keys, made of one at each step, is for the steps to come; as in JAX.
    """

    def step(state: Any) -> Any:
        count, total, key = state
        keys = split(key)
        count = jnp.where(is_within(total), count + 1, count)
        log_u = strict.log(uniform(keys[1 - carried], like.shape, like.dtype))
        return count, total + wait(log_u), keys[carried]

    start = (jnp.zeros_like(like), jnp.zeros_like(like), jnp.asarray(key))
    return while_loop(lambda state: jnp.any(is_within(state[1])), step, start)[0] - 1


def _many_of_poisson(key: Any, lam: Any) -> Any:
    b = 0.931 + strict.mul(np.float32(2.53), jnp.sqrt(lam))
    a = -0.059 + strict.mul(np.float32(0.02483), b)
    log_lam = strict.log(lam)
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def propose(u: Any, v: Any) -> tuple[Any, Any, Any]:
        room = 0.5 - jnp.abs(u)
        count = jnp.floor(strict.mul(2 * a / room + b, u) + lam + 0.43)
        bound = strict.mul(count, log_lam) - lam - el.lgamma(count + 1)
        height = strict.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / strict.mul(room, room) + b))
        is_out = (count < 0) | ((room < 0.013) & (v > room))
        return count, (room >= 0.07) & (v <= squeeze), ~is_out & (height <= bound)

    return _accepted(key, lam, propose)


def _accepted(key: Any, like: Any, propose: Callable[[Any, Any], tuple[Any, Any, Any]]) -> Any:
    """Proposals for all elements, drawn anew until each of them has accepted one; elements keep their last."""

    def step(state: Any) -> Any:
        out, is_done, key = state
        key, key_u, key_v = split(key, 3)
        u, v = uniform(key_u, like.shape, like.dtype) - 0.5, uniform(key_v, like.shape, like.dtype)
        count, surely, after_all = propose(u, v)
        accepted = surely | after_all
        return jnp.where(accepted, count, out), is_done | accepted, key

    start = (jnp.full_like(like, -1), jnp.zeros(like.shape, bool), jnp.asarray(key))
    return while_loop(lambda state: jnp.any(~state[1]), step, start)[0]


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Random counts of successes among n trials, each successful with probability p.

    Args:
        key: a key, typed or raw.
        n: the numbers of trials, which are rounded down; they broadcast to `shape`.
        p: the probabilities, which broadcast to `shape`.
        shape: the shape of the result, by default their joint one.
        dtype: a floating dtype, by default float32 (float64 with `enable_x64`).

    Returns:
        An array of whole numbers of that shape and floating dtype; NaN where n is negative or one is NaN.

    Raises:
        ShapeError: n or p does not broadcast to `shape`.
        DTypeError: `dtype` is no floating dtype.

    >>> import functad
    >>> functad.random.binomial(functad.random.key(0), 10, 0.5, (3,)).dtype
    dtype('float32')
    """
    dtype = float_dtype("binomial", dtype)
    (p,) = promote_dtypes_inexact(operand("binomial", p))
    shape, (n, p) = parameters("binomial", np.dtype(p.dtype), shape, n, p)
    no_count, no_chance = jnp.isnan(n) | (n < 0), jnp.isnan(p)
    is_rare = p < 0.5
    q = jnp.where(is_rare, p, 1 - p)  # the rarer of success and failure is counted
    is_below = q < 0
    q = jnp.where(no_chance | is_below, 0.01, q)
    is_few = no_count | (n * q <= machine_model.FEW_COUNTED)
    n = jnp.floor(n)
    few = _few_of_binomial(key, jnp.where(is_few, n, 0.0), q)
    is_regular = ~is_few & jnp.isfinite(n)
    many = _many_of_binomial(clone(key), jnp.where(is_regular, n, 1e4), jnp.where(is_regular, q, 0.5))
    count = jnp.where(is_few, few, many).astype(dtype)
    invalid = is_below | no_chance | no_count
    count = jnp.where(invalid, np.nan, jnp.where(jnp.isinf(n), np.inf, count))
    return jnp.where(is_rare | invalid | jnp.isinf(n), count, n.astype(dtype) - count)


def _few_of_binomial(key: Any, n: Any, p: Any) -> Any:
    """How many numbers of trials up to a success fit into n."""
    log_failure = strict.log1p(el.neg(p))
    return _waits(key, p, lambda log_u: jnp.ceil(log_u / log_failure), lambda total: total <= n, carried=1)


def _many_of_binomial(key: Any, n: Any, p: Any) -> Any:
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + strict.mul(p.dtype.type(2.53), deviation)
    a = -0.0873 + strict.mul(p.dtype.type(0.0248), b) + strict.mul(p.dtype.type(0.01), p)
    centre = strict.mul(n, p) + 0.5
    squeeze, odds, mode = 0.92 - 4.2 / b, p / (1 - p), jnp.floor((n + 1) * p)
    rest = n - mode + 1

    def propose(u: Any, v: Any) -> tuple[Any, Any, Any]:
        room = 0.5 - jnp.abs(u)
        count = jnp.floor(strict.mul(2 * a / room + b, u) + centre)
        height = strict.log(v * ((2.83 + 5.1 / b) * deviation) / (a / strict.mul(room, room) + b))
        others = n - count + 1
        bound = (
            strict.mul(mode + 0.5, strict.log((mode + 1) / (odds * rest)))
            + strict.mul(n + 1, strict.log(rest / others))
            + strict.mul(count + 0.5, strict.log(odds * others / (count + 1)))
            + (_stirling_rest(mode) + _stirling_rest(n - mode) - _stirling_rest(count) - _stirling_rest(n - count))
        )
        return count, (room >= 0.07) & (v <= squeeze), (count >= 0) & (count <= n) & (height <= bound)

    return _accepted(key, p, propose)


# ln k! − (k + 1/2) ln(k + 1) + (k + 1) − ln(2π)/2 for k = 0 … 9
_STIRLING_RESTS = (
    (0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211)
    + (0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287)
)  # fmt: skip


def _stirling_rest(k: Any) -> Any:
    """What Stirling's formula leaves out of ln k!, by a table or its series."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    table = jnp.asarray(_STIRLING_RESTS, k.dtype)[jnp.clip(k, 0, 9).astype(np.int32)]
    return jnp.where(k <= 9, table, series)


def multinomial(key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1) -> Array:
    """Random counts of n trials in categories of probabilities p.

    Args:
        key: a key, typed or raw.
        n: the numbers of trials, which broadcast to `shape` without its last axis.
        p: the probabilities along the last axis, which sum to 1.
        shape: the shape of the result, by default that of `p`; `p` broadcasts to it.
        dtype: the dtype of the result, by default float32 (float64 with `enable_x64`).
        unroll: as in `lax.scan`, of the loop over the categories.

    Returns:
        An array of whole numbers of that shape, which sum to n along the last axis.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> functad.random.multinomial(functad.random.key(0), 10, jnp.array([0.2, 0.3, 0.5])).sum()
    Array(10., dtype=float32)
    """
    n, p = promote_dtypes_inexact(operand("multinomial", n), operand("multinomial", p))
    shape = jnp.shape(p) if shape is None else canonical_shape("multinomial", shape)
    n, p = jnp.broadcast_to(n, shape[:-1]), jnp.moveaxis(jnp.broadcast_to(p, shape), -1, 0)
    left = jnp.cumsum(p[::-1], axis=0)[::-1]
    ratios = jnp.clip(p / jnp.where(left == 0, 1.0, left), 0, 1)

    def step(rest: Any, ratio_and_key: Any) -> tuple[Any, Any]:
        ratio, key = ratio_and_key
        count = binomial(key, rest, ratio, dtype=rest.dtype)
        return rest - count, count

    _, counts = scan(step, n, (ratios, split(key, len(p))), unroll=unroll)
    return jnp.moveaxis(counts, 0, -1).astype(float if dtype is None else dtype)
