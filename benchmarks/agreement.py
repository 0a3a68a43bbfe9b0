"""Whether two frameworks compute the same.

Knows arrays; no framework.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.task import Arrays, Outcome

# Adam divides a gradient by its own size, so where this share of the largest one is not reached, noise decides.
_TELLING = 1e-3
_PIECE = 1 << 20  # elements that are compared at a time


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
    """A piece at a time, as differences in float64 of all of a large array would fill the memory."""
    if a.shape != b.shape:
        return np.inf
    rest = (np.broadcast_to(rounding, a.shape), np.broadcast_to(True if where is None else where, a.shape))
    flat = [np.atleast_1d(x) for x in (a, b, *rest)]
    step = max(1, _PIECE * len(flat[0]) // max(a.size, 1))
    worst = largest = 0.0
    for start in range(0, len(flat[0]), step):
        one, other, rounded, counts = (x[start : start + step] for x in flat)
        difference = np.abs(one.astype(np.promote_types(a.dtype, np.float64)) - other)
        difference = np.where(difference <= rounded, 0, difference)[counts]
        # Not a number must count as different.
        here = difference.max(initial=0) if np.isfinite(difference).all() else np.inf
        worst, largest = max(worst, float(here)), max(largest, float(np.abs(one).max(initial=0)))
    return worst / largest if largest else worst
