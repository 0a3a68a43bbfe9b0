"""NumPy as a contender, for single operations: its function as it is.

Knows NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.frameworks.functional import named
from benchmarks.task import Calling, Form, Outcome


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


def contender(task: Any, form: Form, *, compiled: bool) -> Any:
    """The task in NumPy."""
    return _NumpyCalling(task, form)
