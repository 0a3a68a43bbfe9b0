"""Data sets and mini-batches, all as NumPy arrays: MNIST, drawn digits, batching.

Knows the public names only, not how the data are found, drawn or cut.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.data.batching import Batches, batches
from functad.data.mnist_files import MNIST, MissingMNISTError, mnist
from functad.data.synthetic import synthetic_digits

__all__ = ["MNIST", "Batches", "MissingMNISTError", "batches", "mnist", "synthetic_digits"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
