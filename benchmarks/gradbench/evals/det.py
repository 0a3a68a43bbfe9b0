"""The determinant by expansion in minors, and its gradient.

The minors of the last rows are computed for all sets of columns at once, each of them one time: 2ⁿ in all. (A recursion
that does not keep them computes n! products.)
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.gradbench.task import Function


def determinant(matrix: Any, size: int) -> Any:
    """Of a flat matrix, its rows one after another."""
    rows = matrix.reshape(size, size)
    minors = jnp.ones(1, matrix.dtype)  # of no rows and no columns
    for order in range(1, size + 1):
        columns, smaller = _expansion(size, order)
        signs = (-1.0) ** np.arange(order)
        minors = jnp.sum(signs * rows[size - order][columns] * minors[smaller], axis=1)
    return minors[0]


def _expansion(size: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """For each set of `order` columns: its columns, and the places of the sets that lack one of them."""
    places = {chosen: place for place, chosen in enumerate(combinations(range(size), order - 1))}
    sets = list(combinations(range(size), order))
    smaller = [[places[chosen[:j] + chosen[j + 1 :]] for j in range(order)] for chosen in sets]
    return np.array(sets), np.array(smaller)


def _prepare(given: dict[str, Any]) -> tuple[Any, ...]:
    return np.array(given["A"]), given["ell"]


_jit = partial(functad.jit, static_argnums=1)
FUNCTIONS = {
    "primal": Function(_prepare, _jit(determinant)),
    "gradient": Function(_prepare, _jit(functad.grad(determinant))),
}
