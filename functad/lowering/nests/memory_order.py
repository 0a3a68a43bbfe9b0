"""Loops of reductions in the order in which elements lie in memory: a sum over `x.T` reads along rows, as one over x.

Knows nests as data; no target.
"""

from __future__ import annotations

from functad import machine_model
from functad.lowering.nests.affine import Symbol
from functad.lowering.nests.nest import Nest


def put_in_memory_order(nest: Nest) -> None:
    """Let the last loop of a reduction run along rows, if it runs across those of all that is read and stored.

    Loops that are not reduced keep their order, in which results are written. Few terms are added in their order.
    """
    if not nest.accumulators or nest.across or nest.carried is not None or any(a.few for a in nest.accumulators):
        return
    steps = _steps(nest)
    if not steps or steps[nest.loops[-1]] <= 1:
        return
    kept, reduced = ([s for s, r in zip(nest.loops, nest.reduced) if r is which] for which in (False, True))
    reduced.sort(key=steps.__getitem__, reverse=True)
    loops = []
    while kept and reduced:
        loops.append((kept if steps[kept[0]] >= steps[reduced[0]] else reduced).pop(0))
    loops += [*kept, *reduced]
    if steps[loops[-1]] == 1:
        is_reduced = dict(zip(nest.loops, nest.reduced))
        nest.loops, nest.reduced = loops, [is_reduced[s] for s in loops]


def _steps(nest: Nest) -> dict[Symbol, int]:
    """How far each loop goes in memory with a step, where all that has an element for each point is of one order."""
    found: list[dict[Symbol, int]] = []
    for buffer, offset, _ in nest.accesses():
        steps = {s: abs(offset.coefficient(s)) for s in nest.loops}
        is_large = nest.points * buffer.dtype.itemsize > machine_model.FIRST_CACHE
        if is_large and offset.is_plain() and all(steps.values()):
            found.append(steps)
    orders = {tuple(sorted(nest.loops, key=steps.__getitem__)) for steps in found}
    return found[0] if len(orders) == 1 else {}
