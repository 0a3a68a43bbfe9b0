"""The convolutional network that tells praise from blame, and reviews as the numbers that it reads.

Knows nothing of where reviews come from or how the network is trained.
"""

from __future__ import annotations

from array import array
from itertools import repeat
from typing import Any

import numpy as np

from functad import nn, random
from functad import numpy as jnp
from functad.data import Reviews, Vocabulary, pad, tokenize
from functad.data.words import UNKNOWN
from functad.errors import ArgumentError
from functad.nn import initializers
from functad.train.tasks import Dataset

WORDS, LENGTH = 12_849, 130
WIDTH, POOL = 3, 8
_LEFT_OUT = -1  # where a word stood that is not read
_PARTS = 64


def text_cnn(
    words: int = WORDS,
    features: int = 50,
    channels: int = 8,
    width: int = WIDTH,
    pool: int = POOL,
    word_dropout: float = 0.0,
    dropout: float = 0.0,
) -> nn.Layer:
    """Embedding, convolution along the words, relu, max-pooling, dense 1.

    Args:
        words: the size of the vocabulary.
        features: of a word.
        channels: of the convolution.
        width: words that the convolution sees at once.
        pool: places of which the greatest value is kept.
        word_dropout: the probability that a word is read as unknown in training.
        dropout: that of a value before the dense layer.

    Returns:
        A layer from int32 of shape (n, length) to scores of shape (n, 1), above 0 for praise.

    >>> import functad
    >>> params = text_cnn().init(functad.random.key(0), functad.ShapeDtypeStruct((1, 130), "int32"))
    >>> [leaf.shape for leaf in functad.tree.leaves(params)]
    [(12849, 50), (8,), (3, 50, 8), (1,), (128, 1)]
    """
    layers = [
        nn.Embedding(words, features, initializers.normal(0.1)),
        nn.Conv(channels, (width,), layout="NWC"),
        nn.Relu(),
        nn.MaxPool((pool,), layout="NWC"),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Dense(1),
    ]
    return nn.serial(_WordDropout(word_dropout), *layers)


def _WordDropout(rate: float) -> nn.Layer:
    """While training, words at random become unknown ones (Iyyer et al. 2015)."""

    def init(key: Any, x: Any) -> tuple[()]:
        return ()

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        if not train or rate == 0:
            return x
        return jnp.where(random.bernoulli(key, rate, x.shape) & (x > UNKNOWN), UNKNOWN, x)

    return nn.Layer(init, apply)


def review_sets(
    reviews: Reviews, words: int = WORDS, length: int = LENGTH, keep: str = "first", skip: int = 0
) -> tuple[Dataset, Dataset, Vocabulary]:
    """Reviews as numbers of words, to train on and to test with, and the vocabulary.

    Args:
        reviews: of which the ones to train on make the vocabulary.
        words: the size of the vocabulary, of the most frequent words.
        length: words of a review that are read.
        keep: "first" or "last", which words of a longer review.
        skip: leave out so many of the most frequent words, which say least, before the review is cut.

    Raises:
        ArgumentError: no words are left.

    >>> import numpy as np
    >>> reviews = Reviews(["a good film"], np.array([1]), ["a bad film"], np.array([0]))
    >>> train, test, vocabulary = review_sets(reviews, 9, 4)
    >>> train.inputs, test.inputs, vocabulary.words
    (array([[2, 4, 3, 0]], dtype=int32), array([[2, 1, 3, 0]], dtype=int32), ('<pad>', '<unk>', 'a', 'film', 'good'))
    """
    # Texts are cut into words once: as numbers they take a tenth of the memory that lists of words would.
    met, numbered, ends = _Numbering(), array("i"), []
    for text in reviews.train_texts:
        numbered.extend(map(met.__getitem__, tokenize(text)))
        ends.append(len(numbered))
    everything = np.asarray(numbered, np.int32)
    parts = np.array_split(everything, _PARTS)  # counting makes 64 bits of each number
    counts: Any = sum(np.bincount(part, minlength=len(met)) for part in parts)
    vocabulary = Vocabulary.of_counts(dict(zip(met, counts.tolist())), size=words + skip)
    frequent = vocabulary.words[2 : 2 + skip]
    vocabulary = Vocabulary(vocabulary.words[:2] + vocabulary.words[2 + skip :])
    if len(vocabulary) < 3:
        raise ArgumentError(
            f"no word is left of the reviews in a vocabulary of {words} (two are for padding and unknown words) after "
            f"the {skip} most frequent ones; take a larger vocabulary, or skip fewer"
        )
    numbers = {**dict.fromkeys(frequent, _LEFT_OUT), **{word: i for i, word in enumerate(vocabulary.words)}}
    renumbered = np.array([numbers.get(word, UNKNOWN) for word in met], np.int32)
    part = slice(length) if keep == "first" else slice(-length, None)

    def kept(read: np.ndarray) -> Any:
        return read[read != _LEFT_OUT][part]

    def read(text: str) -> np.ndarray:
        return np.array(list(map(numbers.get, tokenize(text), repeat(UNKNOWN))), np.int32)

    texts = (everything[start:end] for start, end in zip([0, *ends], ends))
    train = pad([kept(renumbered[text]) for text in texts], length, keep=keep)
    test = pad([kept(read(text)) for text in reviews.test_texts], length, keep=keep)
    return Dataset(train, reviews.train_labels), Dataset(test, reviews.test_labels), vocabulary


class _Numbering(dict[str, int]):
    """Numbers words as they are met."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
