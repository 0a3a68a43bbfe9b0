"""Who has read and written which words of a simulated GPU's memory: what two threads do in no order is a race.

Knows the order that barriers, atomics and fences make (the causality order of PTX's memory model, with clocks as in
Flanagan & Freund, FastTrack, 2009); no kernels. Atomics are relaxed: what a thread did before a fence comes before what
another one does after one, if between these fences the other one's atomic finds what that of the first one has left.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Clock = Mapping[int, int]  # up to which of its times each thread is known


class KernelFault(AssertionError):
    """What a kernel must not do."""


class SimulatedThread:
    """A thread of a kernel. number: among those of the grid. time: which grows where others may come to know of it."""

    def __init__(self, number: int, block: int, place: int) -> None:
        self.number, self.block, self.place = number, block, place
        self.time = 1
        self.known: Clock = {}
        self.released: Clock = {}  # what its atomics tell: all that was known at its last fence
        self.found: list[Clock] = []  # what atomics have told since then

    def knows(self, other: int, time: int) -> bool:
        return other == self.number or self.known.get(other, 0) >= time

    def fence(self) -> None:
        self.known = _joined([self.known, *self.found])
        self.found.clear()
        self.released = {**self.known, self.number: self.time}
        self.time += 1

    def __str__(self) -> str:
        return f"thread {self.place} of block {self.block}"


def _joined(clocks: Iterable[Clock]) -> Clock:
    found: dict[int, int] = {}
    for clock in clocks:
        for thread, time in clock.items():
            if found.get(thread, 0) < time:
                found[thread] = time
    return found


def meet(threads: Sequence[SimulatedThread]) -> None:
    """A barrier: each of the threads knows what all of them have done."""
    known = _joined([*(t.known for t in threads), {t.number: t.time for t in threads}])
    for thread in threads:
        thread.known = known
        thread.time += 1


class _Word:
    """The last write to a word, and what came since then: when, by which thread, at which instruction."""

    __slots__ = ("atomics", "reads", "told", "write")

    def __init__(self) -> None:
        self.write: tuple[int, int, int] | None = None  # thread, instruction, time
        self.reads: dict[tuple[int, int], int] = {}  # of thread and instruction, the time
        self.atomics: dict[tuple[int, int], int] = {}
        self.told: Clock = {}


RacingRead = tuple[int, int, int]  # by which thread, of which instruction, at which address


class ShadowMemory:
    """The words of one launch, by their addresses.

    where: gives the instruction at which the running thread is. line: of an instruction. thread: who runs. threads: by
    their numbers. racing: reads in no order with a write, which may find anything, and what to say of them.
    garbled: reads that find something else than what is there.
    """

    def __init__(
        self, name: str, where: Callable[[], int], line: Callable[[int], int], garbled: Container[RacingRead]
    ) -> None:
        self.name, self._where, self._line, self._garbled = name, where, line, garbled
        self.words: dict[int, _Word] = {}
        self.threads: dict[int, SimulatedThread] = {}
        self.thread = SimulatedThread(-1, -1, -1)
        self.racing: dict[RacingRead, str] = {}

    def fault(self, what: str) -> KernelFault:
        return KernelFault(f"{self.name}, line {self._line(self._where())}: {self.thread} {what}")

    def read(self, at: int, what: RecordedArray, index: Any) -> bool:
        """Whether the value is to be garbled."""
        word, thread, here = self._word(at), self.thread, self._where()
        if word.write is not None and not thread.knows(word.write[0], word.write[2]):
            text = self._race("a write", word.write, what, index, "reads")
            self.racing.setdefault((thread.number, here, at), text)
        self._after(word.atomics, "an atomic", what, index, "reads")
        word.reads[thread.number, here] = thread.time
        return (thread.number, here, at) in self._garbled

    def write(self, at: int, what: RecordedArray, index: Any) -> None:
        word, thread = self._word(at), self.thread
        self._after_write(word, what, index, "writes")
        self._after(word.atomics, "an atomic", what, index, "writes")
        for (number, there), time in word.reads.items():
            if not thread.knows(number, time):
                text = self._race("a read", (number, there, time), what, index, "writes")
                self.racing.setdefault((number, there, at), text)
        word.write = (thread.number, self._where(), thread.time)
        if word.reads:
            word.reads = {}
        if word.atomics:
            word.atomics, word.told = {}, {}

    def atomic(self, at: int, what: RecordedArray, index: Any) -> None:
        """One thread after another, in whichever order; each finds what all before it have told."""
        word, thread = self._word(at), self.thread
        self._after_write(word, what, index, "changes by an atomic")
        self._after(word.reads, "a read", what, index, "changes by an atomic")
        word.atomics[thread.number, self._where()] = thread.time
        if word.told:
            thread.found.append(word.told)
        if thread.released:
            word.told = _joined([word.told, thread.released])

    def _word(self, at: int) -> _Word:
        word = self.words.get(at)
        if word is None:
            word = self.words[at] = _Word()
        return word

    def _after_write(self, word: _Word, what: RecordedArray, index: Any, does: str) -> None:
        if word.write is not None and not self.thread.knows(word.write[0], word.write[2]):
            raise KernelFault(self._race("a write", word.write, what, index, does))

    def _after(
        self, others: Mapping[tuple[int, int], int], kind: str, what: RecordedArray, index: Any, does: str
    ) -> None:
        for (number, there), time in others.items():
            if not self.thread.knows(number, time):
                raise KernelFault(self._race(kind, (number, there, time), what, index, does))

    def _race(self, kind: str, other: tuple[int, int, int], what: RecordedArray, index: Any, does: str) -> str:
        number, there, _ = other
        return str(
            self.fault(
                f"{does} element {index} of {what.name} in no order with {kind} at line {self._line(there)} by "
                f"{self.threads[number]}"
            )
        )


def _garbled(value: Any) -> Any:
    """Another number: all bits are others."""
    value = np.asarray(value)
    if value.dtype == np.bool_:
        return ~value[()]
    return np.frombuffer(bytes([255 - byte for byte in value.tobytes()]), value.dtype)[0]


class RecordedArray:
    """An array of a kernel, which is looked after element by element.

    view: its elements. places: the address of each. known: of the bytes of each whether they have been written; None if
    that is not known of this memory.
    """

    __slots__ = ("known", "name", "places", "shadow", "view")

    def __init__(
        self, shadow: ShadowMemory, name: str, view: np.ndarray, places: Any, known: np.ndarray | None
    ) -> None:
        self.shadow, self.name, self.view, self.places, self.known = shadow, name, view, places, known

    def __len__(self) -> int:
        return len(self.view)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def size(self) -> int:
        return self.view.size

    @property
    def ndim(self) -> int:
        return self.view.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.view.dtype

    def reshape(self, *shape: Any) -> RecordedArray:
        view = self.view.reshape(*shape)
        known = None if self.known is None else self.known.reshape(*view.shape, -1)
        return RecordedArray(self.shadow, self.name, view, np.asarray(self.places).reshape(view.shape), known)

    def _inside(self, index: Any, does: str) -> Any:
        """The index of one element, or None if it is one of several."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != self.view.ndim or any(isinstance(i, slice) for i in indices):
            return None
        found = tuple([operator.index(i) for i in indices])
        if any(not 0 <= i < n for i, n in zip(found, self.view.shape)):
            raise self.shadow.fault(f"{does} element {index} of {self.name}, which has {self.view.shape}")
        return found if len(found) > 1 else found[0]

    def __getitem__(self, index: Any) -> Any:
        at = self._inside(index, "reads")
        if at is None:
            return self._part(index)
        if self.known is not None and not self.known[at][0]:
            raise self.shadow.fault(f"reads element {index} of {self.name}, where nothing has been written")
        if self.shadow.read(self.places[at], self, index):
            return _garbled(self.view[at])
        return self.view[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self._inside(index, "writes")
        if at is None:
            raise self.shadow.fault(f"writes several elements of {self.name} at a time")
        self.shadow.write(self.places[at], self, index)
        self.view[at] = value
        if self.known is not None:
            self.known[at] = True

    def _part(self, index: Any) -> RecordedArray:
        if isinstance(index, slice) and not 0 <= (index.start or 0) <= len(self.view):
            raise self.shadow.fault(f"takes a part of {self.name} from element {index.start} on, of {len(self.view)}")
        known = None if self.known is None else self.known[index]
        return RecordedArray(self.shadow, self.name, self.view[index], self.places[index], known)

    def change(self, index: Any, operation: Any) -> Any:
        """An atomic; operation: gives what is there then, from what was there."""
        at = self._inside(index, "changes")
        if self.known is not None and not self.known[at][0]:
            raise self.shadow.fault(f"changes element {index} of {self.name}, where nothing has been written")
        self.shadow.atomic(self.places[at], self, index)
        before = self.view[at]
        self.view[at] = operation(before)
        return before

    def check_vector(self, first: Any, nbytes: int) -> None:
        """Raise if what begins at an element is not at an address of which so many bytes are a divisor."""
        at = self._inside(first, "reaches")
        if self.places[at] % nbytes:
            raise self.shadow.fault(
                f"takes a vector from element {first} of {self.name} on, which does not lie at a multiple of {nbytes}"
            )
