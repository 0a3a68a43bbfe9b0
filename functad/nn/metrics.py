"""How well a classifier does, or a model of text: from its scores and the true classes.

Knows nothing of layers.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError, is_int
from functad.nn.functions import comparable
from functad.nn.losses import logits_and_labels


def accuracy(logits: Any, labels: Any, axis: int = -1) -> Array:
    """The share of examples whose largest score is that of the right class: a scalar.

    Args:
        logits: one score a class along `axis`.
        labels: integers, of the shape of `logits` without `axis`.
        axis: the axis over the classes.

    >>> import functad.numpy as jnp
    >>> accuracy(jnp.array([[0., 1.], [2., 1.]]), jnp.array([1, 1]))
    Array(0.5, dtype=float32)
    """
    logits, labels = logits_and_labels(logits, labels, axis, "accuracy")
    return jnp.mean(jnp.argmax(logits, axis) == labels)


def top_k_accuracy(logits: Any, labels: Any, k: int) -> Array:
    """The share of examples whose true class is among the k of the highest scores.

    Of equal scores those of lower classes come first; NaN comes before all others, but is right nowhere.

    Args:
        logits: scores of shape (…, classes).
        labels: integers of shape (…). Examples with another number, such as -1, are wrong.
        k: how many, at most as many as there are classes.

    Raises:
        ArgumentError: another k. ShapeError: shapes that do not fit. DTypeError: labels that are no integers.

    >>> import functad.numpy as jnp
    >>> top_k_accuracy(jnp.array([[3., 1., 2.], [0., 1., 5.]]), jnp.array([2, 0]), 2)
    Array(0.5, dtype=float32)
    """
    logits, labels = logits_and_labels(logits, labels, -1, "top_k_accuracy")
    classes = logits.shape[-1]
    if not is_int(k, 1) or k > classes:
        raise ArgumentError(f"top_k_accuracy: k={k!r} must be an int of 1 to {classes}, the number of classes")
    labels = comparable(labels, classes)[..., None]
    own = jnp.take_along_axis(logits, labels, -1)
    # Said of those behind: comparisons with NaN are False, so that one comes before all numbers, and before itself.
    behind = (logits < own) | ((logits == own) & (jnp.arange(classes) >= labels))
    among = (classes - behind.sum(-1, keepdims=True) < k) & (labels >= 0) & (labels < classes)
    return jnp.mean(among)


def confusion_matrix(predicted: Any, labels: Any, classes: int) -> Array:
    """How many examples of each class were taken for each: element [i, j] counts those of class i taken for j.

    Args:
        predicted: integers from 0 to classes - 1, such as `logits.argmax(-1)`.
        labels: the true classes, of the same shape. Examples with another number in either, such as -1, do not count.
        classes: how many there are.

    Returns:
        int32 of shape (classes, classes).

    Raises:
        ShapeError: different shapes. DTypeError: no integers.

    >>> import functad.numpy as jnp
    >>> confusion_matrix(jnp.array([0, 1, 1]), jnp.array([0, 0, 1]), 2)
    Array([[1, 1],
           [0, 1]], dtype=int32)
    """
    predicted, labels = jnp.asarray(predicted), jnp.asarray(labels)
    if predicted.shape != labels.shape:
        raise ShapeError(
            f"confusion_matrix: predicted has shape {predicted.shape} and labels {labels.shape}; of scores take "
            "logits.argmax(-1)"
        )
    for name, x in (("predicted", predicted), ("labels", labels)):
        if kind_of(x.dtype) not in "iub":
            raise DTypeError(f"confusion_matrix: {name} has dtype {x.dtype}, but must hold the numbers of classes")
    predicted, labels = comparable(predicted, classes), comparable(labels, classes)
    counted = (labels >= 0) & (labels < classes) & (predicted >= 0) & (predicted < classes)
    pairs = jnp.where(counted, labels.astype("int32") * classes + predicted.astype("int32"), classes * classes)
    counts = jnp.bincount(jnp.ravel(pairs), length=classes * classes + 1)
    return counts[:-1].reshape(classes, classes).astype("int32")


def precision(matrix: Any) -> Array:
    """Of the examples taken for a class the share that belong to it, for each class; 0 of none.

    Args:
        matrix: of `confusion_matrix`.

    >>> import functad.numpy as jnp
    >>> precision(jnp.array([[3, 1], [1, 0]]))
    Array([0.75, 0.  ], dtype=float32)
    """
    return _share(matrix, 0)


def recall(matrix: Any) -> Array:
    """Of the examples of a class the share that were taken for it, for each class; 0 of none.

    Args:
        matrix: of `confusion_matrix`.

    >>> import functad.numpy as jnp
    >>> recall(jnp.array([[3, 1], [0, 0]]))
    Array([0.75, 0.  ], dtype=float32)
    """
    return _share(matrix, 1)


def f1_score(matrix: Any) -> Array:
    """The harmonic mean of precision and recall, for each class; `.mean()` is the macro average.

    Args:
        matrix: of `confusion_matrix`.

    >>> import functad.numpy as jnp
    >>> f1_score(jnp.array([[3, 1], [1, 0]]))
    Array([0.75, 0.  ], dtype=float32)
    """
    matrix = _square(matrix)
    right, both = jnp.diagonal(matrix), matrix.sum(0) + matrix.sum(1)
    return jnp.where(both > 0, 2 * right / jnp.maximum(both, 1), 0.0).astype("float32")


def perplexity(loss: Any) -> Array:
    """Among how many equally likely classes a model with this mean loss, in nats, seems to choose: exp(loss).

    >>> import math
    >>> perplexity(math.log(20.0)).round(3)
    Array(20., dtype=float32, weak_type=True)
    """
    return jnp.exp(loss)


def _share(matrix: Any, axis: int) -> Array:
    matrix = _square(matrix)
    total = matrix.sum(axis)
    return jnp.where(total > 0, jnp.diagonal(matrix) / jnp.maximum(total, 1), 0.0).astype("float32")


def _square(matrix: Any) -> Array:
    matrix = jnp.asarray(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"the matrix has shape {matrix.shape}; give the square one that confusion_matrix makes")
    return matrix
