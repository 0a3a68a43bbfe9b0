"""Data sets and mini-batches: digits and texts, found or invented, idx files, words as numbers, batches, augmentation.

Knows the public names only, not how the data are found, drawn or cut.

Shapes:
    Arrays keep theirs.

Raises:
    Nothing of its own.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.data.batching import Batches, batches
from functad.data.idx import read_idx
from functad.data.loading import DataLoader, Position, loader
from functad.data.mnist_files import MNIST, mnist
from functad.data.places import MissingDataError
from functad.data.synthetic import synthetic_digits
from functad.data.synthetic_text import synthetic_reviews
from functad.data.texts import Reviews, SplitText, imdb, rt_polarity, shakespeare
from functad.data.words import Vocabulary, buckets, pad, tokenize

if TYPE_CHECKING:
    from functad.data import augment as augment

__all__ = [
    "MNIST",
    "Batches",
    "DataLoader",
    "MissingDataError",
    "Position",
    "Reviews",
    "SplitText",
    "Vocabulary",
    "augment",
    "batches",
    "buckets",
    "imdb",
    "loader",
    "mnist",
    "pad",
    "read_idx",
    "rt_polarity",
    "shakespeare",
    "synthetic_digits",
    "synthetic_reviews",
    "tokenize",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, ("augment",))


def __dir__() -> list[str]:
    return __all__
