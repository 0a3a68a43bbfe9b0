"""`functad.scipy.sparse`: linear equations whose matrix is a function, in `linalg`.

Knows the name of its part; arrays themselves are dense.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.scipy.sparse import linalg as linalg

__all__ = ["linalg"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
