"""Splitting reductions: one long sum becomes several partial ones and their sum.

Knows nests as data; no target. Without a loop that is kept outside of the reduction there is nothing that threads
could share, and a handful of sums side by side do not fill a vector.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, linear, loop
from functad.lowering.nests.nest import POST, PRE, Accumulator, IndexLet, Load, Nest, Store


def split_reduction(nest: Nest) -> tuple[Nest, Nest] | None:
    """Two nests for one whose outermost loop is reduced, or None if it is too short to gain anything.

    The loop over r becomes loops over parts q, positions r', and lanes p: r = (q·R' + r')·P + p. The first nest sums
    over r' into an array of partial results; the second one sums those over q and p. Products of floats are not split:
    in another order they would over- or underflow elsewhere.
    """
    if not nest.accumulators or not nest.loops or not nest.reduced[0] or any(s.level == PRE for s in nest.stores):
        return None
    if any(a.kind == "prod" and np.dtype(a.dtype).kind in "fc" for a in nest.accumulators):
        return None
    long = nest.loops[0]
    kept = [s for s, r in zip(nest.loops, nest.reduced) if not r]
    side_by_side = 1
    for symbol in kept:
        side_by_side *= symbol.extent
    by_columns = bool(kept) and nest.loops[-1] is kept[-1]
    parts = _divisor(long.extent, machine_model.MOST_PARTS) if nest.points >= machine_model.POINTS_WORTH_PARTS else 1
    lanes = 1
    if by_columns and side_by_side < machine_model.NARROW_SUMS and nest.points >= machine_model.POINTS_WORTH_LANES:
        lanes = _divisor(long.extent // parts, max(machine_model.SUMS_AT_ONCE // side_by_side, 1))
    if parts == 1 and lanes == 1:
        return None
    return _partial(nest, long, kept, parts, lanes)


def _divisor(n: int, most: int) -> int:
    return max((d for d in range(1, most + 1) if n % d == 0), default=1)


def _partial(nest: Nest, long: Symbol, kept: list[Symbol], parts: int, lanes: int) -> tuple[Nest, Nest]:
    q, r, p = loop("q", parts), loop("r", long.extent // (parts * lanes)), loop("p", lanes)
    replacement = {long: (q * (long.extent // (parts * lanes)) + r) * lanes + p}
    inner_loops, inner_reduced = nest.loops[1:], nest.reduced[1:]
    loops = [*_symbols(q), *_symbols(r), *_symbols(p), *inner_loops]
    reduced = [False] * len(_symbols(q)) + [True] * len(_symbols(r)) + [False] * len(_symbols(p)) + inner_reduced
    first = Nest(loops, reduced, eqns=nest.eqns, constants=nest.constants)
    for s in nest.statements:
        if s.level == POST:
            continue
        if isinstance(s, Load):
            first.statements.append(Load(s.name, s.buffer, s.offset.substitute(replacement), PRE))
        elif isinstance(s, IndexLet):
            first.statements.append(IndexLet(s.name, s.value.substitute(replacement), PRE))
        else:
            first.statements.append(s)

    column = [_affine(s) for s in kept]
    shape = [parts, lanes, *(s.extent for s in kept)]
    position = linear([q, p, *column], shape)
    second_q, second_p = loop("q", parts), loop("p", lanes)
    again = [*_symbols(second_q), *_symbols(second_p)]
    again_reduced = [False] * len(kept) + [True] * len(again)
    second = Nest([*kept, *again], again_reduced, eqns=nest.eqns, constants=nest.constants)
    second_position = linear([second_q, second_p, *column], shape)
    for a in nest.accumulators:
        buffer = _partial_buffer(a, shape)
        name = f"part_{a.name}"
        first.accumulators.append(a)
        first.stores.append(Store(buffer, position, a.name, POST))
        second.statements.append(Load(name, buffer, second_position, PRE))
        second.accumulators.append(Accumulator(a.name, a.kind, a.dtype, name, a.eqn))
    second.statements += [s for s in nest.statements if s.level == POST]
    second.stores = list(nest.stores)
    return first, second


def _partial_buffer(a: Accumulator, shape: list[int]) -> Buffer:
    return new_buffer(f"parts_{a.name}", shape, np.dtype(np.float32) if a.dtype == np.float16 else a.dtype)


def _symbols(index: Affine) -> list[Symbol]:
    return [s for s, _ in index.terms]


def _affine(symbol: Symbol) -> Affine:
    return Affine(0, [(symbol, 1)])
