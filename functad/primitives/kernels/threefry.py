"""The Threefry-2x32 block function on arrays of counters.

It must not know keys, random bits or distributions, only the cipher.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_GROUPS = 5


def threefry2x32(k1: np.ndarray, k2: np.ndarray, x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Encrypt the counters `(x1, x2)` with the keys `(k1, k2)`; all uint32, broadcast together.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), 20 rounds.
    """
    shape = np.broadcast_shapes(np.shape(k1), np.shape(k2), np.shape(x1), np.shape(x2))
    first, second = (np.ascontiguousarray(np.broadcast_to(x, shape)).reshape(-1) for x in (x1, x2))
    out1, out2 = first.copy(), second.copy()
    if np.size(k1) == 1 and np.size(k2) == 1:
        keys = _schedule(np.reshape(k1, -1), np.reshape(k2, -1))
        for start in range(0, out1.size, machine_model.THREEFRY_BLOCK):
            stop = start + machine_model.THREEFRY_BLOCK
            _encrypt(keys, out1[start:stop], out2[start:stop])
        return out1.reshape(shape), out2.reshape(shape)
    key1, key2 = (np.ascontiguousarray(np.broadcast_to(k, shape)).reshape(-1) for k in (k1, k2))
    for start in range(0, out1.size, machine_model.THREEFRY_BLOCK):
        stop = start + machine_model.THREEFRY_BLOCK
        _encrypt(_schedule(key1[start:stop], key2[start:stop]), out1[start:stop], out2[start:stop])
    return out1.reshape(shape), out2.reshape(shape)


def _schedule(k1: np.ndarray, k2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return k1, k2, k1 ^ k2 ^ _PARITY


def _encrypt(keys: tuple[np.ndarray, np.ndarray, np.ndarray], x1: np.ndarray, x2: np.ndarray) -> None:
    """Encrypt the counters in place."""
    high = np.empty_like(x2)
    x1 += keys[0]
    x2 += keys[1]
    for group in range(_GROUPS):
        for rotation in _ROTATIONS[group % 2]:
            x1 += x2
            np.left_shift(x2, np.uint32(rotation), out=high)
            x2 >>= np.uint32(32 - rotation)
            x2 |= high
            x2 ^= x1
        x1 += keys[(group + 1) % 3]
        x2 += keys[(group + 2) % 3]
        x2 += np.uint32(group + 1)
