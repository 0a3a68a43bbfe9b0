"""Cutting a pytree of arrays into mini-batches along the leading axis.

This file must not know what the arrays mean, nor where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from functad import random
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError, check_int
from functad.tree_util import keystr, tree_flatten_with_path, tree_unflatten


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
        data: a pytree of arrays, all with the same length n along axis 0. They may be memory-mapped, or things of other
            kinds, such as those of h5py and zarr, that have `shape`, `dtype` and, for rising integers of shape (n,) or
            a slice in brackets, items: of these no more is read than a batch has.
        batch_size: items in a batch; the last batch has fewer if n is no multiple of it.
        key: a random key, from which the items are shuffled: another one for each epoch. None takes them as
            they are.
        permutation: integers of shape (n,), the order in which the items are taken, instead of a key.
        drop_remainder: leave out the last batch if it is shorter, so that all batches have the same shape.

    Returns:
        A `Batches`: `len` gives the number of batches, iterating, or a number in brackets, gives them, as NumPy arrays
        in native byte order: copies when shuffled, else views of the arrays given.

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
    items = Items(data, batch_size, "batches")
    order = _order(key, permutation, items.length)
    if drop_remainder and items.length < batch_size:
        raise ArgumentError(
            f"batches: drop_remainder=True leaves no batch, as there are only {items.length} items for a batch of "
            f"{batch_size}. Use a smaller batch_size, or drop_remainder=False."
        )
    return Batches(items, order, drop_remainder)


class Items:
    """Data to be cut into batches, which are known to be so: a list of arrays, the structure around them, sizes."""

    def __init__(self, data: Any, batch_size: int, function: str) -> None:
        self.batch_size = check_int(batch_size, f"{function}: batch_size", low=1)
        paths_and_leaves, self.structure = tree_flatten_with_path(data)
        self.arrays = [_source(leaf, f"{function}: data{keystr(path)}") for path, leaf in paths_and_leaves]
        self.length = _common_length([keystr(path) for path, _ in paths_and_leaves], self.arrays, function)

    def take(self, index: slice | np.ndarray) -> Any:
        """A pytree like the data, of some of the items."""
        return tree_unflatten(self.structure, [_native(_items(array, index)) for array in self.arrays])


class Batches:
    """What `batches` returns; may be iterated over several times.

    >>> import functad, numpy as np
    >>> found = functad.data.batches(np.arange(5), 2)
    >>> len(found), [len(batch) for batch in found], found[1].tolist()
    (3, [2, 2, 1], [2, 3])
    """

    def __init__(self, items: Items, order: np.ndarray | None, drop_remainder: bool) -> None:
        self._items = items
        self._order = order
        self._stop = items.length - items.length % items.batch_size if drop_remainder else items.length
        self._starts = range(0, self._stop, items.batch_size)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Any:
        start = self._starts[number]
        part = slice(start, min(start + self._starts.step, self._stop))
        return self._items.take(part if self._order is None else self._order[part])

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))


def _source(leaf: Any, what: str) -> Any:
    """An array, which is memory-mapped still if it was; or what has items of some dtype, but is none."""
    # What can be computed with lies in memory. Files of arrays, such as h5py's and zarr's, would be read by asarray.
    if (
        hasattr(leaf, "shape")
        and hasattr(leaf, "dtype")
        and not (hasattr(leaf, "__array__") and hasattr(leaf, "__add__"))
    ):
        return leaf
    array = np.asarray(leaf)  # copies nothing of an array on the CPU, and NumPy's indexing is cheap
    if array.dtype == object and not array.shape:
        raise ShapeError(
            f"{what} is of type {type(leaf).__name__}, which is no array: items are counted and shuffled, so make an "
            "array of all of them, as with numpy.stack(list(items)); what is larger than memory may be memory-mapped"
        )
    return array


def _items(source: Any, index: slice | np.ndarray) -> Any:
    """Some items; of what is no array by rising numbers, in whose order files are read, and h5py's must be."""
    if isinstance(source, np.ndarray) or isinstance(index, slice):
        return source[index]
    order = np.argsort(index)
    return np.asarray(source[index[order]])[np.argsort(order)]


def _native(values: Any) -> np.ndarray:
    values = np.asarray(values)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _common_length(names: list[str], arrays: list[Any], function: str) -> int:
    if not arrays:
        raise ArgumentError(f"{function}: data holds no array; give a pytree of arrays, such as (images, labels).")
    for name, array in zip(names, arrays, strict=True):
        if not array.shape:
            raise ShapeError(f"{function}: data{name} is a scalar, which has no axis 0 to cut into batches.")
        if array.shape[0] != arrays[0].shape[0]:
            raise ShapeError(
                f"{function}: the arrays differ in length along axis 0: data{names[0]} has shape "
                f"{arrays[0].shape}, data{name} has shape {array.shape}."
            )
    return int(arrays[0].shape[0])


def _order(key: Any, permutation: Any, length: int) -> np.ndarray | None:
    if key is not None:
        if permutation is not None:
            raise ArgumentError("batches: give a key or a permutation, not both: a key makes its own permutation.")
        check_key(key, "batches")
        return np.asarray(random.permutation(key, length))
    return None if permutation is None else _checked_permutation(permutation, length)


def check_key(key: Any, function: str) -> None:
    """Raise unless this is one random key."""
    kind = getattr(key, "shape", None), getattr(key, "dtype", None)
    if kind not in (((), random.key_dtype()), ((2,), np.dtype(np.uint32))):
        raise ArgumentError(
            f"{function}: key is {key!r:.80}, which is no random key; make one of an integer with "
            "functad.random.key(seed)"
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
