"""The Threefry-2x32 block function on arrays of counters.

It must not know keys, random bits or distributions, only the cipher.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model


def _words(*values: int) -> tuple[np.ndarray, ...]:
    """Operands of rank 0, which NumPy takes in half of the time of its scalars."""
    return tuple(np.array(v, np.uint32) for v in values)


# By how much the words are rotated in turn: to the left, and what is left of 32 to the right.
_ROTATIONS = tuple(tuple(zip(_words(*r), _words(*(32 - n for n in r)))) for r in ((13, 15, 26, 6), (17, 29, 16, 24)))
_PARITY = np.uint32(0x1BD11BDA)
_NUMBERS = _words(1, 2, 3, 4, 5)  # of the groups of rounds


def threefry2x32(k1: np.ndarray, k2: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt the counters `(x1, x2)` with the keys `(k1, k2)`; all uint32, broadcast together.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), 20 rounds.
    """
    key1, key2, first, second = (np.asarray(x) for x in (k1, k2, x1, x2))
    shape = np.broadcast(key1, key2, first, second).shape
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


def _schedule(k1: np.ndarray, k2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return k1, k2, k1 ^ k2 ^ _PARITY


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
