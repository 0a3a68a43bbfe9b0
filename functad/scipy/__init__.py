"""`functad.scipy`: the parts of SciPy that JAX has, under SciPy's names; differentiable, mapped and compiled.

Knows the names of its parts, which load at first use; SciPy itself is never imported.
"""

from __future__ import annotations

from functad.absent import parts

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "ndimage",
    "signal",
]

__getattr__ = parts(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
