"""Which launches must wait for which: those that touch memory that one of the two writes to.

Knows pieces of memory by numbers; neither launches nor addresses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence

from functad.records import NamedTuple


class Access(NamedTuple):
    """Bytes that a node touches: from `start` to before `stop` of a memory, whatever that is."""

    memory: Hashable
    start: int
    stop: int
    writes: bool


class Order(NamedTuple):
    """What a node waits for, none of it twice: what these wait for is left out. lane: see `dependencies_of`."""

    after: tuple[int, ...]
    lane: int


def dependencies_of(nodes: Sequence[Sequence[Access]], uses_lane: Sequence[bool], lanes: int) -> list[Order]:
    """What each node waits for, so that all memory is what it is where nodes run one after the other.

    uses_lane: which nodes need a memory to work in, of which there are so many; who has the same one waits.

    >>> x, y, z = (Access(name, 0, 8, writes=True) for name in "xyz")
    >>> read_x = x._replace(writes=False)
    >>> [order.after for order in dependencies_of([[x], [read_x, y], [read_x, z], [y, z]], [False] * 4, 1)]
    [(), (0,), (0,), (1, 2)]
    """
    memories: dict[Hashable, _TouchedMemory] = {}
    before: list[int] = []  # of each node all that are done before it, as bits
    last: list[int | None] = [None] * lanes
    found: list[Order] = []
    for number, accesses in enumerate(nodes):
        waits: set[int] = set()
        for access in sorted(accesses, key=lambda a: a.writes):
            if access.start < access.stop:
                pieces = memories.setdefault(access.memory, _TouchedMemory())
                waits |= pieces.touch(access.start, access.stop, number, access.writes)
        waits.discard(number)
        lane = 0
        if uses_lane[number]:
            lane = _lane(last, _all_before(waits, before))
            waits |= {last[lane]} - {None}  # type: ignore[arg-type]
            last[lane] = number
        after, known = [], 0
        for other in sorted(waits, reverse=True):
            if not known >> other & 1:
                after.append(other)
                known |= before[other] | 1 << other
        before.append(known)
        found.append(Order(tuple(after[::-1]), lane))
    return found


def longest_chain(after: Sequence[Sequence[int]]) -> int:
    """How many nodes wait for each other at most.

    >>> longest_chain([(), (0,), (0,), (1, 2)])
    3
    """
    lengths: list[int] = []
    for waits in after:
        lengths.append(1 + max([lengths[other] for other in waits], default=0))
    return max(lengths, default=0)


def _all_before(waits: set[int], before: Sequence[int]) -> int:
    known = 0
    for other in waits:
        known |= before[other] | 1 << other
    return known


def _lane(last: Sequence[int | None], known: int) -> int:
    """The lane whose last user is done anyway, else one that nobody has used, else that used longest ago."""
    done = [lane for lane, user in enumerate(last) if user is not None and known >> user & 1]
    if done:
        return max(done, key=lambda lane: last[lane] or 0)
    return min(range(len(last)), key=lambda lane: -1 if last[lane] is None else last[lane] or 0)


class _TouchedBytes:
    """Bytes of a memory: where they end, who wrote them last, and who has read them since."""

    __slots__ = ("end", "readers", "writer")

    def __init__(self, end: int, writer: int | None, readers: list[int]) -> None:
        self.end = end
        self.writer = writer
        self.readers = readers


class _TouchedMemory:
    """A memory in pieces, by where they begin."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._pieces: list[_TouchedBytes] = []

    def touch(self, start: int, stop: int, who: int, writes: bool) -> set[int]:
        """Note that somebody reads, or writes to, some bytes. Returns for whom it must wait."""
        self._cut(start)
        self._cut(stop)
        first, behind = bisect_left(self._starts, start), bisect_left(self._starts, stop)
        touched = self._pieces[first:behind]
        waits = {piece.writer for piece in touched if piece.writer is not None}
        if writes:
            waits = waits.union(*[piece.readers for piece in touched])
            self._starts[first:behind], self._pieces[first:behind] = [start], [_TouchedBytes(stop, who, [])]
            return waits
        found: list[tuple[int, _TouchedBytes]] = []
        at = start
        for begin, piece in zip(self._starts[first:behind], touched):
            if at < begin:
                found.append((at, _TouchedBytes(begin, None, [who])))
            piece.readers.append(who)
            found.append((begin, piece))
            at = piece.end
        if at < stop:
            found.append((at, _TouchedBytes(stop, None, [who])))
        self._starts[first:behind] = [begin for begin, _ in found]
        self._pieces[first:behind] = [piece for _, piece in found]
        return waits

    def _cut(self, at: int) -> None:
        """Let a piece begin there, if one goes on there."""
        k = bisect_left(self._starts, at) - 1
        if k >= 0 and self._pieces[k].end > at:
            whole = self._pieces[k]
            self._starts.insert(k + 1, at)
            self._pieces.insert(k + 1, _TouchedBytes(whole.end, whole.writer, [*whole.readers]))
            whole.end = at
