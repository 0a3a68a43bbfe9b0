"""`functad.scipy.optimize`: minima of functions of vectors, with the names of `jax.scipy.optimize`.

Collects names; `bfgs.py` steps, `line_search.py` finds how far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.scipy.optimize.bfgs import OptimizeResults, minimize

__all__ = ["OptimizeResults", "minimize"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
