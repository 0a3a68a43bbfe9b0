"""The order of groups: what updates an input runs behind what reads it, and groups over the same rows stay together.

Knows groups and what they read; not how they were chosen, and no memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from functad import machine_model
from functad.errors import ProgramError
from functad.ir import Eqn, Program, Var
from functad.lowering.fusion.groups import FusionGroup
from functad.lowering_rules import ControlFlow


def let_readers_go_first(
    program: Program,
    groups: Sequence[FusionGroup],
    group_of: Mapping[Var, FusionGroup],
    outputs: set[Var],
    phase: Callable[[int], int],
) -> None:
    """Put the group that updates an input behind all others that read it, so that it can do so in place.

    Those of later phases stay behind it.
    """
    readers_of: dict[Var, list[FusionGroup]] = {}
    followers: dict[int, list[int]] = {}
    for group in groups:
        for var in group.reads:
            readers_of.setdefault(var, []).append(group)
        for number in _read_groups(group, group_of):
            followers.setdefault(number, []).append(group.number)
    for var in program.invars:
        readers = readers_of.get(var, [])
        updating = [g for g in readers if _updates(program, g, var, outputs)]
        if len(updating) != 1:
            continue
        (last,) = updating
        later = _reached(last.number, followers) if len(readers) > 1 else {last.number}
        for group in readers:
            if group.number not in later and phase(group.members[0]) <= phase(last.members[0]):
                last.waits_for.add(group.number)
                followers.setdefault(group.number, []).append(last.number)


def _reached(number: int, followers: Mapping[int, Sequence[int]]) -> set[int]:
    """The numbers of all groups that must run after one, and its own."""
    found, waiting = {number}, [number]
    while waiting:
        new = [n for n in followers.get(waiting.pop(), ()) if n not in found]
        found.update(new)
        waiting += new
    return found


def _updates(program: Program, group: FusionGroup, var: Var, outputs: set[Var]) -> bool:
    """Whether a group makes a result out of an input that it reads point by point."""
    if group.product is not None:
        return group.product.start is var
    if group.kind == "control":
        return _carries(program.eqns[group.members[0]], var, outputs)
    if group.kind == "scatter":
        eqn = program.eqns[group.members[0]]
        return eqn.invars[0] is var and eqn.outvars[0] in outputs
    outs = (v for i in group.members for v in program.eqns[i].outvars)
    return group.kind == "nest" and any(v in outputs and v.aval.same_type(var.aval) for v in outs)


def _carries(eqn: Eqn, var: Var, outputs: set[Var]) -> bool:
    """Whether a loop carries an input along, to a result."""
    rule = eqn.primitive.lower
    assert isinstance(rule, ControlFlow)
    return any(a is var and out in outputs for a, out in rule.carried(eqn))


def topological_order(
    program: Program, groups: Sequence[FusionGroup], group_of: Mapping[Var, FusionGroup], phase: Callable[[int], int]
) -> list[FusionGroup]:
    """The groups in an order in which they can run: program order, but groups over the same rows stay together.

    What works on the same rows can run chunk by chunk while it is in the cache, without waiting for other threads.
    But what comes before a barrier runs before what comes behind it: `phase` counts the barriers before an equation.
    """
    by_number = {g.number: g for g in groups}
    waiting = {g.number: _read_groups(g, group_of) for g in groups}
    followers: dict[int, list[int]] = {}
    for group in groups:
        for other in waiting[group.number]:
            followers.setdefault(other, []).append(group.number)
    ready: list[tuple[int, int, int]] = []  # phase, position, number
    of_rows: dict[int, list[tuple[int, int, int]]] = {}
    rows = {g.number: _rows(program, g) for g in groups}

    def release(number: int) -> None:
        first = by_number[number].members[0]
        entry = (phase(first), first, number)
        heapq.heappush(ready, entry)
        heapq.heappush(of_rows.setdefault(rows[number], []), entry)

    for group in groups:
        if not waiting[group.number]:
            release(group.number)
    found: list[FusionGroup] = []
    done: set[int] = set()
    current = 0
    while len(found) < len(groups):
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


def check_order(
    groups: Sequence[FusionGroup], group_of: Mapping[Var, FusionGroup], phase: Callable[[int], int]
) -> None:
    """Raise ProgramError unless each group runs behind those that it waits for, and phases one after another."""
    done: set[int] = set()
    current = 0
    for group in groups:
        if early := _read_groups(group, group_of) - done:
            raise ProgramError(f"group {group.number} runs before {sorted(early)}, whose results it reads")
        phases = {phase(i) for i in group.members}
        if len(phases) > 1:
            raise ProgramError(f"group {group.number} is of the phases {sorted(phases)}, between which is a barrier")
        if max(phases) < current:
            raise ProgramError(f"group {group.number} of phase {max(phases)} runs after one of phase {current}")
        current = max(phases)
        done.add(group.number)


def _read_groups(group: FusionGroup, group_of: Mapping[Var, FusionGroup]) -> set[int]:
    """The numbers of the groups whose results a group reads."""
    owners = (group_of.get(v) for v in group.reads)
    return {o.number for o in owners if o is not None and o is not group} | group.waits_for


def _rows(program: Program, group: FusionGroup) -> int:
    """The number of rows that a group works through one by one; 0 where it does not, or waiting costs memory."""
    outs = [v.aval for i in group.members for v in program.eqns[i].outvars]
    if group.kind in ("control", "call") or max(a.size * a.dtype.itemsize for a in outs) > machine_model.LARGEST_WAIT:
        return 0
    if group.product is not None:
        return group.product.out.aval.shape[0] if group.product.out.aval.shape else 0
    if group.kind in ("loops", "scatter"):
        return outs[0].shape[0] if outs[0].shape else 0
    waiting = [*group.axes, *([group.direction.axis] if group.direction is not None else [])]
    return next((n for d, n in enumerate(group.shape) if n != 1 and d not in waiting), 0)
