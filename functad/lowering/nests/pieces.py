"""Pieces of a domain: boxes within each of which every rule takes its elements from one operand.

Knows index expressions. Padding is a choice between operand and padding at each element of the domain; on the pieces
there is nothing to choose, so the interior is a plain loop, and so is each border.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from functad import machine_model
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.records import NamedTuple


class Range(NamedTuple):
    """The positions `first, first + step, …` along an axis, `size` of them."""

    first: int
    step: int
    size: int

    def between(self, start: int, stop: int) -> Range:
        """Those from the `start`-th to before the `stop`-th."""
        return Range(self.first + self.step * start, self.step, stop - start)

    def backwards(self) -> Range:
        """The same positions from the last one on."""
        return Range(self.first + self.step * (self.size - 1), -self.step, self.size)

    def every(self, period: int, offset: int) -> Range:
        """Every `period`-th, from the `offset`-th on."""
        return Range(self.first + self.step * offset, self.step * period, -(-(self.size - offset) // period))


Box = tuple[Range, ...]


class Cut(NamedTuple):
    """Where the loop along an axis falls apart: before its `at`-th step, or into steps that differ by a `period`."""

    axis: int
    at: int = 0
    period: int = 1

    def parts(self, box: Box) -> list[Box]:
        """The parts of a box, in order.

        >>> Cut(axis=0, at=1).parts((Range(0, 1, 4),))
        [(Range(first=0, step=1, size=1),), (Range(first=1, step=1, size=3),)]
        >>> Cut(axis=0, period=2).parts((Range(0, 1, 5),))
        [(Range(first=0, step=2, size=3),), (Range(first=1, step=2, size=2),)]
        """
        whole = box[self.axis]
        if self.period > 1:
            ranges = [whole.every(self.period, k) for k in range(min(self.period, whole.size))]
        else:
            ranges = [whole.between(0, self.at), whole.between(self.at, whole.size)]
        return [(*box[: self.axis], part, *box[self.axis + 1 :]) for part in ranges]


def whole(shape: Sequence[int]) -> Box:
    return tuple([Range(0, 1, n) for n in shape])


def index_in(box: Box, names: Sequence[str]) -> tuple[Affine, ...]:
    """The index within a domain at a point of the loops over a box of it."""
    return tuple([loop(name, r.size) * r.step + r.first for name, r in zip(names, box)])


class Cuts:
    """The cuts that rules have asked for while they wrote a nest over a box."""

    def __init__(self, index: Sequence[Affine]) -> None:
        self._axis_of: dict[Symbol, int] = {i.terms[0][0]: d for d, i in enumerate(index) if i.terms}
        self._found: list[Cut] = []

    def less(self, value: Affine, bound: int) -> bool | None:
        """Whether an index lies below a bound at all points of the box, at none (False), or at some."""
        if value.high < bound:
            return True
        if value.low >= bound:
            return False
        if len(value.terms) == 1 and (axis := self._axis_of.get(value.terms[0][0])) is not None:
            step = value.terms[0][1]
            if step > 0:
                self._found.append(Cut(axis, -((value.constant - bound) // step)))
            else:
                self._found.append(Cut(axis, (value.constant - bound) // -step + 1))
        return None

    def multiple(self, value: Affine, divisor: int) -> bool | None:
        """Whether an index is a multiple of a number at all points of the box, at none, or at some."""
        rest = value % divisor
        if rest.is_constant():
            return rest == 0
        if len(value.terms) == 1 and (axis := self._axis_of.get(value.terms[0][0])) is not None:
            self._found.append(Cut(axis, period=divisor // math.gcd(value.terms[0][1], divisor)))
        return None

    @property
    def first(self) -> Cut | None:
        """A cut of the outermost axis that has one."""
        return min(self._found, default=None)


class Built(Protocol):
    """What is written for a box."""

    @property
    def cuts(self) -> Cuts: ...


B = TypeVar("B", bound=Built)


def from_vectors_on(box: Box) -> list[Box]:
    """A row, cut where the next vector of its array begins, if it is a long one that begins elsewhere; else the box.

    Stores of vectors that lie across cache lines take twice as long.

    >>> head, rest = from_vectors_on((Range(1, 1, 9999),))
    >>> head[0].size < rest[0].first == machine_model.FLOATS_OF_VECTOR
    True
    """
    *outer, row = box
    before = -row.first % machine_model.FLOATS_OF_VECTOR
    if before and row.step == 1 and row.size >= machine_model.SHORTEST_FROM_VECTORS and all(r.size == 1 for r in outer):
        return Cut(len(outer), before).parts(box)
    return [box]


def built_in_pieces(shape: Sequence[int], build: Callable[[Box], B], most: int) -> list[B]:
    """What is built for each piece of a domain; for the domain as a whole if the pieces were more than `most`.

    Outer axes are cut first: then a border along them is one piece.
    """
    box = whole(shape)
    uncut = build(box)
    waiting, found = [(box, uncut)], []
    while waiting:
        box, built = waiting.pop()
        cut = built.cuts.first
        if cut is None:
            parts = from_vectors_on(box) if box else [box]
            found += [build(part) for part in parts] if len(parts) > 1 else [built]
            continue
        parts = cut.parts(box)
        if len(found) + len(waiting) + len(parts) > most:
            return [uncut]
        waiting += [(part, build(part)) for part in reversed(parts)]
    return found
