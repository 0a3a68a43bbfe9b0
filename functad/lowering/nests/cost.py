"""What a loop nest does: how many operations, and how many bytes it moves.

Knows nests as data; no target, so no times.
"""

from __future__ import annotations

from functad.lowering.nests.nest import Let, Nest
from functad.primitives.cost import functions_in
from functad.records import NamedTuple

FUNCTION_WEIGHT = 10  # operations that a function such as `exp` counts as


class Work(NamedTuple):
    """`simple` operations and `calls` of functions such as `exp` at each point of a nest; `flops`, `bytes` in all.

    one_by_one: whether points cannot be vectors, as each goes on from what the one before has come to.
    """

    simple: int
    calls: int
    flops: float
    bytes: float
    one_by_one: bool


def calls_in(s: Let) -> int:
    """How many functions such as `exp` a statement calls."""
    return 0 if s.eqn is None else functions_in(s.eqn)


def work_of(nest: Nest) -> Work:
    """The work of a nest if nothing that it reads were in a cache."""
    lets = [s for s in nest.statements if isinstance(s, Let)]
    calls = sum(map(calls_in, lets))
    simple = len(lets) + len(nest.accumulators) + len(nest.carries)
    nbytes, scattered = 0.0, nest.update.buffer if nest.update is not None else None
    for buffer, offset, _ in nest.accesses():
        reached = 1
        symbols = offset.symbols()
        for symbol in nest.loops:
            reached *= symbol.extent if symbol in symbols or buffer is scattered else 1
        nbytes += min(reached, max(nest.points, nest.outer_points)) * buffer.dtype.itemsize
    one_by_one = bool(nest.loops) and (nest.loops[-1] is nest.carried or nest.loops[-1] in nest.ordered)
    return Work(simple, calls, float(nest.points * (simple + FUNCTION_WEIGHT * calls)), nbytes, one_by_one)
