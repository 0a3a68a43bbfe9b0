"""Batches of English text as numbers of characters, the same in every run.

Knows the file `shakespeare/input.txt` of the data folder; without it characters are drawn, each near the last.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

CHARACTERS = 65  # the "tiny Shakespeare" text has so many different ones


def character_batches(size: int, steps: int, count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pieces of text and the same one character later, both (size, steps) int32."""
    numbers = np.resize(_numbers(), count * size * steps + 1).astype(np.int32)
    now, later = (numbers[k : k + count * size * steps].reshape(count, size, steps) for k in (0, 1))
    return list(zip(now, later))


def _numbers() -> np.ndarray:
    path = Path(os.environ.get("FUNCTAD_DATA", "")) / "shakespeare" / "input.txt"
    if not path.is_file():
        return np.cumsum(np.random.default_rng(0).integers(0, 3, 10_000)) % CHARACTERS
    return np.unique(np.frombuffer(path.read_bytes(), np.uint8), return_inverse=True)[1]
