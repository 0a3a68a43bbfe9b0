"""The order of units: what updates an input runs behind what reads it, and units over the same rows stay together.

Knows units and what they read; not how they were chosen, and no memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from functad import machine_model
from functad.ir import Eqn, Program, Var
from functad.lowering.fusion.units import Unit


def let_readers_go_first(
    program: Program, units: Sequence[Unit], unit_of: Mapping[Var, Unit], outputs: set[Var]
) -> None:
    """Put the unit that updates an input behind all others that read it, so that it can do so in place."""
    readers_of: dict[Var, list[Unit]] = {}
    followers: dict[int, list[int]] = {}
    for unit in units:
        for var in unit.reads:
            readers_of.setdefault(var, []).append(unit)
        for number in _read_units(unit, unit_of):
            followers.setdefault(number, []).append(unit.number)
    for var in program.invars:
        readers = readers_of.get(var, [])
        updating = [u for u in readers if _updates(program, u, var, outputs)]
        if len(updating) != 1:
            continue
        (last,) = updating
        later = _reached(last.number, followers) if len(readers) > 1 else {last.number}
        for unit in readers:
            if unit.number not in later:
                last.waits_for.add(unit.number)
                followers.setdefault(unit.number, []).append(last.number)


def _reached(number: int, followers: Mapping[int, Sequence[int]]) -> set[int]:
    """The numbers of all units that must run after one, and its own."""
    found, waiting = {number}, [number]
    while waiting:
        new = [n for n in followers.get(waiting.pop(), ()) if n not in found]
        found.update(new)
        waiting += new
    return found


def _updates(program: Program, unit: Unit, var: Var, outputs: set[Var]) -> bool:
    """Whether a unit makes a result out of an input that it reads point by point."""
    if unit.product is not None:
        return unit.product.start is var
    if unit.kind == "control":
        return _carries(program.eqns[unit.members[0]], var, outputs)
    if unit.kind == "scatter":
        eqn = program.eqns[unit.members[0]]
        return eqn.invars[0] is var and eqn.outvars[0] in outputs
    outs = (v for i in unit.members for v in program.eqns[i].outvars)
    return unit.kind == "nest" and any(v in outputs and v.aval.same_type(var.aval) for v in outs)


def _carries(eqn: Eqn, var: Var, outputs: set[Var]) -> bool:
    """Whether a loop carries an input along, to a result."""
    first = eqn.params.get("num_consts", 0) + eqn.params.get("cond_nconsts", 0) + eqn.params.get("body_nconsts", 0)
    carries = zip(eqn.invars[first:], eqn.outvars[: eqn.params.get("num_carry")])
    return "branches" not in eqn.params and any(a is var and out in outputs for a, out in carries)


def topological_order(
    program: Program, units: Sequence[Unit], unit_of: Mapping[Var, Unit], phase: Callable[[int], int]
) -> list[Unit]:
    """The units in an order in which they can run: program order, but units over the same rows stay together.

    What works on the same rows can run chunk by chunk while it is in the cache, without waiting for other threads.
    But what comes before a barrier runs before what comes behind it: `phase` counts the barriers before an equation.
    """
    by_number = {u.number: u for u in units}
    waiting = {u.number: _read_units(u, unit_of) for u in units}
    followers: dict[int, list[int]] = {}
    for unit in units:
        for other in waiting[unit.number]:
            followers.setdefault(other, []).append(unit.number)
    ready: list[tuple[int, int, int]] = []  # phase, position, number
    of_rows: dict[int, list[tuple[int, int, int]]] = {}
    rows = {u.number: _rows(program, u) for u in units}

    def release(number: int) -> None:
        first = by_number[number].members[0]
        entry = (phase(first), first, number)
        heapq.heappush(ready, entry)
        heapq.heappush(of_rows.setdefault(rows[number], []), entry)

    for unit in units:
        if not waiting[unit.number]:
            release(unit.number)
    found: list[Unit] = []
    done: set[int] = set()
    current = 0
    while len(found) < len(units):
        like_last = of_rows.get(current, []) if current else []
        for heap in (ready, like_last):
            while heap and heap[0][-1] in done:
                heapq.heappop(heap)
        is_early = bool(like_last) and like_last[0][0] == ready[0][0]
        *_, number = heapq.heappop(like_last if is_early else ready)
        done.add(number)
        found.append(by_number[number])
        current = rows[number]
        for follower in followers.get(number, []):
            waiting[follower].discard(number)
            if not waiting[follower]:
                release(follower)
    return found


def _read_units(unit: Unit, unit_of: Mapping[Var, Unit]) -> set[int]:
    """The numbers of the units whose results a unit reads."""
    owners = (unit_of.get(v) for v in unit.reads)
    return {o.number for o in owners if o is not None and o is not unit} | unit.waits_for


def _rows(program: Program, unit: Unit) -> int:
    """The number of rows that a unit works through one by one; 0 where it does not, or waiting costs memory."""
    outs = [v.aval for i in unit.members for v in program.eqns[i].outvars]
    if unit.kind in ("control", "call") or max(a.size * a.dtype.itemsize for a in outs) > machine_model.LARGEST_WAIT:
        return 0
    if unit.product is not None:
        return unit.product.out.aval.shape[0] if unit.product.out.aval.shape else 0
    if unit.kind in ("loops", "scatter"):
        return outs[0].shape[0] if outs[0].shape else 0
    waiting = [*unit.axes, *([unit.direction.axis] if unit.direction is not None else [])]
    return next((n for d, n in enumerate(unit.shape) if n != 1 and d not in waiting), 0)
