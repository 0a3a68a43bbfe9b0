"""What the steps of an epoch gave: the values of its metrics, and their means.

Knows nothing of how they were computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.errors import ArgumentError


class StepMetrics:
    """The metrics of one step after the other.

    Args:
        earlier: the metrics of steps before, arrays by name, as `stacked` gives them; None if there are none.

    >>> steps = StepMetrics({"loss": np.array([1.0, 2.0])})
    >>> steps.append({"loss": np.float32(6.0)})
    >>> len(steps), steps.means(), steps.means(last=2), steps.stacked()
    (3, {'loss': 3.0}, {'loss': 4.0}, {'loss': array([1., 2., 6.])})
    """

    def __init__(self, earlier: dict[str, Any] | None = None) -> None:
        self._found: list[dict[str, Any]] = []
        if earlier is not None:
            self._found += [dict(zip(earlier, row)) for row in zip(*map(np.asarray, earlier.values()))]

    def append(self, metrics: dict[str, Any]) -> None:
        """Put in those of another step.

        Raises:
            ArgumentError: they have other names than those before.
        """
        if self._found and self._found[0].keys() != metrics.keys():
            before, now = (", ".join(map(repr, names)) for names in (self._found[0], metrics))
            raise ArgumentError(
                f"fit: the run stopped after step {len(self)} of an epoch in which the loss gave {before}; here it "
                f"gives {now}, so that there are no means over the epoch: finish it with the loss that it began with, "
                "or go on from the end of an epoch"
            )
        self._found.append(metrics)

    def means(self, last: int = 0) -> dict[str, float]:
        """The means over the last steps, or over all of them; the loss comes first."""
        names = sorted(self._found[0], key=lambda name: name != "loss")
        return {name: float(np.mean([float(metrics[name]) for metrics in self._found[-last:]])) for name in names}

    def stacked(self) -> dict[str, np.ndarray]:
        """An array of shape (steps,) for each."""
        return {name: np.stack([np.asarray(metrics[name]) for metrics in self._found]) for name in self._found[0]}

    def __len__(self) -> int:
        return len(self._found)
