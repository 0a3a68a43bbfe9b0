"""The inputs of the cases of `numpy_cases`, and how a case is written down.

Knows no function of `functad.numpy`.
"""

from __future__ import annotations

import numpy as np
import pytest

# --- inputs -----------------------------------------------------------------------------------------


def floats(*shape, low=-2.0, high=2.0, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ints(*shape, low=-5, high=6, dtype=np.int32, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def bools(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


F, G, V = floats(3, 4), floats(3, 4, seed=1), floats(4, seed=2)
K, J = ints(3, 4), ints(3, 4, low=1, seed=1)
B, C = bools(3, 4), bools(3, 4, seed=1)
H = floats(3, 4, dtype=np.float16)
U, S = ints(3, 4, low=0, dtype=np.uint8), ints(3, 4, dtype=np.int8)
Z = (floats(3, 4) + 1j * floats(3, 4, seed=1)).astype(np.complex64)
T = floats(2, 3, 4)
M = floats(4, 4, seed=3)
NANS = np.array([[1.0, np.nan, -np.inf, 2.5], [np.inf, 0.0, -0.0, -3.5]], np.float32)
P, R = floats(3, 4, low=0.1, high=2), ints(10, low=0, high=4)
UP = np.sort(floats(6, seed=5))

# --- cases: (name, function of the module and the arguments, arguments) -----------------------------

CASES = []


def case(name, function, *args):
    CASES.append(pytest.param(function, args, id=f"{len(CASES)}-{name}"))


def call(name, *args, **kwargs):
    """A case that calls one function of the module."""
    shown = "-".join([name, *map(_shown, args), *(f"{k}={v}" for k, v in kwargs.items())])
    case(shown, lambda n, *a: getattr(n, name)(*a, **kwargs), *args)


def _shown(x):
    return f"{x.dtype.name}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__
