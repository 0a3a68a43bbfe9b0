"""Discrete distributions, and random selections of elements.

Knows no generator: all randomness comes from `random_bits`, `uniform` and `gumbel`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy import promotion
from functad.numpy.manipulation import moveaxis, slice_axis
from functad.numpy.promotion import canonical_axis, canonical_shape, joint_shape, operand
from functad.numpy.running import cumsum
from functad.numpy.selecting import take, take_along_axis
from functad.numpy.sorting import argsort, searchsorted
from functad.primitives import elementwise as el
from functad.primitives import strict
from functad.primitives.common import broadcast_in_dim, convert_element_type, reshape
from functad.primitives.joining import unstack
from functad.primitives.positions import argmax
from functad.primitives.sorting import sort
from functad.primitives.structure import iota
from functad.random.continuous import check_mode, gumbel, uniform
from functad.random.keys import random_bits, split


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Array:
    """Random booleans that are True with probability p.

    Args:
        key: a key, typed or raw.
        p: the probability, a float or a floating array that broadcasts to `shape`.
        shape: the shape of the result, by default that of `p`.
        mode: "low", or "high" for twice the random bits, hence exact small probabilities.

    >>> import functad
    >>> functad.random.bernoulli(functad.random.key(1), 0.5, (4,))
    Array([ True, False,  True,  True], dtype=bool)
    """
    p = promotion.asarray(operand("bernoulli", p))
    if kind_of(p.dtype) != "f":
        raise DTypeError(f"bernoulli: the probability p must be a float, got {aval_of(p).str_short()}")
    shape = p.shape if shape is None else canonical_shape("bernoulli", shape)
    p = _broadcast("bernoulli", "p", p, shape)
    if check_mode("bernoulli", mode) == "low":
        return el.lt(uniform(key, shape, p.dtype), p)
    coarse, fine = unstack(uniform(key, (2, *shape), p.dtype))
    return el.lt(strict.mul(fine, p.dtype.type(finfo(p.dtype).eps)), el.sub(p, coarse))


def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Random signs: 1 or -1 with equal probability.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        dtype: a signed dtype, by default int32 (int64 with `enable_x64`).

    >>> import functad
    >>> functad.random.rademacher(functad.random.key(1), (4,))
    Array([ 1, -1,  1,  1], dtype=int32)
    """
    dtype = dtypes.requested_dtype(int if dtype is None else dtype)
    if kind_of(dtype) not in "if":
        raise DTypeError(f"rademacher: dtype must be able to hold -1, got {dtype}; try 'int32'")
    heads = convert_element_type(bernoulli(key, 0.5, canonical_shape("rademacher", shape)), dtype)
    return el.sub(el.mul(dtype.type(2), heads), dtype.type(1))


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Uniform random integers in [minval, maxval); `minval` where that is empty.

    Args:
        key: a key, typed or raw.
        shape: the shape of the result.
        minval, maxval: integers, or arrays that broadcast to `shape`, which are clipped to what `dtype` holds;
            floats are truncated.
        dtype: an integer dtype, by default int32 (int64 with `enable_x64`).

    Raises:
        DTypeError: `dtype` is no integer dtype, or a bound is complex.
        ArgumentError: `dtype` cannot hold a bound that is a Python integer.

    >>> import functad
    >>> functad.random.randint(functad.random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    dtype, shape = dtypes.requested_dtype(int if dtype is None else dtype), canonical_shape("randint", shape)
    if kind_of(dtype) not in "iu":
        raise DTypeError(f"randint: dtype must be an integer dtype, got {dtype}; try 'int32'")
    if dtype.itemsize < 4:  # JAX draws 32 bits for narrow dtypes
        info = np.iinfo(dtype)
        low, _ = _bound("minval", minval, dtypes.int32, info.min, info.max)
        high, _ = _bound("maxval", maxval, dtypes.int32, info.min, info.max + 1)
        return convert_element_type(_randint(key, shape, low, high, np.bool_(False)), dtype)
    info = np.iinfo(dtype)
    low, _ = _bound("minval", minval, dtype, info.min, info.max)
    high, beyond = _bound("maxval", maxval, dtype, info.min, info.max)
    return _randint(key, shape, low, high, beyond)


def _bound(name: str, value: Any, dtype: np.dtype, lowest: int, highest: int) -> tuple[Any, Any]:
    """A bound clipped to what `dtype` can hold, and whether it lay one above that."""
    beyond = name == "maxval" and highest == np.iinfo(dtype).max
    if type(value) is int:
        if not lowest <= value <= highest + beyond:
            raise ArgumentError(f"randint: {name}={value} does not fit the dtype, which holds {lowest} … {highest}")
        return dtype.type(min(value, highest)), np.bool_(value > highest)
    value = promotion.asarray(operand("randint", value))
    own = value.dtype
    if kind_of(own) == "f":
        value, own = convert_element_type(value, dtype), dtype
    if kind_of(own) not in "iu":
        raise DTypeError(f"randint: {name} must be a real number, got {aval_of(value).str_short()}")
    limits = np.iinfo(own)
    above = el.gt(value, own.type(highest)) if highest < limits.max else np.bool_(False)
    clipped = el.clamp(own.type(max(lowest, limits.min)), value, own.type(min(highest, limits.max)))
    return convert_element_type(clipped, dtype), above


def _randint(key: Any, shape: tuple[int, ...], low: Any, high: Any, beyond: Any) -> Any:
    """Integers in [low, high), or [low, high] where `beyond`.

    The high word is folded onto the low one modulo the span, so that the remainder has next to no bias.
    """
    dtype = aval_of(low).dtype
    word = dtypes.as_dtype(f"uint{8 * dtype.itemsize}")
    low, high, beyond = (_broadcast("randint", "a bound", b, shape) for b in (low, high, beyond))
    nonempty = el.gt(high, low)
    span = convert_element_type(el.sub(high, low), word)
    span = el.select_n(*promotion.promote_shapes("randint", nonempty, word.type(1), span))
    more = convert_element_type(el.and_(beyond, nonempty), word)
    span = el.add(span, more)
    high_bits, low_bits = (random_bits("randint", k, word, shape) for k in unstack(split(key)))
    folded = el.rem(word.type(2 ** (4 * dtype.itemsize)), span)
    folded = el.rem(el.mul(folded, folded), span)
    offset = el.add(el.mul(el.rem(high_bits, span), folded), el.rem(low_bits, span))
    return el.add(low, convert_element_type(el.rem(offset, span), dtype))


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """The elements of an array in random order.

    Args:
        key: a key, typed or raw.
        x: an array, or an integer n for the integers 0 … n - 1.
        axis: the axis along which to shuffle.
        independent: shuffle each vector along the axis in its own order, instead of all in the same.

    >>> import functad
    >>> functad.random.permutation(functad.random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    x = promotion.asarray(operand("permutation", x))
    if x.ndim == 0:
        if kind_of(x.dtype) not in "iu":
            raise ArgumentError(f"permutation: x must be an integer or an array, got {aval_of(x).str_short()}")
        if int(x) < 0:
            raise ArgumentError(f"permutation: x={int(x)}, the number of elements 0 … x - 1, must not be negative")
        return _shuffled_positions(key, (int(x),), 0)
    axis = canonical_axis("permutation", axis, x.ndim)
    if independent:
        return take_along_axis(x, _shuffled_positions(key, x.shape, axis), axis)
    return take(x, _shuffled_positions(key, (x.shape[axis],), 0), axis)


def _shuffled_positions(key: Any, shape: tuple[int, ...], axis: int) -> Any:
    """The positions along an axis in random order: sorted by random words, often enough for no ties."""
    order = iota(dtypes.default_int_dtype(), shape, axis)
    rounds = math.ceil(3 * math.log(max(1, math.prod(shape))) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, subkey = unstack(split(key))
        words = random_bits("permutation", subkey, dtypes.uint32, shape)
        _, order = sort((words, order), dimension=axis, is_stable=True, num_keys=1)
    return order


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """A random sample of the elements of an array.

    Args:
        key: a key, typed or raw.
        a: an array, from which slices along `axis` are drawn, or an integer n for 0 … n - 1.
        shape: the shape of the sample, which stands in the result in place of `axis`.
        replace: whether an element can be drawn twice.
        p: their probabilities, by default equal; a vector as long as `axis`.
        axis: the axis along which to draw.
        mode: "low" or "high", as for `gumbel`; used with `p` and without replacement.

    >>> import functad
    >>> functad.random.choice(functad.random.key(0), 10, (3,))
    Array([9, 0, 2], dtype=int32)
    """
    shape = canonical_shape("choice", shape)
    a = promotion.asarray(operand("choice", a))
    if a.ndim == 0 and kind_of(a.dtype) not in "iu":
        raise ArgumentError(f"choice: a must be an integer or an array, got {aval_of(a).str_short()}")
    axis = canonical_axis("choice", axis, max(1, a.ndim))
    population = a.shape[axis] if a.ndim else int(a)
    draws = math.prod(shape)
    if population < 1 and draws:
        raise ArgumentError(f"choice: there is nothing to draw from: a has {population} elements along axis {axis}")
    if not replace and draws > population:
        raise ArgumentError(
            f"choice: shape={shape} wants {draws} elements, but a has {population}; make it smaller, or "
            "set replace=True"
        )
    if p is not None:
        p = promotion.promote_dtypes_inexact(promotion.asarray(p))[0]
        if p.shape != (population,):
            raise ShapeError(f"choice: p must have shape ({population},), one probability an element, got {p.shape}")
    positions = _drawn_positions(key, population, shape, replace, p, mode)
    return take(a, positions, axis) if a.ndim else positions


def _drawn_positions(key: Any, population: int, shape: tuple[int, ...], replace: bool, p: Any, mode: str | None) -> Any:
    if p is None and replace:
        return randint(key, shape, 0, population)
    if p is None:
        order = _shuffled_positions(key, (population,), 0)
    elif replace:
        cumulative = cumsum(p)
        last = reshape(slice_axis(cumulative, 0, population - 1, population), ())
        drawn = strict.mul(last, el.sub(p.dtype.type(1), uniform(key, shape, p.dtype)))
        return searchsorted(cumulative, drawn)
    else:
        order = _descending(el.add(gumbel(key, (population,), p.dtype, mode), strict.log(p)), 0)
    return reshape(slice_axis(order, 0, 0, math.prod(shape)), shape)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Random categories with probabilities proportional to exp(logits).

    Args:
        key: a key, typed or raw.
        logits: a floating array with one entry a category along `axis`.
        axis: the axis of the categories.
        shape: the shape of the result, by default that of `logits` without `axis`; it must end with one to
            which that broadcasts.
        replace: whether the samples, along the leading axes of `shape`, can have equal categories.
        mode: "low" or "high", as for `gumbel`.

    >>> import functad
    >>> import functad.numpy as jnp
    >>> functad.random.categorical(functad.random.key(0), jnp.log(jnp.array([0.1, 0.2, 0.7])), shape=(5,))
    Array([1, 2, 2, 1, 2], dtype=int32)
    """
    logits = promotion.asarray(operand("categorical", logits))
    if kind_of(logits.dtype) != "f":
        raise DTypeError(f"categorical: logits must be floats, got {aval_of(logits).str_short()}")
    axis = canonical_axis("categorical", axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else canonical_shape("categorical", shape)
    if not logits.shape[axis] and math.prod(shape):
        raise ArgumentError(
            f"categorical: there is nothing to draw from: logits of shape {logits.shape} has no category along "
            f"axis {axis}"
        )
    leading = len(shape) - len(batch)
    if leading < 0 or joint_shape("categorical", [shape, batch]) != shape:
        raise ShapeError(f"categorical: shape={shape} must end with one to which {batch}, logits' own, broadcasts")
    prefix = shape[:leading]
    if replace:
        size = logits.shape[axis]
        noisy = (*prefix, *shape[leading : leading + axis], size, *shape[leading + axis :])
        return argmax(
            _with_noise(key, logits, noisy, mode),
            axis=leading + axis,
            index_dtype=dtypes.default_int_dtype(),
        )
    draws = math.prod(prefix)
    if draws > logits.shape[axis]:
        raise ArgumentError(
            f"categorical: shape={shape} wants {draws} different categories, but logits has "
            f"{logits.shape[axis]}; make it smaller, or set replace=True"
        )
    order = _descending(_with_noise(key, logits, logits.shape, mode), axis)
    return reshape(moveaxis(slice_axis(order, axis, 0, draws), axis, 0), shape)


def _with_noise(key: Any, logits: Any, shape: tuple[int, ...], mode: str | None) -> Any:
    """The index of the largest logit plus Gumbel noise is distributed as softmax(logits)."""
    noise = gumbel(key, shape, logits.dtype, mode)
    return el.add(noise, promotion.broadcast_operand(logits, shape))


def _descending(x: Any, axis: int) -> Any:
    """The positions of the elements from the largest to the smallest, equal ones in their order."""
    return argsort(el.neg(x), axis)


def _broadcast(name: str, what: str, x: Any, shape: tuple[int, ...]) -> Any:
    own = x.shape if isinstance(x, Array) else np.shape(x)
    if own == ():
        return x
    if joint_shape(name, [own, shape]) != shape:
        raise ShapeError(f"{name}: {what} of shape {own} does not broadcast to shape={shape} of the result")
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=range(len(shape) - len(own), len(shape)))
