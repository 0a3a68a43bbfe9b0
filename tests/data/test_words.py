"""Words and their numbers: tokenisation, vocabularies, padding, batches of about equal lengths."""

from __future__ import annotations

import numpy as np
import pytest

from functad import random
from functad.data import Vocabulary, buckets, pad, tokenize
from functad.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("<br /><br/>", []),
        ("One<br />two<BR>three", ["one", "two", "three"]),
        ("don't 'quote' 90's rock'n'roll'", ["don't", "quote", "90's", "rock'n'roll"]),
        ("''a' ' 'b'''c''d e'f' '", ["a", "b", "c", "d", "e'f"]),
        ("well-made, 10/10!", ["well", "made", "10", "10"]),
        ("Café_NAÏVE", ["café", "naïve"]),
    ],
)
def test_tokenize(text, words):
    assert tokenize(text) == words


class TestVocabulary:
    texts = (["b", "a", "b", "c"], ["a", "d", "<unk>"])

    def test_order_is_by_count_then_alphabet(self):
        assert Vocabulary.of(self.texts).words == ("<pad>", "<unk>", "a", "b", "c", "d")
        assert Vocabulary.of(reversed(self.texts)).words == Vocabulary.of(self.texts).words

    def test_size_and_minimum(self):
        assert Vocabulary.of(self.texts, size=3).words == ("<pad>", "<unk>", "a")
        assert Vocabulary.of(self.texts, minimum=2).words == ("<pad>", "<unk>", "a", "b")
        assert len(Vocabulary.of(self.texts, size=2)) == 2

    def test_encode_and_decode(self):
        vocabulary = Vocabulary.of(self.texts)
        assert vocabulary.encode(["d", "e", "a"]) == [5, 1, 2]
        assert vocabulary.decode(np.array([5, 1, 2, 0])) == ["d", "<unk>", "a", "<pad>"]
        assert "d" in vocabulary and "e" not in vocabulary
        assert repr(vocabulary) == "<Vocabulary of 6 words>"

    def test_wrong_arguments(self):
        with pytest.raises(ArgumentError, match="at least 2 numbers"):
            Vocabulary.of(self.texts, size=1)
        with pytest.raises(ArgumentError, match="cut it into words first"):
            Vocabulary.of(["a text"])
        for words in (["a", "b", "c"], ["<pad>", "<unk>", "a", "a"]):
            with pytest.raises(ArgumentError, match="none may come twice"):
                Vocabulary(words)


def test_pad():
    sequences = [[1, 2, 3], [], [4]]
    np.testing.assert_array_equal(pad(sequences), np.array([[1, 2, 3], [0, 0, 0], [4, 0, 0]], np.int32), strict=True)
    np.testing.assert_array_equal(pad(sequences, 2), [[1, 2], [0, 0], [4, 0]])
    np.testing.assert_array_equal(pad(sequences, 2, keep="last"), [[2, 3], [0, 0], [4, 0]])
    assert pad(sequences, 0, keep="last").shape == (3, 0) and pad([]).shape == (0, 0)
    with pytest.raises(ArgumentError, match="keep is 'middle'"):
        pad(sequences, keep="middle")
    with pytest.raises(ArgumentError, match="length is -1"):
        pad(sequences, -1)


class TestBuckets:
    lengths = np.random.default_rng(0).integers(0, 100, 500)

    @pytest.mark.parametrize("key", [None, 3])
    def test_each_item_comes_once_and_fits(self, key):
        found = buckets(self.lengths, 16, key=None if key is None else random.key(key), step=8)
        items = np.concatenate([batch for batch, _ in found])
        assert sorted(items.tolist()) == list(range(500))
        for batch, length in found:
            assert length % 8 == 0 and len(batch) <= 16
            assert (self.lengths[batch] <= length).all() and (self.lengths[batch] > length - 8).sum() >= len(batch) - (
                self.lengths[batch] == 0
            ).sum()

    def test_the_key_decides(self):
        first, again, other = (buckets(self.lengths, 16, key=random.key(k)) for k in (0, 0, 1))
        assert [batch.tolist() for batch, _ in first] == [batch.tolist() for batch, _ in again]
        assert [batch.tolist() for batch, _ in first] != [batch.tolist() for batch, _ in other]

    def test_none_and_wrong_arguments(self):
        assert buckets([], 4) == []
        with pytest.raises(ArgumentError, match="batch_size must be an int of at least 1, got 0"):
            buckets([1], 0)
        with pytest.raises(ArgumentError, match="step must be an int of at least 1, got 0"):
            buckets([1], 1, step=0)
