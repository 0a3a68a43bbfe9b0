"""Which nests are one on CUDA: what is computed of each element by the nest that has just computed that element.

Knows nests and where they read and write; no text. The Program's fusion has done so with all that it knows as nests;
this is for nests that rules with loops of their own have written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functad.backends.cuda.products.epilogues import joined_with
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.affine import Affine, Symbol, linear
from functad.lowering.nests.nest import PRE, Let, Load, Nest, Statement, Store, fresh, names_of
from functad.lowering.nests.reductions import at_point, store_at
from functad.lowering.steps import GemmStep, NestStep, Step


def joined_points(steps: Sequence[Step], touched: Mapping[Storage, int]) -> list[Step]:
    """The steps in order, where a nest and that after it, which is computed of each of its elements, are one.

    touched: how many places of the whole Program use each piece of memory.
    """
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        joined = _joined(before, step, touched) if isinstance(before, NestStep) else None
        found[-1:] = [joined] if joined else [*found[-1:], step]
    return found


def _joined(step: NestStep, after: Step, touched: Mapping[Storage, int]) -> NestStep | None:
    nest, place = step.nest, place_of(step.nest)
    if place is None or not isinstance(after, NestStep) or after.nest.points != nest.points:
        return None
    (store,) = nest.stores
    loads = {s.buffer.storage: s.buffer for s in nest.statements if isinstance(s, Load)}
    written = {s.buffer.storage for s in after.nest.stores}
    if not loads or store.buffer.storage in loads or not written.isdisjoint(loads):
        return None
    first, *_, last = (*loads.values(), *loads.values())
    elements = GemmStep(step.name, first, last, store.buffer, 0, 0, 1, nest.points, 1, 1, nest.points, nest.points)
    found = joined_with([elements], [after], touched)
    if not found.nests:
        return None
    merged = _merged(nest, found.nests[0].nest, place, found.is_kept)
    eqns = list(dict.fromkeys([*step.eqns, *after.eqns]))
    return NestStep(f"{step.name}_{after.name}", merged, eqns)


def place_of(nest: Nest) -> Affine | None:
    """Where a nest that computes one element at each point writes it, if these lie in the order of its loops."""
    special = nest.accumulators or nest.across or nest.carries or nest.update or nest.ordered or nest.segments
    if special or any(nest.reduced) or len(nest.stores) != 1 or nest.points < 2:
        return None
    place = linear([Affine(0, [(s, 1)]) for s in nest.loops], [s.extent for s in nest.loops])
    return place if nest.stores[0].level == PRE and nest.stores[0].offset == place else None


def _merged(nest: Nest, after: Nest, place: Affine, is_kept: bool) -> Nest:
    """One nest for two, of which the second one's only loop goes over the places of the first one's elements."""
    (store,) = nest.stores
    taken = {s.name for s in nest.loops} | {name for s in nest.statements for name in names_of(s)} | {*nest.constants}
    names = {
        name: fresh(name, taken) for name in (*(n for s in after.statements for n in names_of(s)), *after.constants)
    }
    at: dict[Symbol, Affine] = {symbol: place for symbol in after.loops}
    statements: list[Statement] = []
    for s in after.statements:
        moved = at_point(s, at, names)
        if isinstance(moved, Load) and moved.buffer.storage is store.buffer.storage:
            moved = Let((moved.name,), store.value, (store.value,), PRE, None)
        statements.append(moved)
    stores: list[Store] = [store_at(s, at, names) for s in after.stores]
    return replace(
        nest,
        statements=[*nest.statements, *statements],
        stores=[*([store] if is_kept else []), *stores],
        eqns=[*nest.eqns, *after.eqns],
        constants={**nest.constants, **{names[name]: value for name, value in after.constants.items()}},
    )
