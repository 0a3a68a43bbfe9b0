"""A mapping that forgets what was not used for long, so that what a process remembers has bounds.

It must not know what is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by keys: the `most` used last. Any number of threads may use it at the same time.

    >>> known = Recent(2)
    >>> for n in (1, 2, 1, 3):
    ...     if known.find(n) is None:
    ...         known.add(n, n * 10)
    >>> known.find(1), known.find(2), len(known)
    (10, None, 2)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def find(self, key: Hashable) -> V | None:
        value = self._values.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread has made room meanwhile
                self._values.move_to_end(key)
        return value

    def add(self, key: Hashable, value: V) -> None:
        self._values[key] = value
        while len(self._values) > self._most:
            self._values.popitem(last=False)

    def clear(self) -> None:
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
