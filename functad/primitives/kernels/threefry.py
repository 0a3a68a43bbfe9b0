"""The Threefry-2x32 block function on arrays of counters.

It must not know keys, random bits or distributions, only the cipher.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from functad import machine_model


def _words(*values: int) -> tuple[np.ndarray, ...]:
    """Operands of rank 0, which NumPy takes in half of the time of its scalars."""
    return tuple(np.array(v, np.uint32) for v in values)


_LEFT = ((13, 15, 26, 6), (17, 29, 16, 24))  # by how much the words are rotated in turn
_ROTATIONS = tuple(tuple(zip(_words(*r), _words(*(32 - n for n in r)))) for r in _LEFT)  # left, and what is left of 32
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF  # the bits of a word
_NUMBERS = _words(1, 2, 3, 4, 5)  # of the groups of rounds


def threefry2x32(k1: np.ndarray, k2: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt the counters `(x1, x2)` with the keys `(k1, k2)`; all uint32, broadcast together.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), 20 rounds.
    """
    key1, key2, first, second = words = [np.asarray(x) for x in (k1, k2, x1, x2)]
    shape = np.broadcast(*words).shape
    size = math.prod(shape)
    if size <= machine_model.THREEFRY_PACKED:
        ones = _packed_ones(size)
        a, b, c, d = (_packed(x, shape, ones) for x in words)
        return _unpacked(*_encrypt_packed(a, b, c, d, ones), shape, size)
    out1, out2 = (np.empty(shape, np.uint32) for _ in range(2))
    out1[...], out2[...] = first, second
    flat1, flat2 = out1.reshape(-1), out2.reshape(-1)
    block = machine_model.THREEFRY_BLOCK
    if key1.size == 1 and key2.size == 1:
        keys = _schedule(key1.reshape(-1), key2.reshape(-1))
        for start in range(0, flat1.size, block):
            _encrypt(keys, flat1[start : start + block], flat2[start : start + block])
        return out1, out2
    key1, key2 = (np.ascontiguousarray(np.broadcast_to(k, shape)).reshape(-1) for k in (key1, key2))
    for start in range(0, flat1.size, block):
        part = slice(start, start + block)
        _encrypt(_schedule(key1[part], key2[part]), flat1[part], flat2[part])
    return out1, out2


def encrypted_counters(key: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt 0, 1, 2, … in row-major order with a key, whose lower half is the first of its words."""
    size = math.prod(shape)
    if size > machine_model.THREEFRY_PACKED:
        k1, k2, zero = np.array([key & _WORD, key >> 32, 0], np.uint32)
        return threefry2x32(k1, k2, zero, np.arange(size, dtype=np.uint32).reshape(shape))
    ones = _packed_ones(size)
    words = _encrypt_packed(ones * (key & _WORD), ones * (key >> 32), 0, _packed_counters(size), ones)
    return _unpacked(*words, shape, size)


def _schedule(k1: np.ndarray, k2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return k1, k2, k1 ^ k2 ^ np.uint32(_PARITY)


def _encrypt(keys: tuple[np.ndarray, np.ndarray, np.ndarray], x1: np.ndarray, x2: np.ndarray) -> None:
    """Encrypt the counters in place."""
    high = np.empty_like(x2)
    x1 += keys[0]
    x2 += keys[1]
    for group, number in enumerate(_NUMBERS):
        for left, right in _ROTATIONS[group % 2]:
            x1 += x2
            np.left_shift(x2, left, out=high)
            x2 >>= right
            x2 |= high
            x2 ^= x1
        x1 += keys[(group + 1) % 3]
        x2 += keys[(group + 2) % 3]
        x2 += number


# --- few counters: Python's integers as vectors -----------------------------------------------------
# An integer holds a word every 64 bits, of which it fills the lower half; the upper one takes carries and what is
# shifted out. A call of NumPy takes longer than an operation on an integer of thousands of bits.


_LANES, _HALVES = np.dtype("<u8"), np.dtype("<u4")


@lru_cache(64)
def _packed_ones(size: int) -> int:
    return int.from_bytes(b"\1\0\0\0\0\0\0\0" * size, "little")


@lru_cache(64)
def _packed_counters(size: int) -> int:
    return int.from_bytes(np.arange(size, dtype=_LANES).tobytes(), "little")


def _packed(words: np.ndarray, shape: tuple[int, ...], ones: int) -> int:
    if words.size == 1:  # a key of all counters
        return int(words.item()) * ones
    if words.shape != shape:
        words = np.broadcast_to(words, shape)
    return int.from_bytes(words.astype(_LANES).tobytes(), "little")


def _unpacked(first: int, second: int, shape: tuple[int, ...], size: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.frombuffer((first | second << 32).to_bytes(8 * size, "little"), _HALVES).reshape(*shape, 2)
    return pairs[..., 0], pairs[..., 1]


def _encrypt_packed(k1: int, k2: int, x1: int, x2: int, ones: int) -> tuple[int, int]:
    lower = ones * _WORD
    keys = k1, k2, k1 ^ k2 ^ ones * _PARITY
    x1 += k1
    x2 = (x2 + k2) & lower
    for group in range(5):
        for left in _LEFT[group % 2]:
            x1 += x2  # its carries are cut off at the end: they are fewer than 32 bits
            shifted = x2 << left
            x2 = ((shifted | shifted >> 32) ^ x1) & lower
        x1 += keys[(group + 1) % 3]
        x2 = (x2 + keys[(group + 2) % 3] + ones * (group + 1)) & lower
    return x1 & lower, x2
