"""Splitting reductions: one long sum becomes several partial ones and their sum.

Knows nests as data; no target. Without a loop that is kept outside of the reduction there is nothing that threads
could share; a handful of sums side by side do not fill a vector; and a float32 total of 2^24 takes in no more ones.
"""

from __future__ import annotations

import math

from functad import machine_model
from functad.dtypes import compute_dtype, kind_of
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, linear, new_loop, of_symbol, symbols_of
from functad.lowering.nests.nest import POST, PRE, Accumulator, Load, Nest, Store, moved


def split_reduction(nest: Nest) -> list[tuple[str, Nest]]:
    """Nests that do the same in order, and what is added to the name for each: itself, if there is nothing to gain.

    A reduced loop of N steps becomes loops over parts q, positions r, and lanes p, and a rest of less than P·Q steps:
    n = (q·R + r)·P + p. The first nest gathers over r into rows of partial results, the next one the rest into another
    row; the last one gathers the rows. Sums of floats are cut so that none is longer than `LONGEST_SUM`, or twice that.
    Sums of few terms are not cut: partial results would be as many as there are elements.
    Products of floats are not split: in another order they would over- or underflow elsewhere.
    """
    if not nest.accumulators or any(a.kind == "prod" and kind_of(a.dtype) in "fc" for a in nest.accumulators):
        return [("", nest)]
    reduced = [s for s, r in zip(nest.loops, nest.reduced) if r]
    terms = math.prod(s.extent for s in reduced)
    if not reduced or not nest.points:
        return [("", nest)]
    if _ends_in_short_rows(nest):
        first, whole = _SplitNest(nest, reduced[-1], 1, reduced[-1].extent).nests()
        return [(f"_lanes{suffix}", n) for suffix, n in split_reduction(first)] + [("_whole", whole)]
    parts = 1
    rounds = any(a.kind == "sum" and kind_of(a.dtype) in "fc" for a in nest.accumulators)
    if rounds and terms > 2 * machine_model.LONGEST_SUM:
        most = max(machine_model.LONGEST_SUM // nest.outer_points, 1)  # so that few numbers are stored on the way
        parts = min(-(-terms // machine_model.LONGEST_SUM), most)
    if nest.reduced[0]:
        if nest.points >= machine_model.POINTS_WORTH_PARTS:
            parts = max(parts, machine_model.MOST_PARTS)
    elif parts == 1:
        return [("", nest)]
    long = next((s for s in reduced if s.extent >= parts), max(reduced, key=lambda s: s.extent))
    parts, lanes = parts_and_lanes(long.extent, parts, _most_lanes(nest, long))
    if parts == lanes == 1 or terms < machine_model.TERMS_OF_A_PART * parts * lanes:
        return [("", nest)]
    first, *rest, whole = _SplitNest(nest, long, parts, lanes).nests()
    return [("_parts", first), *(("_rest", n) for n in rest), ("_whole", whole)]


def _ends_in_short_rows(nest: Nest) -> bool:
    """Whether one short row after another is summed, of as many terms as vectors have: these are better as lanes."""
    if nest.points < machine_model.POINTS_WORTH_LANES or nest.reduced[-2:] != [True, True]:
        return False
    terms, vector = nest.loops[-1].extent, machine_model.FEWEST_COLUMNS
    return terms < machine_model.NARROW_SUMS and (vector % terms == 0 or terms % vector == 0)


def _most_lanes(nest: Nest, long: Symbol) -> int:
    """How many lanes make full vectors of the sums that lie side by side behind a loop."""
    k = nest.loops.index(long) + 1
    if k == len(nest.loops) or any(nest.reduced[k:]) or nest.points < machine_model.POINTS_WORTH_LANES:
        return 1
    side_by_side = math.prod(s.extent for s in nest.loops[k:])
    return max(machine_model.SUMS_AT_ONCE // side_by_side, 1) if side_by_side < machine_model.NARROW_SUMS else 1


def parts_and_lanes(n: int, parts: int, lanes: int) -> tuple[int, int]:
    """Numbers of parts and lanes, so that nothing is left over if that takes no more than half of them away."""
    exact_parts = _divisor(n, parts)
    exact_lanes = _divisor(n // exact_parts, lanes)
    if 2 * exact_parts * exact_lanes >= parts * lanes or n < 2 * parts * lanes:
        return exact_parts, exact_lanes
    return parts, lanes


def parts_alone(n: int, parts: int) -> int:
    """The same without lanes: a number of parts of a loop that is cut in any case."""
    exact, _ = parts_and_lanes(n, parts, 1)
    return exact if exact > 1 else min(n, parts)


def _divisor(n: int, most: int) -> int:
    return max((d for d in range(1, most + 1) if n % d == 0), default=1)


class _SplitNest:
    """The nests for one whose loop over `long` is cut; the partial results lie in rows, which all kept loops fill."""

    def __init__(self, nest: Nest, long: Symbol, parts: int, lanes: int) -> None:
        self._nest, self._long, self._parts, self._lanes = nest, long, parts, lanes
        self._kept = [s for s, r in zip(nest.loops, nest.reduced) if not r]
        self._rest = long.extent % (parts * lanes)
        self._shape = [parts * lanes + (self._rest > 0), *(s.extent for s in self._kept)]
        self._taken = nest.names
        self._buffers = [_partial_buffer(a, self._shape) for a in nest.accumulators]

    def nests(self) -> list[Nest]:
        n, length = self._long.extent, self._long.extent // (self._parts * self._lanes)
        q, r, p = (
            new_loop("q", self._parts, self._taken),
            new_loop("r", length, self._taken),
            new_loop("p", self._lanes, self._taken),
        )
        first = self._gathering((q * length + r) * self._lanes + p, q * self._lanes + p, q, r, p)
        if not self._rest:
            return [first, self._whole()]
        r, last = new_loop("r", self._rest, self._taken), Affine(self._shape[0] - 1)
        return [first, self._gathering(r + (n - self._rest), last, Affine(0), r, Affine(0)), self._whole()]

    def _gathering(self, place: Affine, row: Affine, q: Affine, r: Affine, p: Affine) -> Nest:
        """The nest at some places of the long loop: parts outside of all others, lanes within; into rows."""
        nest, at = self._nest, {self._long: place}
        k = nest.loops.index(self._long)
        loops = [*symbols_of(q), *nest.loops[:k], *symbols_of(r), *symbols_of(p), *nest.loops[k + 1 :]]
        inner = {*symbols_of(r), *(s for s, is_reduced in zip(nest.loops, nest.reduced) if is_reduced)}
        new = Nest(loops, [s in inner for s in loops], eqns=nest.eqns, constants=nest.constants)
        new.statements = [moved(s, at) for s in nest.statements if s.level != POST]
        new.stores = [Store(s.buffer, s.offset.substitute(at), s.value, PRE) for s in nest.stores if s.level == PRE]
        position = linear([row, *map(of_symbol, self._kept)], self._shape)
        new.accumulators = list(nest.accumulators)
        new.stores += [Store(b, position, a.name, POST) for a, b in zip(nest.accumulators, self._buffers)]
        return new

    def _whole(self) -> Nest:
        """The sum over the rows, and what follows from it."""
        nest, row = self._nest, new_loop("q", self._shape[0], self._taken)
        loops = [*self._kept, *symbols_of(row)]
        position = linear([row, *map(of_symbol, self._kept)], self._shape)
        new = Nest(loops, [s not in self._kept for s in loops], eqns=nest.eqns, constants=nest.constants)
        for a, buffer in zip(nest.accumulators, self._buffers):
            name = f"part_{a.name}"
            new.statements.append(Load(name, buffer, position, PRE))
            new.accumulators.append(Accumulator(a.name, a.kind, a.dtype, name, a.eqn))
        new.statements += [s for s in nest.statements if s.level == POST]
        new.stores = [s for s in nest.stores if s.level == POST]
        return new


def _partial_buffer(a: Accumulator, shape: list[int]) -> Buffer:
    return new_buffer(f"parts_{a.name}", shape, compute_dtype(a.dtype))
