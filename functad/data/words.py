"""Texts as numbers: words, a vocabulary, sequences of one length, batches of about equal lengths.

This file must not know where texts come from, nor what the numbers are for. Equal texts give equal numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functad import random
from functad.errors import ArgumentError, check_int

PADDING, UNKNOWN = 0, 1

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def tokenize(text: str) -> list[str]:
    """The words of a text in lower case: letters and digits, apostrophes inside of words kept, the rest left out.

    >>> tokenize("It isn't <br />GOOD - it's a 10!")
    ['it', "isn't", 'good', "it's", 'a', '10']
    """
    # Cutting at gaps takes two thirds of the time of an expression that finds words.
    text = (_BREAK.sub(" ", text) if "<" in text else text).lower().translate(_GAPS)
    if "'" in text:  # those inside of a word stay, as in don't and 90's; an expression takes longer to tell them
        text = f" {text} ".replace("''", "  ").replace(" '", "  ").replace("' ", "  ")
    return text.split()


class _Gaps(dict[int, int]):
    """For `str.translate`: letters, digits and apostrophes stay, anything else is a gap."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        self[code] = code if character.isalnum() or character == "'" else ord(" ")
        return self[code]


_GAPS = _Gaps()


class Vocabulary:
    """Words and their numbers: 0 stands for padding, 1 for words that are not in it.

    Attributes:
        words: in the order of their numbers, the first two are `"<pad>"` and `"<unk>"`.

    >>> vocabulary = Vocabulary.of([["to", "be", "or"], ["not", "to", "be"]], minimum=2)
    >>> vocabulary.words
    ('<pad>', '<unk>', 'be', 'to')
    >>> vocabulary.encode(["to", "do"])
    [3, 1]
    >>> vocabulary.decode([3, 1, 0])
    ['to', '<unk>', '<pad>']
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if self.words[:2] != _SPECIAL or len(self._numbers) != len(self.words):
            raise ArgumentError("Vocabulary: the words must begin with '<pad>' and '<unk>', and none may come twice")

    @classmethod
    def of(cls, texts: Iterable[Iterable[str]], *, size: int | None = None, minimum: int = 1) -> Vocabulary:
        """The vocabulary of texts, the most frequent words first, equally frequent ones in the order of the alphabet.

        Args:
            texts: sequences of words.
            size: at most so many numbers, those of padding and unknown words included.
            minimum: how often a word must occur at least.

        Raises:
            ArgumentError: a size below 2, or a text that is a string and no sequence of words.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            if isinstance(text, str):
                raise ArgumentError("Vocabulary.of: a text is a string; cut it into words first, with tokenize(text)")
            counts.update(text)
        return cls.of_counts(counts, size=size, minimum=minimum)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], *, size: int | None = None, minimum: int = 1) -> Vocabulary:
        """The vocabulary of words that were counted, otherwise as `of`.

        >>> Vocabulary.of_counts({"to": 2, "be": 2, "or": 1}, size=4).words
        ('<pad>', '<unk>', 'be', 'to')
        """
        if size is not None and size < len(_SPECIAL):
            raise ArgumentError(f"Vocabulary: size is {size}; at least 2 numbers are needed, for padding and unknown")
        known = (word for word, n in counts.items() if n >= minimum and word not in _SPECIAL)
        frequent = sorted(sorted(known), key=counts.__getitem__, reverse=True)  # equal ones keep their order
        return cls((*_SPECIAL, *frequent[: None if size is None else size - len(_SPECIAL)]))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} words>"

    def encode(self, words: Iterable[str]) -> list[int]:
        """The numbers of words."""
        number = self._numbers.get
        return [number(word, UNKNOWN) for word in words]

    def decode(self, numbers: Iterable[Any]) -> list[str]:
        """The words of numbers."""
        return [self.words[int(number)] for number in numbers]


_SPECIAL = ("<pad>", "<unk>")


def pad(sequences: Sequence[Sequence[int]], length: int | None = None, *, keep: str = "first") -> np.ndarray:
    """Sequences of integers as one array, zeros behind those that are shorter.

    Args:
        sequences: of integers.
        length: to which all are brought; that of the longest if None.
        keep: "first" or "last", which part of a longer sequence stays.

    Returns:
        int32 of shape (number of sequences, length).

    Raises:
        ArgumentError: a length below 0, or another `keep`.

    >>> pad([[1, 2, 3, 4], [5]], 3)
    array([[1, 2, 3],
           [5, 0, 0]], dtype=int32)
    >>> pad([[1, 2, 3, 4], [5]], 3, keep="last")
    array([[2, 3, 4],
           [5, 0, 0]], dtype=int32)
    """
    if keep not in ("first", "last"):
        raise ArgumentError(f"pad: keep is {keep!r}; it is 'first' or 'last', the part of a longer sequence that stays")
    if length is None:
        length = max(map(len, sequences), default=0)
    if length < 0:
        raise ArgumentError(f"pad: length is {length}; it must be at least 0")
    result = np.full((len(sequences), length), PADDING, np.int32)
    for row, sequence in zip(result, sequences):
        part = sequence[:length] if keep == "first" else sequence[max(0, len(sequence) - length) :]
        row[: len(part)] = part
    return result


def buckets(lengths: Any, batch_size: int, *, key: Any = None, step: int = 16) -> list[tuple[np.ndarray, int]]:
    """Batches of items of about equal lengths, so that little is padded, and few shapes are compiled.

    Args:
        lengths: integers of shape (n,), those of the items.
        batch_size: items in a batch; fewer in the last one of each length.
        key: a random key, from which items of one length and the batches are shuffled; None takes them by length.
        step: lengths are rounded up to a multiple of it.

    Returns:
        A list of `(items, length)`: the positions of the items of a batch, and the length to pad them to.

    Raises:
        ArgumentError: `batch_size` or `step` is no int of at least 1.

    >>> buckets([3, 20, 5, 16, 4], 2, step=8)
    [(array([0, 2]), 8), (array([4]), 8), (array([3]), 16), (array([1]), 24)]
    """
    batch_size = check_int(batch_size, "buckets: batch_size", low=1)
    step = check_int(step, "buckets: step", low=1)
    rounded = -(-np.maximum(np.asarray(lengths), 1) // step) * step
    order_key, batch_key = (None, None) if key is None else random.split(key)
    order = np.arange(len(rounded)) if key is None else np.asarray(random.permutation(order_key, len(rounded)))
    order = order[np.argsort(rounded[order], kind="stable")]
    result = list(_runs(order, rounded, batch_size))
    if key is not None:
        result = [result[i] for i in np.asarray(random.permutation(batch_key, len(result)))]
    return result


def _runs(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    for group in np.split(order, ends) if len(order) else []:
        for start in range(0, len(group), batch_size):
            yield group[start : start + batch_size], int(lengths[group[0]])
