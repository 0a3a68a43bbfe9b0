"""Losses: values by hand, gradients by formula, the texts of shape errors."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import nn
from functad import numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 3))
LABELS = np.array([2, 0, 1, 2])


def test_integer_labels_and_one_hot_labels_agree():
    by_integers = nn.softmax_cross_entropy_with_integer_labels(LOGITS, LABELS)
    by_rows = nn.softmax_cross_entropy(LOGITS, np.eye(3)[LABELS])
    expected = -np.log(np.exp(LOGITS)[np.arange(4), LABELS] / np.exp(LOGITS).sum(1))
    np.testing.assert_allclose(np.asarray(by_integers), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(by_rows), expected, rtol=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_gradient_of_cross_entropy_is_probability_minus_label(transform):
    def loss(logits):
        return nn.softmax_cross_entropy_with_integer_labels(logits, LABELS).sum()

    # d/dz (logsumexp(z) - z_label) = softmax(z) - one_hot(label)
    expected = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True) - np.eye(3)[LABELS]
    np.testing.assert_allclose(np.asarray(transform(functad.grad(loss))(LOGITS)), expected, rtol=1e-10, atol=1e-12)


def test_classes_may_lie_along_another_axis():
    turned = nn.softmax_cross_entropy_with_integer_labels(LOGITS.T, LABELS, axis=0)
    straight = nn.softmax_cross_entropy_with_integer_labels(LOGITS, LABELS)
    np.testing.assert_allclose(np.asarray(turned), np.asarray(straight))
    assert nn.accuracy(LOGITS.T, LABELS, axis=0) == nn.accuracy(LOGITS, LABELS)


def test_classes_can_be_left_out():
    where = np.array([True, False, True])
    kept = nn.softmax_cross_entropy_with_integer_labels(LOGITS[:, ::2], np.array([1, 0]).repeat(2))
    masked = nn.softmax_cross_entropy_with_integer_labels(LOGITS, np.array([2, 2, 0, 0]), where=where)
    np.testing.assert_allclose(np.asarray(masked), np.asarray(kept))
    rows = nn.softmax_cross_entropy(LOGITS, np.eye(3)[[2, 2, 0, 0]], where=where)
    np.testing.assert_allclose(np.asarray(rows), np.asarray(kept))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_logits_that_are_integers_count_as_floats(dtype):
    logits, labels = np.array([[3, 5]]), np.array([0])
    for transform in (lambda f: f, functad.jit):
        found = transform(nn.softmax_cross_entropy_with_integer_labels)(logits.astype(dtype), labels)
        np.testing.assert_allclose(found, 2 + np.log1p(np.exp(-2)), rtol=1e-6)


def test_large_logits_stay_finite():
    logits = np.array([[1e4, 0.0], [1e4, 0.0]], np.float32)
    assert nn.softmax_cross_entropy_with_integer_labels(logits, np.array([0, 1])).tolist() == [0.0, 1e4]
    assert nn.sigmoid_binary_cross_entropy(logits[0], np.array([0.0, 1.0])).tolist() == pytest.approx([1e4, np.log(2)])


def test_binary_cross_entropy():
    z, y = LOGITS[:, 0], np.array([0, 1, 1, 0])
    p = 1 / (1 + np.exp(-z))
    expected = -y * np.log(p) - (1 - y) * np.log(1 - p)
    np.testing.assert_allclose(np.asarray(nn.sigmoid_binary_cross_entropy(z, y)), expected, rtol=1e-12)
    # d/dz = sigmoid(z) - y
    gradient = functad.grad(lambda z: nn.sigmoid_binary_cross_entropy(z, y).sum())(z)
    np.testing.assert_allclose(np.asarray(gradient), p - y, rtol=1e-10)


def test_squared_and_huber():
    a, b = np.array([0.0, 1.0, 5.0, -4.0]), np.array([0.0, 0.5, 2.0, 0.0])
    np.testing.assert_allclose(np.asarray(nn.squared_error(a, b)), (a - b) ** 2)
    np.testing.assert_allclose(np.asarray(nn.l2_loss(a, b)), (a - b) ** 2 / 2)
    np.testing.assert_allclose(np.asarray(nn.l2_loss(a)), a**2 / 2)
    np.testing.assert_allclose(np.asarray(nn.huber_loss(a, b)), [0, 0.125, 2.5, 3.5])
    np.testing.assert_allclose(np.asarray(nn.huber_loss(a, b, delta=2.0)), [0, 0.125, 4.0, 6.0])
    # the error cut to [-delta, delta]
    gradient = functad.grad(lambda a: nn.huber_loss(a, b).sum())(a)
    np.testing.assert_allclose(np.asarray(gradient), [0, 0.5, 1, -1])


def test_accuracy_counts():
    assert nn.accuracy(np.array([[1.0, 0], [0, 1], [3, 2], [0, 5]]), np.array([0, 1, 1, 1])) == 0.75


def test_errors_name_the_shapes():
    with pytest.raises(ShapeError, match=r"logits of shape \(4, 3\) .* need labels of shape \(4,\), got \(4, 3\)"):
        nn.softmax_cross_entropy_with_integer_labels(LOGITS, np.zeros((4, 3), int))
    with pytest.raises(DTypeError, match=r"accuracy: labels must be integers.*float64.*argmax"):
        nn.accuracy(LOGITS, np.eye(3)[LABELS])
    with pytest.raises(ShapeError, match="use softmax_cross_entropy_with_integer_labels"):
        nn.softmax_cross_entropy(LOGITS, LABELS)
    with pytest.raises(ShapeError, match=r"predictions of shape \(3,\) and targets of shape \(3, 1\)"):
        nn.squared_error(np.ones(3), np.ones((3, 1)))
    with pytest.raises(ShapeError, match="no axis 2 over the classes"):
        nn.accuracy(LOGITS, LABELS, axis=2)


@pytest.mark.parametrize("wrong", [10, -1])
def test_labels_that_are_no_class_are_named(wrong):
    labels = jnp.array([0, wrong])
    message = rf"labels hold {wrong}, but the logits have 10 classes \(0\.\.9\)"
    with pytest.raises(ArgumentError, match=message):
        nn.softmax_cross_entropy_with_integer_labels(jnp.zeros((2, 10)), labels)
    with pytest.raises(ArgumentError, match=message):
        functad.grad(lambda x: nn.softmax_cross_entropy_with_integer_labels(x, labels).sum())(jnp.zeros((2, 10)))


def test_labels_without_values_are_not_checked():
    loss = functad.jit(nn.softmax_cross_entropy_with_integer_labels)(jnp.zeros((2, 10)), jnp.array([0, 9]))
    np.testing.assert_allclose(np.asarray(loss), np.log([10, 10]), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nn.softmax_cross_entropy_with_integer_labels(jnp.zeros((2, 3)), [0, 1, 2]),
            r"need labels of shape \(2,\), got \(3,\)",
        ),
        (
            lambda: nn.softmax_cross_entropy_with_integer_labels(jnp.zeros((2, 3)), [0, 1], where=jnp.ones(5, bool)),
            r"where of shape \(5,\) does not broadcast to logits of shape \(2, 3\)",
        ),
        (lambda: nn.softmax_cross_entropy(jnp.zeros((2, 3)), jnp.zeros((2, 3)), axis=2), "no axis 2 over the classes"),
        (
            lambda: nn.sigmoid_binary_cross_entropy(jnp.zeros((2, 3)), jnp.zeros((2, 4))),
            r"labels of shape \(2, 4\) do not broadcast with logits of shape \(2, 3\)",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_small_losses_of_large_logits_keep_their_digits(transform):
    logits = jnp.array([[1000.0, 990.0], [-1000.0, -1010.0]])
    found = transform(nn.softmax_cross_entropy_with_integer_labels)(logits, jnp.array([0, 0]))
    np.testing.assert_allclose(found, np.log1p(np.exp(-10.0)), rtol=2e-3)
