"""`loader`: the batches of epoch after epoch, made ahead of their use by a thread, from a position that can be kept.

This file must not know what the arrays mean, nor what is done with a batch.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from functad import random
from functad.data.batching import Batches, Items, check_key
from functad.errors import ArgumentError, check_int
from functad.records import NamedTuple
from functad.tree_util import tree_map

_LAST = ("keep", "drop", "pad")


class Position(NamedTuple):
    """Where a loader is: in the epoch of this number, counted from 0, so many batches have been given.

    >>> import functad, numpy as np
    >>> functad.data.loader(np.arange(5), 2, position=functad.data.Position(epoch=3, batch=1)).position
    Position(epoch=3, batch=1)
    """

    epoch: Any = 0
    batch: Any = 0


def loader(
    data: Any,
    batch_size: int,
    key: Any = None,
    *,
    last: str = "keep",
    prefetch: int = 2,
    position: Sequence[Any] = (0, 0),
) -> DataLoader:
    """The batches of `data`, epoch after epoch: each `for` loop over the loader goes to the end of one epoch.

    Args:
        data: a pytree of arrays, all with the same length n along axis 0. They may be memory-mapped, such as those of
            `numpy.load(path, mmap_mode="r")` and `read_idx(path, mmap=True)`, or other things with `shape`, `dtype`
            and, for integers in brackets, items: of these no more is read than batches have.
        batch_size: items in a batch.
        key: a random key, from which each epoch is shuffled in another way; `train.fit` goes over data in the same
            order with the same key. None takes the items as they are.
        last: what becomes of a rest that fills no batch: "keep" makes it a shorter batch, "drop" leaves it out. With
            "pad" its last item is repeated, and all batches come as `(batch, mask)`: the mask, bool of shape
            (batch_size,), is False where an item is a repetition.
        prefetch: how many batches a thread makes ahead. With 0 there is none: each is made when it is asked for.
        position: where to begin, such as the `position` of a loader of the same data, batch size and key.

    Returns:
        A `DataLoader`. Its `len` is the number of batches of an epoch. Its `position` is that behind the batch that was
        given last, a tuple of two numbers which `functad.io.save` keeps; it may be set between two loops. A loop that
        is left early ends the thread; the next one goes on with the rest of its epoch. What goes wrong in the thread is
        raised where the batch is asked for.

    Raises:
        ShapeError, ArgumentError: as `batches`, or another `last`, `prefetch` or `position`.

    >>> import functad.numpy as jnp
    >>> images = loader((np.zeros((5, 28, 28)), np.arange(5)), 2, random.key(0), last="drop")
    >>> [labels.tolist() for _, labels in images]
    [[0, 3], [1, 4]]
    >>> [(labels.tolist(), images.position) for _, labels in images]
    [([4, 3], Position(epoch=1, batch=1)), ([1, 0], Position(epoch=2, batch=0))]
    >>> [labels.tolist() for _, labels in loader((jnp.zeros(5), np.arange(5)), 2, random.key(0), position=(1, 1))]
    [[1, 0], [2]]
    """
    return DataLoader(Items(data, batch_size, "loader"), key, last, prefetch, position)


class DataLoader:
    """What `loader` returns.

    Attributes:
        position: the `Position` behind the batch that was given last.

    >>> import functad, numpy as np
    >>> found = functad.data.loader(np.arange(5), 2)
    >>> [batch.tolist() for batch in found], len(found), found.position
    ([[0, 1], [2, 3], [4]], 3, Position(epoch=1, batch=0))
    """

    def __init__(self, items: Items, key: Any, last: str, prefetch: int, position: Sequence[Any]) -> None:
        if last not in _LAST:
            raise ArgumentError(f"loader: last is {last!r}; it must be one of {', '.join(map(repr, _LAST))}")
        prefetch = check_int(prefetch, "loader: prefetch, how many batches are made ahead,", low=0)
        if last == "drop" and items.length < items.batch_size:
            raise ArgumentError(
                f"loader: last='drop' leaves no batch, as there are only {items.length} items for a batch of "
                f"{items.batch_size}; use a smaller batch_size, or last='keep'"
            )
        if key is not None:
            check_key(key, "loader")
        self._items, self._last, self._prefetch = items, last, int(prefetch)
        self._keys = [key]  # those of epochs that have been walked to, from the first one on
        self.position: Any = position
        self.position = Position(*self._place())

    def __len__(self) -> int:
        size = self._items.batch_size
        return self._items.length // size if self._last == "drop" else -(-self._items.length // size)

    def __iter__(self) -> Iterator[Any]:
        epoch, first = self._place()
        made = prefetched(self._maker(epoch), range(first, len(self)), self._prefetch)
        with closing(made):
            for number, batch in enumerate(made, first + 1):
                self.position = Position(epoch, number) if number < len(self) else Position(epoch + 1, 0)
                yield batch
        if first == len(self):
            self.position = Position(epoch + 1, 0)

    def _place(self) -> tuple[int, int]:
        try:
            epoch, batch = map(int, self.position)
        except (TypeError, ValueError):
            epoch, batch = -1, -1
        if epoch < 0 or not 0 <= batch <= len(self):
            raise ArgumentError(
                f"loader: position is {self.position!r:.80}, but it must be the number of an epoch and that of a batch "
                f"of its {len(self)}; was it kept for other data, or another batch size?"
            )
        return epoch, batch

    def _maker(self, epoch: int) -> Callable[[int], Any]:
        """What makes the batches of an epoch by their numbers."""
        order = None
        if self._keys[0] is not None:
            while len(self._keys) <= epoch:
                self._keys.append(epoch_keys(self._keys[-1])[0])
            order = np.asarray(random.permutation(epoch_keys(self._keys[epoch])[1], self._items.length))
        chunks = Batches(self._items, order, self._last == "drop")
        return chunks.__getitem__ if self._last != "pad" else lambda number: self._padded(chunks[number], number)

    def _padded(self, batch: Any, number: int) -> tuple[Any, np.ndarray]:
        size = self._items.batch_size
        places = np.arange(size)
        mask = places < self._items.length - number * size
        if mask.all():
            return batch, mask
        places = np.minimum(places, np.count_nonzero(mask) - 1)
        return tree_map(lambda values: values[places], batch), mask


def epoch_keys(key: Any) -> Any:
    """Of the key of an epoch: the key of the next one, that of the order of its items, one for what is drawn in it.

    >>> epoch_keys(random.key(0)).shape
    (3,)
    """
    return random.split(key, 3)


def prefetched(make: Callable[[int], Any], numbers: Sequence[int], depth: int) -> Generator[Any, None, None]:
    """What `make` gives for each of the numbers, up to so many of them made ahead by a thread.

    >>> list(prefetched(lambda n: n * n, range(4), 2))
    [0, 1, 4, 9]
    """
    if not depth:
        yield from map(make, numbers)
        return
    process = -1
    try:
        for at in range(len(numbers)):
            if process != os.getpid():  # of a fork the child has no thread: it makes one, and goes on from here
                process, thread = os.getpid(), ThreadPoolExecutor(1, "functad-loader")
                waiting = deque(_begun(thread, make, number) for number in numbers[at : at + depth])
            found = waiting.popleft()()
            if at + depth < len(numbers):
                waiting.append(_begun(thread, make, numbers[at + depth]))
            yield found
    finally:
        if process == os.getpid():
            thread.shutdown(cancel_futures=True)


def _begun(thread: ThreadPoolExecutor, make: Callable[[int], Any], number: int) -> Callable[[], Any]:
    """What waits for the result; or makes it, where the interpreter is about to exit and takes no work for threads."""
    try:
        return thread.submit(make, number).result
    except RuntimeError:
        return partial(make, number)
