"""Data sets and mini-batches, all as NumPy arrays: digits and texts, found or invented, words as numbers, batching.

Knows the public names only, not how the data are found, drawn or cut.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.data.batching import Batches, batches
from functad.data.mnist_files import MNIST, mnist
from functad.data.places import MissingDataError
from functad.data.synthetic import synthetic_digits
from functad.data.synthetic_text import synthetic_reviews
from functad.data.texts import Reviews, Text, imdb, rt_polarity, shakespeare
from functad.data.words import Vocabulary, buckets, pad, tokenize

__all__ = [
    "MNIST",
    "Batches",
    "MissingDataError",
    "Reviews",
    "Text",
    "Vocabulary",
    "batches",
    "buckets",
    "imdb",
    "mnist",
    "pad",
    "rt_polarity",
    "shakespeare",
    "synthetic_digits",
    "synthetic_reviews",
    "tokenize",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)
