"""Pytrees of arrays in files: `.npz`, which NumPy reads, and `.safetensors`, which other libraries read.

Knows the public names only. Nothing is ever pickled or unpickled.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.io.files import check_writable as check_writable
from functad.io.files import load, save

__all__ = [
    "load",
    "save",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
