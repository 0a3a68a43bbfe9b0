"""How exact functions should be, where hardware has a choice: accepted here, and of no effect.

Knows names alone.
"""

from __future__ import annotations

import enum

from functad.records import NamedTuple


class AccuracyMode(enum.Enum):
    """How exact a function should be; here functions have one accuracy, that of `ACCURACY.md`.

    >>> from functad import lax
    >>> lax.exp(0.0, accuracy=AccuracyMode.HIGHEST)
    Array(1., dtype=float32, weak_type=True)
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """The same in numbers: errors that are accepted, absolute, relative, and in units of the last place.

    >>> from functad import lax
    >>> lax.exp(0.0, accuracy=Tolerance(rtol=1e-5))
    Array(1., dtype=float32, weak_type=True)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0
