"""Functions of NumPy arrays that compiled Programs call.

Knows arrays alone: a process that finds a plan on disk imports this, and nothing else of lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functad.ir import Aval
from functad.system.quiet import quietly


@dataclass(frozen=True)
class NumpyFunction:
    """A function of NumPy arrays without side effects, such as a primitive's implementation, and its parameters."""

    function: Callable[..., Any]
    params: dict[str, Any]

    def run(self, arrays: Sequence[np.ndarray], avals: Sequence[Aval]) -> Sequence[np.ndarray]:
        """The results for arrays that are not changed."""
        found = quietly(self.function, *arrays, **self.params)
        return found if isinstance(found, (list, tuple)) else [found]

    def __str__(self) -> str:
        return str(self.function.__name__)


def call_into(callback: Any, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
    """Call the function of a `CallStep`, and fill arrays with its results."""
    for target, value in zip(results, callback.run(arrays, [Aval(r.shape, r.dtype) for r in results])):
        target[...] = value
