"""`batches`: rows in a random order, a batch at a time."""

from __future__ import annotations

import numpy as np
import pytest

from functad import random
from functad.data import batches
from functad.errors import ArgumentError, ShapeError


class TestBatches:
    data = {"x": np.arange(20.0).reshape(10, 2), "y": [np.arange(10)]}

    def test_batches_have_the_structure_of_the_data(self):
        parts = batches(self.data, 4)
        assert len(parts) == 3
        listed = list(parts)
        assert [batch["y"][0].tolist() for batch in listed] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in listed]), self.data["x"])

    def test_batches_can_be_run_through_again(self):
        parts = batches(np.arange(5), 2)
        assert [b.tolist() for b in parts] == [b.tolist() for b in parts] == [[0, 1], [2, 3], [4]]

    def test_a_permutation_gives_the_order(self):
        order = np.random.default_rng(0).permutation(10)
        listed = list(batches(self.data, 3, permutation=order))
        np.testing.assert_array_equal(np.concatenate([batch["y"][0] for batch in listed]), order)
        np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in listed]), self.data["x"][order])

    def test_a_key_shuffles(self):
        def shuffled(seed):
            listed = list(batches(self.data, 3, key=random.key(seed)))
            assert [len(batch["x"]) for batch in listed] == [3, 3, 3, 1]
            return np.concatenate([batch["y"][0] for batch in listed]).tolist()

        assert shuffled(0) == shuffled(0) == random.permutation(random.key(0), 10).tolist()
        assert shuffled(0) != shuffled(1)
        with pytest.raises(ArgumentError, match="a key or a permutation, not both"):
            batches(self.data, 3, key=random.key(0), permutation=range(10))

    @pytest.mark.parametrize("permutation", [None, range(10)])
    def test_the_remainder_can_be_left_out(self, permutation):
        parts = batches(self.data, 4, permutation=permutation, drop_remainder=True)
        assert len(parts) == 2
        assert [len(batch["x"]) for batch in parts] == [4, 4]

    def test_no_items_are_no_batches(self):
        assert len(batches(np.zeros((0, 3)), 4)) == 0
        assert list(batches(np.zeros((0, 3)), 4)) == []

    @pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, "4"])
    def test_wrong_batch_size(self, batch_size):
        with pytest.raises(ArgumentError, match="batch_size must be an int of at least 1"):
            batches(self.data, batch_size)

    def test_lengths_that_differ(self):
        with pytest.raises(ShapeError, match=r"data\['x'\] has shape \(3,\), data\['y'\] has shape \(4, 2\)"):
            batches({"x": np.zeros(3), "y": np.zeros((4, 2))}, 2)

    def test_scalars_and_nothing(self):
        with pytest.raises(ShapeError, match=r"data\[1\] is a scalar"):
            batches((np.zeros(3), 1.0), 2)
        with pytest.raises(ArgumentError, match="data holds no array"):
            batches([], 2)

    @pytest.mark.parametrize(
        ("permutation", "message"),
        [
            ([0, 1], r"shape \(2,\) and dtype int64; expected integers of shape \(3,\)"),
            ([0.0, 1.0, 2.0], "dtype float64"),
            ([0, 1, 1], r"lacks \[2\] of the items 0 to 2"),
            ([0, 1, 3], r"lacks \[2\]"),
            ([0, 1, -1], r"lacks \[2\]"),
        ],
    )
    def test_what_is_no_permutation(self, permutation, message):
        with pytest.raises(ArgumentError, match=message):
            batches(np.zeros(3), 2, permutation=permutation)

    def test_no_batch_left(self):
        with pytest.raises(ArgumentError, match="only 3 items for a batch of 4"):
            batches(np.zeros(3), 4, drop_remainder=True)


@pytest.mark.parametrize("key", [0, "key", np.zeros(2, np.int32), np.zeros((3, 2), np.uint32)])
def test_batches_names_a_key_that_is_none(key):
    with pytest.raises(ArgumentError, match=r"(?s)batches: key is .*, which is no random key; .*random\.key\(seed\)"):
        batches(np.zeros(4), 2, key=key)
