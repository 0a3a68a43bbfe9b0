"""Whether two frameworks compute the same.

Knows arrays; no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.task import Arrays, Outcome

# Adam divides a gradient by its own size, so where this share of the largest one is not reached, noise decides.
_TELLING = 1e-3


def disagreement(reference: Outcome, other: Outcome) -> tuple[float, str]:
    """The largest difference over the largest value of its array, and the name of that array."""
    found = [
        (_relative(reference.values[name], other.values[name], reference.rounding.get(name, 0.0)), name)
        for name in _names(reference, other)
    ]
    for name, update in reference.updates.items():
        grads = np.abs(reference.values[name])
        telling = (grads > _TELLING * grads.max()) | (grads == 0)
        difference = _relative(update, other.updates[name], where=telling)
        found.append((difference, name.replace("gradient", "update")))
    return max(found)


def _names(reference: Outcome, other: Outcome) -> Arrays:
    missing = reference.values.keys() ^ other.values.keys()
    if missing:
        raise ValueError(f"the outcomes hold different arrays: {', '.join(sorted(missing))} are in one only")
    return reference.values


def _relative(a: np.ndarray, b: np.ndarray, rounding: Any = 0.0, where: np.ndarray | None = None) -> float:
    if a.shape != b.shape:
        return np.inf
    difference = np.abs(a.astype(np.promote_types(a.dtype, np.float64)) - b)
    difference = np.where(difference <= rounding, 0, difference)
    if where is not None:
        difference = difference[where]
    largest = np.abs(a).max(initial=0)
    # Not a number must count as different.
    worst = np.inf if not np.isfinite(difference).all() else difference.max(initial=0)
    return float(worst / largest) if largest else float(worst)
