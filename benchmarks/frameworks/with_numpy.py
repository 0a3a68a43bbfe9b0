"""NumPy as a contender, for single operations: its function as it is. And what it copies, on all cores at once.

Knows NumPy alone.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.frameworks.functional import named
from benchmarks.task import Calling, Copying, Form, Outcome


class _NumpyCalling:
    """A function of arrays that stay."""

    def __init__(self, task: Calling, form: Form) -> None:
        self._form, self.step = form, form.function()
        self._arguments = form.batch(*task.arguments)

    def reset(self) -> None:
        """Nothing changes from call to call."""

    def run(self, count: int) -> None:
        for _ in range(count):
            self.step(*self._arguments)

    def arguments(self) -> tuple[Any, ...]:
        return self._arguments

    def outcome(self) -> Outcome:
        return Outcome(self._form.restore(named(self.step(*self._arguments), np.array)), {})


class _Copies:
    """Each core copies an array of its own, `count` times, without looking at the others."""

    def __init__(self, task: Copying) -> None:
        cores = len(os.sched_getaffinity(0))
        size = max(task.bytes // (2 * cores), 1)
        self._pool = ThreadPoolExecutor(cores)
        self._pairs = [(np.zeros(size, np.uint8), np.ones(size, np.uint8)) for _ in range(cores)]

    def reset(self) -> None:
        """Nothing changes from copy to copy."""

    def run(self, count: int) -> None:
        def copies(pair: tuple[np.ndarray, np.ndarray]) -> None:
            to, source = pair
            for _ in range(count):
                np.copyto(to, source)

        list(self._pool.map(copies, self._pairs))


def contender(task: Calling | Copying, form: Form, *, compiled: bool) -> Any:
    """The task in NumPy."""
    return _Copies(task) if isinstance(task, Copying) else _NumpyCalling(task, form)
