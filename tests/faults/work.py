"""What the processes under test do: compiled functions beside NumPy's results, and a file that is saved and loaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import functad
import functad.numpy as jnp
from functad import io, lax

X = np.linspace(-1, 1, 40 * 30, dtype=np.float32).reshape(40, 30)


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (c * 0.5 + 1, None), x, None, length=20)[0]


def _scanned(x: np.ndarray) -> np.ndarray:
    for _ in range(20):
        x = x * np.float32(0.5) + np.float32(1)
    return x


# What is compiled, and the same by NumPy.
FUNCTIONS: list[tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = [
    (lambda x: jnp.sin(x) * 2 + x, lambda x: np.sin(x) * 2 + x),
    (lambda x: jnp.sum(jnp.exp(x), 0), lambda x: np.exp(x).sum(0)),
    (lambda x: jnp.tanh(x @ x.T), lambda x: np.tanh(x @ x.T)),
    (lambda x: jnp.sort(x, 0)[::2], lambda x: np.sort(x, 0)[::2]),
    (_scan, _scanned),
    (functad.grad(lambda x: jnp.sum(jnp.cos(x) ** 2)), lambda x: -2 * np.cos(x) * np.sin(x)),
]


def check(number: int, scale: float = 1.0) -> None:
    """Compile one of the functions, or find it compiled, and compare what it gives."""
    function, reference = FUNCTIONS[number]
    x = X * np.float32(scale)
    assert_allclose(np.asarray(functad.jit(function)(x)), reference(x), rtol=1e-4, atol=1e-5)


def compute(seed: int, count: int = len(FUNCTIONS)) -> None:
    for number in random.Random(seed).sample(range(len(FUNCTIONS)), count):
        check(number)


def save(path: Path, version: int) -> None:
    """A file all of whose numbers are its version."""
    io.save(path, {"all": np.full(20_000, version), "some": [np.full((3, k + 1), version) for k in range(20)]})


def check_saved(path: Path) -> None:
    """The file is whole: one version of it."""
    if path.exists():
        tree = io.load(path)
        versions = set(tree["all"].tolist()).union(*(part.ravel().tolist() for part in tree["some"]))
        assert len(versions) == 1 and len(tree["some"]) == 20, f"{path} holds parts of the versions {versions}"
