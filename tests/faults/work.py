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
from functad.errors import DataError
from functad.train import Checkpoints, Run
from tests.faults.processes import Fault

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


# The names of files that are saved over and over.
SAVED = ("file.npz", "file.safetensors", "run.npz", "run.safetensors")
KEPT = 3


def saver(path: Path) -> Callable[[int], None]:
    """What saves a version: as a file, or as a checkpoint, of which some are kept."""
    if path.name.startswith("file"):
        return lambda version: save(path, version)
    checkpoints = Checkpoints(path, keep=KEPT)
    return lambda version: checkpoints.save(Run(np.full(20_000, version), (), None, None, version))


def version_of(path: Path) -> int:
    """The version that a file has, 0 if there is none. Raise Fault unless it, and all that is kept, are whole."""
    if not path.exists():
        return 0
    try:
        if path.name.startswith("file"):
            check_saved(path)
            return int(io.load(path)["all"][0])
        kept = [io.load(file) for file in Checkpoints(path, keep=KEPT).files()]
        found = [int(run[4]) for run in kept]
        assert all((run[0] == version).all() for run, version in zip(kept, found, strict=True)), "parts of versions"
        # The newest may have been linked as the one before it, and not replaced yet.
        before = found[2:] if found[:1] == found[1:2] else found[1:]
        assert before == [found[0] - 1 - i for i in range(len(before))], f"{path} and those before it have {found}"
        assert len(before) >= min(found[0] - 1, KEPT - 2), f"of the versions {found} some are lost"
        return found[0]
    except (AssertionError, DataError) as problem:
        raise Fault(f"{path.name}: {problem}") from problem


def check_saved(path: Path) -> None:
    """The file is whole: one version of it."""
    if path.exists():
        tree = io.load(path)
        versions = set(tree["all"].tolist()).union(*(part.ravel().tolist() for part in tree["some"]))
        assert len(versions) == 1 and len(tree["some"]) == 20, f"{path} holds parts of the versions {versions}"
