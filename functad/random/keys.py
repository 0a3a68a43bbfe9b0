"""Keys and raw random bits: Threefry-2x32 run on counters.

Knows no distributions. The numbers are those of JAX with its default options (`threefry_partitionable`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl
from functad.config import config
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.numpy.promotion import canonical_shape
from functad.primitives import elementwise as el
from functad.primitives.common import convert_element_type, reshape
from functad.primitives.joining import stack, unstack
from functad.primitives.random_bits import threefry2x32
from functad.primitives.structure import iota

_ZERO = np.uint32(0)


def key(seed: Any, *, impl: str | None = None) -> Array:
    """Make a key from a seed.

    Args:
        seed: an integer of at most 64 bits, or an integer array of shape (); it may be traced.
        impl: None or "threefry2x32", the only generator.

    Returns:
        A uint32 array of shape (2,): unlike JAX, functad has no extra dtype for keys.

    Raises:
        ArgumentError: the seed is no integer, has too many bits, or `impl` is another generator.

    >>> import functad
    >>> functad.random.key(42)
    Array([ 0, 42], dtype=uint32)
    """
    if impl not in (None, "threefry2x32"):
        raise ArgumentError(f"impl={impl!r} is unknown: the only generator is 'threefry2x32'")
    if type(seed) is int:
        return ArrayImpl(np.array(_words_of_int(seed), np.uint32))
    aval = aval_of(seed) if isinstance(seed, (Array, np.ndarray, np.generic)) else None
    if aval is None or kind_of(aval.dtype) not in "iu" or aval.shape != ():
        what = repr(seed) if aval is None else aval.str_short()
        raise ArgumentError(f"the seed of a key must be an integer, but is {what}; vmap makes keys of many seeds")
    high: Any = _ZERO
    if aval.dtype.itemsize == 8:
        high = convert_element_type(el.shift_right_logical(seed, aval.dtype.type(32)), "uint32")
    return stack([high, convert_element_type(seed, "uint32")])


def PRNGKey(seed: Any, *, impl: str | None = None) -> Array:
    """The same as `key`.

    >>> import functad
    >>> functad.random.PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    return key(seed, impl=impl)


def key_data(keys: Any) -> Array:
    """The words of a key or an array of keys: as functad's keys are plain arrays, the keys themselves."""
    return _checked("key_data", keys, many=True)


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> Array:
    """The keys of an array of words: as functad's keys are plain arrays, the array itself, checked."""
    if impl not in (None, "threefry2x32"):
        raise ArgumentError(f"impl={impl!r} is unknown: the only generator is 'threefry2x32'")
    return _checked("wrap_key_data", key_bits_array, many=True)


def clone(key: Any) -> Array:
    """The key itself; in JAX it tells the checker of key reuse that reuse is meant."""
    return _checked("clone", key, many=True)


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """Make new, independent keys from one, which should not be used again.

    Args:
        key: a key, uint32 of shape (2,).
        num: how many, an integer or a shape.

    Returns:
        A uint32 array of shape (num, 2), or (*num, 2).

    >>> import functad
    >>> functad.random.split(functad.random.key(0))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    shape = canonical_shape("split", num)
    return stack(_encrypted_counters("split", key, shape), axis=len(shape))


def fold_in(key: Any, data: Any) -> Array:
    """Make a new key from a key and an integer, such as the number of a training step.

    Args:
        key: a key, uint32 of shape (2,).
        data: an integer in 0 … 2**32 - 1, or an integer array of shape (); it may be traced.

    >>> import functad
    >>> functad.random.fold_in(functad.random.key(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    k1, k2 = unstack(_checked("fold_in", key))
    if type(data) is int:
        if not 0 <= data < 2**32:
            raise ArgumentError(f"fold_in: data={data} must lie in 0 … 2**32 - 1")
        word: Any = np.uint32(data)
    else:
        aval = aval_of(data)
        if kind_of(aval.dtype) not in "iu" or aval.shape != ():
            raise ArgumentError(f"fold_in: data must be one integer, but is {aval.str_short()}")
        word = convert_element_type(data, "uint32")
    return stack(threefry2x32(k1, k2, _ZERO, word))


def bits(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform random bits.

    Args:
        key: a key, uint32 of shape (2,).
        shape: the shape of the result.
        dtype: an unsigned integer dtype; by default uint32, uint64 with `enable_x64`.

    >>> import functad
    >>> functad.random.bits(functad.random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    if dtype is None:
        dtype = dtypes.uint64 if config.enable_x64 else dtypes.uint32
    dtype = dtypes.as_dtype(dtype)
    if kind_of(dtype) != "u":
        raise DTypeError(f"bits: dtype must be an unsigned integer dtype, got {dtype}; try 'uint32'")
    return random_bits("bits", key, dtype, canonical_shape("bits", shape))


def random_bits(name: str, key: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """Random bits for the function `name`, whose arguments but the key are checked."""
    high, low = _encrypted_counters(name, key, shape)
    if dtype.itemsize == 8:
        high = el.shift_left(convert_element_type(high, dtype), dtype.type(32))
        return el.or_(high, convert_element_type(low, dtype))
    return convert_element_type(el.xor(high, low), dtype)


def _encrypted_counters(name: str, key: Any, shape: tuple[int, ...]) -> list[Any]:
    """The two encrypted words for each of the counters 0, 1, 2, … in row-major order."""
    k1, k2 = unstack(_checked(name, key))
    counters = reshape(iota(dtypes.uint32, (math.prod(shape),), 0), shape)
    return threefry2x32(k1, k2, _ZERO, counters)


def _checked(name: str, key: Any, many: bool = False) -> Any:
    if not isinstance(key, (Array, np.ndarray)):
        raise ArgumentError(
            f"{name} needs a key, a uint32 array of shape (2,), but was given {key!r:.80} of type "
            f"{type(key).__name__}; make one of an integer with functad.random.key(seed)"
        )
    if key.dtype != dtypes.uint32:
        raise DTypeError(
            f"{name} needs a key, a uint32 array of shape (2,), but was given {aval_of(key).str_short()}; "
            "make one of an integer with functad.random.key(seed)"
        )
    if key.shape[-1:] != (2,) or (key.ndim != 1 and not many):
        hint = "map over several keys with functad.vmap" if key.shape[-1:] == (2,) else "split makes such keys"
        raise ShapeError(f"{name} needs one key, a uint32 array of shape (2,), but was given shape {key.shape}; {hint}")
    return key


def _words_of_int(seed: int) -> tuple[int, int]:
    if not -(2**63) <= seed < 2**63:
        raise ArgumentError(f"the seed of a key must fit in 64 bits, but is {seed}")
    if -(2**31) <= seed < 0 and not config.enable_x64:
        return 0, seed % 2**32  # JAX's number: its seed has 32 bits then
    return (seed >> 32) % 2**32, seed % 2**32
