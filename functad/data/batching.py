"""Cutting a pytree of arrays into mini-batches along the leading axis.

This file must not know what the arrays mean, nor where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functad import random
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.tree_util import PyTreeDef, keystr, tree_flatten_with_path, tree_unflatten


def batches(
    data: Any,
    batch_size: int,
    *,
    key: Any = None,
    permutation: Any = None,
    drop_remainder: bool = False,
) -> Batches:
    """The mini-batches of `data`, each a pytree like `data` with the next `batch_size` items of every array.

    Args:
        data: a pytree of arrays, all with the same length n along axis 0.
        batch_size: items in a batch; the last batch has fewer if n is no multiple of it.
        key: a random key, from which the items are shuffled: another one for each epoch. None takes them as
            they are.
        permutation: integers of shape (n,), the order in which the items are taken, instead of a key.
        drop_remainder: leave out the last batch if it is shorter, so that all batches have the same shape.

    Returns:
        A `Batches`: `len` gives the number of batches, iterating gives them, as NumPy arrays: copies
        when shuffled, else views of the arrays given.

    Raises:
        ShapeError: an array has no axis 0, or the lengths differ.
        ArgumentError: `batch_size` is no positive int, `key` is no random key, `data` has no array,
            `permutation` is no permutation of 0..n-1 or comes with a `key`, or no batch is left.

    >>> images, labels = np.zeros((5, 28, 28)), np.arange(5)
    >>> [y for x, y in batches((images, labels), 2, permutation=[4, 3, 2, 1, 0])]
    [array([4, 3]), array([2, 1]), array([0])]
    >>> sorted(int(y) for x, labels in batches((images, labels), 2, key=random.key(0)) for y in labels)
    [0, 1, 2, 3, 4]
    """
    check_batch_size(batch_size, "batches", "batch_size")
    paths_and_leaves, structure = tree_flatten_with_path(data)
    # np.asarray copies nothing of an array on the CPU, and NumPy's indexing is cheap.
    arrays = [np.asarray(leaf) for _, leaf in paths_and_leaves]
    length = _common_length([keystr(path) for path, _ in paths_and_leaves], arrays)
    order = _order(key, permutation, length)
    if drop_remainder and length < batch_size:
        raise ArgumentError(
            f"batches: drop_remainder=True leaves no batch, as there are only {length} items for a batch of "
            f"{batch_size}. Use a smaller batch_size, or drop_remainder=False."
        )
    stop = length - length % batch_size if drop_remainder else length
    return Batches(arrays, structure, order, range(0, stop, int(batch_size)), stop)


class Batches:
    """What `batches` returns; may be iterated over several times."""

    def __init__(
        self,
        arrays: list[np.ndarray],
        structure: PyTreeDef,
        order: np.ndarray | None,
        starts: range,
        stop: int,
    ) -> None:
        self._arrays = arrays
        self._structure = structure
        self._order = order
        self._starts = starts
        self._stop = stop

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Any]:
        for start in self._starts:
            items = slice(start, min(start + self._starts.step, self._stop))
            index = items if self._order is None else self._order[items]
            yield tree_unflatten(self._structure, [array[index] for array in self._arrays])


def check_batch_size(value: Any, function: str, name: str) -> None:
    """Raise unless a number of items is an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ArgumentError(f"{function}: {name} is {value!r}; it must be an int of at least 1.")


def _common_length(names: list[str], arrays: list[np.ndarray]) -> int:
    if not arrays:
        raise ArgumentError("batches: data holds no array; give a pytree of arrays, such as (images, labels).")
    for name, array in zip(names, arrays, strict=True):
        if array.ndim == 0:
            raise ShapeError(f"batches: data{name} is a scalar, which has no axis 0 to cut into batches.")
        if len(array) != len(arrays[0]):
            raise ShapeError(
                f"batches: the arrays differ in length along axis 0: data{names[0]} has shape "
                f"{arrays[0].shape}, data{name} has shape {array.shape}."
            )
    return len(arrays[0])


def _order(key: Any, permutation: Any, length: int) -> np.ndarray | None:
    if key is not None:
        if permutation is not None:
            raise ArgumentError("batches: give a key or a permutation, not both: a key makes its own permutation.")
        _check_key(key)
        return np.asarray(random.permutation(key, length))
    return None if permutation is None else _checked_permutation(permutation, length)


def _check_key(key: Any) -> None:
    if getattr(key, "shape", None) != (2,) or getattr(key, "dtype", None) != np.uint32:
        raise ArgumentError(
            f"batches: key is {key!r:.80}, which is no random key; make one of an integer with functad.random.key(seed)"
        )


def _checked_permutation(permutation: Any, length: int) -> np.ndarray:
    order = np.asarray(permutation)
    if order.shape != (length,) or kind_of(order.dtype) not in "iu":
        raise ArgumentError(
            f"batches: permutation has shape {order.shape} and dtype {order.dtype}; expected integers of "
            f"shape ({length},), one for each item."
        )
    seen = np.zeros(length, np.bool_)
    inside = order[(order >= 0) & (order < length)]
    seen[inside] = True
    if not seen.all():
        raise ArgumentError(
            f"batches: permutation is none: it lacks {np.flatnonzero(~seen)[:5].tolist()} of the items "
            f"0 to {length - 1} (the first five are shown), so others come twice or lie outside."
        )
    return order
