"""Drawn digits: what they look like, and that they can be learned."""

from __future__ import annotations

import numpy as np
import pytest

from functad.data import synthetic_digits
from functad.errors import ArgumentError


@pytest.fixture(scope="module")
def sets():
    """10,000 drawn digits to train on and 2,000 of another seed, flat."""
    train, train_labels = synthetic_digits(10_000, seed=0)
    test, test_labels = synthetic_digits(2_000, seed=1)
    return train.reshape(-1, 784), train_labels, test.reshape(-1, 784), test_labels


class TestSyntheticDigits:
    def test_shapes_values_and_labels(self):
        images, labels = synthetic_digits(700, seed=3)
        assert images.shape == (700, 28, 28) and images.dtype == np.float32
        assert labels.shape == (700,) and labels.dtype == np.int32
        assert images.min() == 0 and 0.9 < images.max() <= 1
        assert np.bincount(labels, minlength=10).min() > 40

    def test_the_seed_decides(self):
        first, again, other = synthetic_digits(50, 4), synthetic_digits(50, 4), synthetic_digits(50, 5)
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert (first[0] != other[0]).any() and (first[1] != other[1]).any()

    def test_the_digits_do_not_change_from_version_to_version(self):
        images, labels = synthetic_digits(20, seed=0)
        assert labels.tolist() == [8, 6, 5, 2, 3, 0, 0, 0, 1, 8, 6, 9, 5, 6, 9, 7, 6, 5, 5, 9]
        assert images.mean(dtype=np.float64) == pytest.approx(0.148947, abs=1e-5)

    def test_none_and_wrong_arguments(self):
        assert synthetic_digits(0, 0)[0].shape == (0, 28, 28)
        with pytest.raises(ArgumentError, match="n must be an int of at least 0, got -1"):
            synthetic_digits(-1, 0)
        with pytest.raises(ArgumentError, match="seed must be an int of at least 0, got -2"):
            synthetic_digits(1, -2)

    def test_a_linear_model_stays_below_92_percent(self, sets):
        train, train_labels, test, test_labels = sets
        predicted = softmax_regression(train, train_labels, test)
        accuracy = (predicted == test_labels).mean()
        assert 0.7 < accuracy < 0.92

    def test_the_nearest_neighbour_does_clearly_better(self, sets):
        train, train_labels, test, test_labels = sets
        test, test_labels = test[:500], test_labels[:500]
        distance = (train**2).sum(1) - 2 * test @ train.T
        accuracy = (train_labels[distance.argmin(1)] == test_labels).mean()
        assert accuracy > 0.93


def softmax_regression(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """What a linear classifier predicts after 15 epochs of SGD with momentum and a falling rate."""
    rng = np.random.default_rng(0)
    weights = np.zeros((train.shape[1] + 1, 10), np.float32)
    velocity = np.zeros_like(weights)
    targets = np.eye(10, dtype=np.float32)[labels]
    train, test = (np.pad(x, ((0, 0), (0, 1)), constant_values=1) for x in (train, test))
    for epoch in range(15):
        for items in rng.permutation(len(train)).reshape(-1, 100):
            x = train[items]
            logits = x @ weights
            likelihood = np.exp(logits - logits.max(1, keepdims=True))
            error = likelihood / likelihood.sum(1, keepdims=True) - targets[items]
            velocity = 0.9 * velocity - (0.03 - 0.002 * epoch) / 100 * (x.T @ error)
            weights = weights + velocity
    return (test @ weights).argmax(1)


@pytest.mark.parametrize(
    ("n", "seed", "message"),
    [
        (3.5, 0, "synthetic_digits: n must be an int of at least 0, got 3.5"),
        ("3", 0, "n must be an int of at least 0, got '3'"),
        (3, 1.5, "seed must be an int of at least 0, got 1.5"),
        (3, None, "seed must be an int of at least 0, got None"),
    ],
)
def test_counts_of_digits_that_are_no_ints(n, seed, message):
    with pytest.raises(ArgumentError, match=message):
        synthetic_digits(n, seed)
