"""Batches of drawn digits and initial weights, the same in every run.

Knows NumPy and the drawn digits.
"""

from __future__ import annotations

import math

import numpy as np

from functad.data import synthetic_digits

# Of the pixels of drawn digits, roughly.
_MEAN, _DEVIATION = np.float32(0.13), np.float32(0.3)


def digit_batches(size: int, count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images of mean 0 and deviation 1, (size, 28, 28), and labels, (size,) int32."""
    images, labels = synthetic_digits(size * count, seed=0)
    images = (images - _MEAN) / _DEVIATION
    return [(images[i : i + size], labels[i : i + size]) for i in range(0, size * count, size)]


def glorot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform weights of variance 2 / (inputs + outputs) (Glorot and Bengio 2010)."""
    window = math.prod(shape[:-2])
    limit = math.sqrt(6 / (window * (shape[-2] + shape[-1])))
    return rng.uniform(-limit, limit, shape).astype(np.float32)
