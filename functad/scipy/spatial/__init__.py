"""`functad.scipy.spatial`: rotations in three dimensions.

Knows the names of its parts, which load at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent

if TYPE_CHECKING:
    from functad.scipy.spatial import transform as transform

__all__ = ["transform"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
