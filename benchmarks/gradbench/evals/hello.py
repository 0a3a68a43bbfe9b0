"""A square and its derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
from benchmarks.gradbench.task import Function


def square(x: Any) -> Any:
    return x * x


def _prepare(number: Any) -> tuple[Any, ...]:
    return (np.asarray(number, np.float64),)


FUNCTIONS = {
    "square": Function(_prepare, functad.jit(square)),
    "double": Function(_prepare, functad.jit(functad.grad(square))),
}
