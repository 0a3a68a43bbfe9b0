"""What the tests of loops and branches share: arrays, comparisons, backends, and finding equations."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

import functad
from functad.ir import Program, subprograms

BACKENDS = ["interpreter", "cpu"]
X = np.array([0.3, -0.7, 1.1])
ROWS = np.linspace(-1, 1, 12).reshape(4, 3)
Pair = namedtuple("Pair", "a b")


def close(ours: Any, expected: Any, tolerance: float = 1e-9) -> None:
    ours, expected = functad.tree_util.tree_leaves(ours), functad.tree_util.tree_leaves(expected)
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def run(fun: Any, *args: Any, backend: str | None) -> Any:
    """Un-jitted for None."""
    return fun(*args) if backend is None else functad.jit(fun, backend=backend)(*args)


def equations(program: Program, name: str) -> list[Any]:
    """All equations of a primitive, also in sub-programs."""
    found = []
    for eqn in program.eqns:
        found += [eqn] if eqn.primitive.name == name else []
        for inner in subprograms(eqn.params):
            found += equations(inner, name)
    return found
