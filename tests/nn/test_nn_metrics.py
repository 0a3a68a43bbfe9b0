"""Metrics of classifiers against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import nn
from functad.errors import ArgumentError, DTypeError, ShapeError

rng = np.random.default_rng(0)
LOGITS = rng.integers(0, 4, (60, 5)).astype(np.float32)  # with ties
LABELS = rng.integers(0, 5, 60)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k(k):
    order = np.argsort(-LOGITS, axis=1, kind="stable")[:, :k]
    wanted = np.mean([label in row for label, row in zip(LABELS, order)])
    for f in (nn.top_k_accuracy, functad.jit(nn.top_k_accuracy, static_argnums=2)):
        assert float(f(LOGITS, LABELS, k)) == pytest.approx(wanted)
    if k == 1:
        assert float(nn.accuracy(LOGITS, LABELS)) == pytest.approx(wanted)


@pytest.mark.parametrize("dtype, classes", [("uint8", 256), ("uint8", 300), ("int8", 128), ("int8", 200)])
def test_labels_of_few_bits(dtype, classes):
    labels = np.arange(100).astype(dtype)
    for transform in (lambda f: f, functad.jit):
        assert float(transform(lambda x: nn.top_k_accuracy(np.eye(classes)[:100], x, 1))(labels)) == 1
        matrix = transform(lambda x: nn.confusion_matrix(x, x, classes))(labels)
        np.testing.assert_array_equal(matrix, np.diag(np.arange(classes) < 100))


def test_what_is_no_class_does_not_count():
    predicted, labels = np.array([0, 2, -1, 1, 0, 1]), np.array([0, 0, 1, 2, -1, 0])
    for confusion in (nn.confusion_matrix, functad.jit(nn.confusion_matrix, static_argnums=2)):
        assert confusion(predicted, labels, 2).tolist() == [[1, 1], [0, 0]]


def test_confusion_and_what_comes_of_it():
    predicted = LOGITS.argmax(-1)
    predicted[predicted == 3] = 2  # nothing is taken for class 3
    labels = np.where(LABELS == 4, 0, LABELS)  # there is none of class 4
    wanted = np.zeros((5, 5), np.int32)
    np.add.at(wanted, (labels, predicted), 1)
    matrix = functad.jit(nn.confusion_matrix, static_argnums=2)(predicted, labels, 5)
    np.testing.assert_array_equal(matrix, wanted, strict=True)
    with np.errstate(invalid="ignore"):
        p = np.nan_to_num(np.diag(wanted) / wanted.sum(0))
        r = np.nan_to_num(np.diag(wanted) / wanted.sum(1))
        f = np.nan_to_num(2 * p * r / (p + r))
    assert p[3] == 0 and r[4] == 0
    np.testing.assert_allclose(nn.precision(matrix), p, rtol=1e-6)
    np.testing.assert_allclose(nn.recall(matrix), r, rtol=1e-6)
    np.testing.assert_allclose(nn.f1_score(matrix), f, rtol=1e-6)


def test_perplexity_of_a_uniform_guess():
    loss = nn.softmax_cross_entropy_with_integer_labels(np.zeros((3, 7), np.float32), np.array([0, 3, 6])).mean()
    assert float(nn.perplexity(loss)) == pytest.approx(7, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nn.top_k_accuracy(LOGITS, LABELS, 6), ArgumentError, "k=6 must be an int of 1 to 5"),
        (lambda: nn.top_k_accuracy(LOGITS, LABELS[1:], 1), ShapeError, r"need labels of shape \(60,\), got \(59,\)"),
        (lambda: nn.top_k_accuracy(LOGITS, LABELS * 1.0, 1), DTypeError, "must be integers"),
        (lambda: nn.confusion_matrix(LOGITS, LABELS, 5), ShapeError, r"take logits.argmax\(-1\)"),
        (lambda: nn.confusion_matrix(LABELS * 1.0, LABELS, 5), DTypeError, "predicted has dtype"),
        (lambda: nn.recall(LOGITS), ShapeError, "the square one that confusion_matrix makes"),
    ],
)
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_nan_is_never_among_the_highest_and_before_all_numbers(k):
    scores = np.array([[np.nan, np.nan, np.nan], [np.nan, 1, 2], [np.nan, 1, 2], [np.nan, 1, 2]])
    for f in (nn.top_k_accuracy, functad.jit(nn.top_k_accuracy, static_argnums=2)):
        assert f(scores, np.array([0, 0, 2, 1]), k) == {1: 0, 2: 0.25, 3: 0.5}[k]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_labels_that_are_no_class_are_wrong(dtype):
    labels = np.array([0, 3, -1]).astype(dtype)
    for k in (1, 3):
        assert nn.top_k_accuracy(np.eye(3), labels, k) == np.float32(1 / 3)
    assert nn.accuracy(np.eye(3), labels) == np.float32(1 / 3)
