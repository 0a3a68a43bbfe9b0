"""What networks are judged by: losses, one number an example, and the accuracy.

Knows no layers. Nothing is summed over the batch: take the `.mean()` yourself. The names are optax's.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.nn.functions import first_outside, log_sigmoid, log_softmax, sum_and_peak


@compound
def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1, where: Any = None) -> Array:
    """Cross-entropy of probabilities `labels` with `softmax(logits)`.

    Args:
        logits: floats, one score a class along `axis`.
        labels: probabilities, such as one-hot rows, of the shape of `logits`.
        axis: the axis over the classes.
        where: booleans that broadcast to `logits`: classes that are False take no part.

    Returns:
        The shape of `logits` without `axis`.

    Raises:
        ShapeError: the shapes differ, or there is no such axis.

    >>> import functad.numpy as jnp
    >>> softmax_cross_entropy(jnp.array([[0., 0.]]), jnp.array([[1., 0.]]))
    Array([0.6931472], dtype=float32)
    """
    logits, labels = jnp.asarray(logits), jnp.asarray(labels)
    if logits.shape != labels.shape:
        raise ShapeError(
            f"softmax_cross_entropy: logits of shape {logits.shape} need labels of the same shape, got "
            f"{labels.shape}. For integer labels, one an example, use "
            "softmax_cross_entropy_with_integer_labels"
        )
    _check_axis(axis, logits.shape, "softmax_cross_entropy")
    _check_where(where, logits.shape, "softmax_cross_entropy")
    terms = labels * log_softmax(logits, axis, where)
    if where is not None:
        terms = jnp.where(where, terms, jnp.zeros_like(terms))
    return -jnp.sum(terms, axis)


def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1, where: Any = None) -> Array:
    """Cross-entropy of the class numbers `labels` with `softmax(logits)`.

    Args:
        logits: floats, one score a class along `axis`.
        labels: integers in 0..classes-1, of the shape of `logits` without `axis`.
        axis: the axis over the classes.
        where: booleans that broadcast to `logits`: classes that are False take no part.

    Returns:
        The shape of `labels`.

    Raises:
        ShapeError: the shapes do not fit. DTypeError: the labels are no integers.
        ArgumentError: a label is no class. Inside of `jit` labels have no values yet and are not checked.

    >>> import functad.numpy as jnp
    >>> softmax_cross_entropy_with_integer_labels(jnp.array([[0., 0.], [0., 100.]]), jnp.array([0, 1]))
    Array([0.6931472, 0.       ], dtype=float32)
    """
    name = "softmax_cross_entropy_with_integer_labels"
    logits, labels = logits_and_labels(logits, labels, axis, name)
    _check_where(where, logits.shape, name)
    _check_classes(labels, logits.shape[axis], name)
    return _of_labels(logits, labels, axis, where)


@compound
def _of_labels(logits: Any, labels: Any, axis: int, where: Any) -> Any:
    chosen = jnp.take_along_axis(logits, jnp.expand_dims(labels, axis), axis)
    total, peak = sum_and_peak(logits, axis, where=where)
    # The peak is taken from the logit: added to the small logarithm it would cost that its digits.
    return jnp.log(total) - (jnp.squeeze(chosen, axis) - peak)


@compound
def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Array:
    """Cross-entropy of the probabilities `labels` with `sigmoid(logits)`, element by element.

    Args:
        logits: floats, of any shape.
        labels: 0 or 1, or probabilities; of a shape that broadcasts with that of `logits`.

    Raises:
        ShapeError: it does not.

    >>> import functad.numpy as jnp
    >>> sigmoid_binary_cross_entropy(jnp.array([0., 100.]), jnp.array([1., 0.]))
    Array([  0.6931472, 100.       ], dtype=float32)
    """
    logits = jnp.asarray(logits)
    labels = jnp.asarray(labels).astype(logits.dtype)
    if not _broadcasts(labels.shape, logits.shape):
        raise ShapeError(
            f"sigmoid_binary_cross_entropy: labels of shape {labels.shape} do not broadcast with logits of shape "
            f"{logits.shape}; give one label for each logit"
        )
    return -labels * log_sigmoid(logits) - (1.0 - labels) * log_sigmoid(-logits)


@compound
def squared_error(predictions: Any, targets: Any = None) -> Array:
    """`(predictions - targets)**2`, element by element; without targets, the squared predictions.

    Raises:
        ShapeError: the shapes differ (they are not broadcast: that hides mistakes).

    >>> import functad.numpy as jnp
    >>> squared_error(jnp.array([1., 2.]), jnp.array([1., 4.]))
    Array([0., 4.], dtype=float32)
    """
    return jnp.square(_error(predictions, targets, "squared_error"))


@compound
def l2_loss(predictions: Any, targets: Any = None) -> Array:
    """Half the squared error, whose derivative is the error.

    >>> import functad.numpy as jnp
    >>> l2_loss(jnp.array([1., 2.]), jnp.array([1., 4.]))
    Array([0., 2.], dtype=float32)
    """
    return 0.5 * jnp.square(_error(predictions, targets, "l2_loss"))


@compound
def huber_loss(predictions: Any, targets: Any = None, delta: float = 1.0) -> Array:
    """Half the squared error up to `delta`, linear beyond (Huber 1964): outliers pull less.

    >>> import functad.numpy as jnp
    >>> huber_loss(jnp.array([0.5, 3.]), jnp.array([0., 0.]))
    Array([0.125, 2.5  ], dtype=float32)
    """
    size = jnp.abs(_error(predictions, targets, "huber_loss"))
    quadratic = jnp.minimum(size, delta)
    return 0.5 * jnp.square(quadratic) + delta * (size - quadratic)


def logits_and_labels(logits: Any, labels: Any, axis: int, name: str) -> tuple[Any, Any]:
    """Both as arrays, once they fit together."""
    logits, labels = jnp.asarray(logits), jnp.asarray(labels)
    if kind_of(labels.dtype) not in "iu":
        raise DTypeError(
            f"{name}: labels must be integers, the numbers of the classes, got dtype {labels.dtype.name}; "
            "convert them with labels.astype('int32'), or one-hot rows with labels.argmax(-1)"
        )
    _check_axis(axis, logits.shape, name)
    place = axis % logits.ndim
    wanted = logits.shape[:place] + logits.shape[place + 1 :]
    if labels.shape != wanted:
        raise ShapeError(
            f"{name}: logits of shape {logits.shape} with the classes along axis {axis} need labels of shape "
            f"{wanted}, got {labels.shape}"
        )
    return logits, labels


def _check_axis(axis: int, shape: tuple[int, ...], name: str) -> None:
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(f"{name}: logits of shape {shape} have no axis {axis} over the classes")


def _check_where(where: Any, shape: tuple[int, ...], name: str) -> None:
    if where is not None and not _broadcasts(jnp.shape(where), shape):
        raise ShapeError(f"{name}: where of shape {jnp.shape(where)} does not broadcast to logits of shape {shape}")


def _check_classes(labels: Any, classes: int, name: str) -> None:
    """Raise if a label is no class: indexing would count -1 from the end."""
    wrong = first_outside(labels, classes)
    if wrong is not None:
        raise ArgumentError(f"{name}: labels hold {wrong}, but the logits have {classes} classes (0..{classes - 1})")


def _broadcasts(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return all(a == b or a == 1 or b == 1 for a, b in pairs)


def _error(predictions: Any, targets: Any, name: str) -> Any:
    predictions = jnp.asarray(predictions)
    if targets is None:
        return predictions
    targets = jnp.asarray(targets)
    if predictions.shape != targets.shape:
        raise ShapeError(
            f"{name}: predictions of shape {predictions.shape} and targets of shape {targets.shape} must "
            "have the same shape; reshape one of them"
        )
    return predictions - targets
