"""`functad.scipy.cluster`: groups of points.

Knows the names of its parts, which load at first use.
"""

from __future__ import annotations

from functad.absent import parts

__all__ = ["vq"]

__getattr__ = parts(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
