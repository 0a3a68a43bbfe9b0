"""Random bits of a state that is given and returned: XLA's generators, with its numbers.

Knows the blocks of Philox and Threefry; `functad.random` is the place for random numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.callbacks import io_callback
from functad.api.inspection import ShapeDtypeStruct
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.lax.operands import integers_of, operand
from functad.numpy.concatenation import concatenate, stack
from functad.numpy.creation import arange
from functad.numpy.promotion import convert
from functad.primitives.random_bits import threefry2x32


class RandomAlgorithm(enum.IntEnum):
    """Which generator `rng_bit_generator` takes; by default Philox, as on JAX's CPU.

    >>> RandomAlgorithm.RNG_THREE_FRY.name
    'RNG_THREE_FRY'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_bit_generator(
    key: Any, shape: Sequence[int], dtype: Any = np.uint32, algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT
) -> tuple[Array, Array]:
    """The state after a draw, and uniformly distributed bits: the numbers of JAX on a CPU.

    Args:
        key: the state, of shape (4,) and dtype uint32, or (2,) and uint64: a key and a counter of 64 bits each.
        shape: of the result.
        dtype: of the result, an unsigned integer.
        algorithm: which generator.

    Each of mapped states makes numbers of its own, where JAX makes all of the first one.

    Raises:
        DTypeError: the state, or the result, is not of such a dtype.
        ShapeError: the state is not of such a shape.

    >>> state, bits = rng_bit_generator(np.uint32([1, 2, 3, 4]), (2,))
    >>> state, bits
    (Array([1, 2, 4, 4], dtype=uint32), Array([ 512747620, 1298009047], dtype=uint32))
    """
    state, made = operand("rng_bit_generator", key), dtypes.as_dtype(dtype)
    if state.dtype not in (dtypes.uint32, dtypes.uint64) or kind_of(made) != "u":
        raise DTypeError(
            f"lax.rng_bit_generator takes a state of uint32 or uint64 and makes unsigned integers, got {state.dtype} "
            f"and {made}"
        )
    if state.shape != ((4,) if state.dtype == dtypes.uint32 else (2,)):
        raise ShapeError(
            f"lax.rng_bit_generator: a state has shape (4,) in uint32 or (2,) in uint64, got {state.dtype}{state.shape}"
        )
    sizes = integers_of("rng_bit_generator", "shape", shape)
    first, counter = _halves(state)
    in_words = (*sizes, 2) if made.itemsize == 8 else sizes
    if algorithm == RandomAlgorithm.RNG_THREE_FRY:
        # Numbers of 64 bits are a block each, whatever their shape.
        words, blocks = _by_threefry(first, counter, (2 * prod(sizes),) if made.itemsize == 8 else sizes or (1,))
    else:
        words, blocks = _by_philox(first, counter, prod(in_words))
    if made.itemsize == 8:
        pairs = convert(words.reshape(in_words), made)
        words = pairs[..., 0] | pairs[..., 1] << np.uint64(32)
    return _state(state, first, counter + np.uint64(blocks)), convert(words, made).reshape(sizes)


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Array:
    """Numbers between a and b from the system's entropy, other ones with each call: not a pure function.

    Args:
        a, b: the ends, scalars of one dtype.
        shape: of the result.

    Raises:
        DTypeError: the ends are not of one dtype.
        ShapeError: they are no scalars.

    >>> rng_uniform(np.float32(2), np.float32(3), (2,)).shape
    (2,)
    """
    low, high = operand("rng_uniform", a), operand("rng_uniform", b)
    if low.dtype != high.dtype:
        raise DTypeError(f"lax.rng_uniform takes two ends of one dtype, got {low.dtype} and {high.dtype}")
    if low.shape or high.shape:
        raise ShapeError(f"lax.rng_uniform takes scalars as ends, got shapes {low.shape} and {high.shape}")
    result = ShapeDtypeStruct(integers_of("rng_uniform", "shape", shape), low.dtype)
    return io_callback(lambda low, high: _draw(low, high, result), result, low, high)


def _draw(low: Any, high: Any, result: ShapeDtypeStruct) -> np.ndarray:
    low, high = np.asarray(low), np.asarray(high)
    generator = np.random.default_rng()  # a new one, so that forked processes and threads share none
    if kind_of(result.dtype) == "f":
        return generator.uniform(low, high, result.shape).astype(result.dtype)
    return generator.integers(low, high, result.shape, result.dtype)


def _halves(state: Any) -> tuple[Any, Any]:
    if state.dtype == dtypes.uint64:
        return state[0], state[1]
    wide = convert(state, dtypes.uint64)
    return wide[0] | wide[1] << np.uint64(32), wide[2] | wide[3] << np.uint64(32)


def _state(like: Any, first: Any, counter: Any) -> Any:
    if like.dtype == dtypes.uint64:
        return stack([first, counter])
    return concatenate([stack(_words(x)) for x in (first, counter)])


def _words(x: Any) -> list[Any]:
    """The low and the high half of integers of 64 bits."""
    return [convert(x, dtypes.uint32), convert(x >> np.uint64(32), dtypes.uint32)]


def _by_threefry(first: Any, counter: Any, shape: tuple[int, ...]) -> tuple[Any, int]:
    """Words of that shape, and how many blocks they took: each is two neighbours along one axis."""
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    axis = even[0] if even else shape.index(max(shape))
    half = (*shape[:axis], -(-shape[axis] // 2), *shape[axis + 1 :])
    counters = counter + arange(prod(half), dtype=np.uint64).reshape(half)
    pairs = stack(threefry2x32(*_words(first), *_words(counters)), axis=axis + 1)
    whole = pairs.reshape(*shape[:axis], 2 * half[axis], *shape[axis + 1 :])
    return whole[(slice(None),) * axis + (slice(shape[axis]),)], prod(half)


def _by_philox(first: Any, counter: Any, count: int) -> tuple[Any, int]:
    """So many words, and how many blocks they took: each is four of them."""
    blocks = -(-count // 4)
    low = counter + arange(blocks, dtype=np.uint64)
    high = first + convert(low < counter, dtypes.uint64)  # the counter ends in the key, as XLA's does
    return stack(_philox(_words(first), [*_words(low), *_words(high)]), axis=-1).reshape(-1)[:count], blocks


_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def _philox(key: Sequence[Any], counter: Sequence[Any]) -> list[Any]:
    """Philox-4x32-10 (Salmon et al. 2011), whose counter is one of 128 bits."""
    keys, x = list(key), list(counter)
    for _ in range(10):
        products = [convert(x[i], dtypes.uint64) * np.uint64(m) for i, m in zip((0, 2), _MULTIPLIERS)]
        (low0, high0), (low1, high1) = (_words(p) for p in products)
        x = [high1 ^ x[1] ^ keys[0], low1, high0 ^ x[3] ^ keys[1], low0]
        keys = [k + np.uint32(w) for k, w in zip(keys, _WEYL)]
    return x
