"""Which nests a reduction takes in: reductions over the same loops, and what is computed of each of its results.

Knows steps and where they read and write; no text. So the update of biases is the kernel that sums their gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functad import machine_model
from functad.backends.cpu.kernels.small_loops import touched_by
from functad.backends.cuda.kernels.mapping import in_any_order
from functad.backends.cuda.kernels.vectors import PLAIN_MEMORY
from functad.dtypes import is_narrow_float
from functad.lowering.memory.buffers import Storage
from functad.lowering.nests.affine import Affine, Symbol, delinear, linear
from functad.lowering.nests.nest import POST, PRE, Let, Load, Nest, Statement, Store, fresh, names_of
from functad.lowering.nests.reductions import at_point, names_in_nest, store_at
from functad.lowering.steps import CallStep, ControlStep, NestStep, Step, written_by


def finished(steps: Sequence[Step], touched: Mapping[Storage, int]) -> list[Step]:
    """The steps in order, where small reductions over the same loops are one, and do what follows from their results.

    touched: how many places of the whole Program use each piece of memory.
    """
    found: list[Step] = []
    for step in steps:
        if isinstance(step, NestStep) and (k := _like(found, step)) is not None:
            earlier = found.pop(k)
            assert isinstance(earlier, NestStep)
            found.append(_side_by_side(earlier, step))
        elif not isinstance(step, NestStep) or not _take(found, step, touched):
            found.append(step)
    return found


# --- reductions over the same loops ---------------------------------------------------------------------


def _like(found: Sequence[Step], step: NestStep) -> int | None:
    """Where there is a reduction over the loops of this one that may as well be done with it; None if nowhere."""
    if not _is_small_reduction(step.nest):
        return None
    read, written = _accessed(step.nest)
    later_touched: set[Storage] = set(read | written)
    later_written: set[Storage] = set(written)
    for k in reversed(range(max(len(found) - machine_model.CUDA_WAITED_STEPS, 0), len(found))):
        other = found[k]
        if isinstance(other, ControlStep | CallStep):
            return None
        if isinstance(other, NestStep) and _is_small_reduction(other.nest) and _same_loops(other.nest, step.nest):
            other_read, other_written = _accessed(other.nest)
            if later_touched.isdisjoint(other_written) and later_written.isdisjoint(other_read):
                return k
        later_touched |= touched_by([other]).keys()
        later_written |= written_by(other)
    return None


def _is_small_reduction(nest: Nest) -> bool:
    is_small = 0 < nest.points <= machine_model.CUDA_JOINED_POINTS and bool(nest.accumulators)
    return is_small and _is_plain(nest) and all(s.level == POST for s in nest.stores)


def _same_loops(one: Nest, other: Nest) -> bool:
    loops = [[(s.extent, r) for s, r in zip(nest.loops, nest.reduced)] for nest in (one, other)]
    count = len(one.accumulators) + len(other.accumulators)
    orders = {in_any_order(nest) for nest in (one, other)}
    return loops[0] == loops[1] and count <= machine_model.CUDA_JOINED_REDUCTIONS and len(orders) == 1


def _accessed(nest: Nest) -> tuple[set[Storage], set[Storage]]:
    """The memory that a nest reads, and that it writes."""
    read, written = ({b.storage for b, _, w in nest.accesses() if w is kind} for kind in (False, True))
    return read, written


def _side_by_side(one: NestStep, other: NestStep) -> NestStep:
    """Both reductions in one nest."""
    first, nest = one.nest, other.nest
    taken = names_in_nest(first)
    at: dict[Symbol, Affine] = {s: Affine(0, [(own, 1)]) for s, own in zip(nest.loops, first.loops)}
    of_statements = [name for s in nest.statements for name in names_of(s)]
    own_names = [*nest.constants, *(a.name for a in nest.accumulators), *of_statements]
    names = {name: fresh(name, taken) for name in own_names}
    statements = [replace(at_point(s, at, names), level=s.level) for s in nest.statements]
    stores = [replace(store_at(s, at, names), level=s.level) for s in nest.stores]
    gathered = [replace(a, name=names[a.name], value=names.get(a.value, a.value)) for a in nest.accumulators]
    made = replace(
        first,
        statements=sorted([*first.statements, *statements], key=lambda s: s.level),
        accumulators=[*first.accumulators, *gathered],
        stores=[*first.stores, *stores],
        eqns=list(dict.fromkeys([*first.eqns, *nest.eqns])),
        constants={**first.constants, **{names[name]: value for name, value in nest.constants.items()}},
    )
    eqns = list(dict.fromkeys([*one.eqns, *other.eqns]))
    return replace(other, name=f"{one.name}_{other.name}", nest=made, eqns=eqns)


# --- what follows ---------------------------------------------------------------------------------------


def _take(found: list[Step], step: NestStep, touched: Mapping[Storage, int]) -> bool:
    """Let the reduction whose results a nest reads do what the nest does, if that is near.

    The nest runs where the reduction does, or the reduction waits for the steps between.
    """
    nest = step.nest
    if not _is_plain(nest) or any(nest.reduced) or nest.accumulators or any(s.level != PRE for s in nest.stores):
        return False
    read, _ = _accessed(nest)
    for k in reversed(range(max(len(found) - machine_model.CUDA_WAITED_STEPS, 0), len(found))):
        other = found[k]
        if isinstance(other, ControlStep | CallStep):
            return False
        if isinstance(other, NestStep) and other.nest.accumulators and not read.isdisjoint(written_by(other)):
            between = found[k + 1 :]
            comes_first = may_pass(nest, between)
            joined = _joined(other, step, touched) if comes_first or may_pass(other.nest, between) else None
            if joined is not None:
                found[k : k + 1] = [joined] if comes_first else []
                found += [] if comes_first else [joined]
            return joined is not None
    return False


def may_pass(nest: Nest, steps: Sequence[Step]) -> bool:
    """Whether a nest may run on the other side of some steps."""
    read, written = _accessed(nest)
    return all(written.isdisjoint(touched_by([s])) and read.isdisjoint(written_by(s)) for s in steps)


def _is_plain(nest: Nest) -> bool:
    special = nest.across or nest.carries or nest.update or nest.ordered or nest.segments or nest.owned_rows
    return not special and all(
        b.storage.kind in PLAIN_MEMORY and b.storage.whole is None for b, _, _ in nest.accesses()
    )


def _joined(reduction: NestStep, step: NestStep, touched: Mapping[Storage, int]) -> NestStep | None:
    first, nest = reduction.nest, step.nest
    kept = [s for s, is_reduced in zip(first.loops, first.reduced) if not is_reduced]
    if not _is_plain(first) or nest.points != first.outer_points or not nest.points:
        return None
    place = linear([Affine(0, [(s, 1)]) for s in kept], [s.extent for s in kept])
    at: dict[Symbol, Affine] = dict(zip(nest.loops, delinear(place, [s.extent for s in nest.loops])))
    results = {s.buffer.storage: s for s in first.stores if s.level == POST}
    others = {b.storage for b, _, _ in first.accesses()} - results.keys()
    inner = {s.buffer.storage for s in first.stores if s.level == PRE}
    for buffer, offset, is_written in nest.accesses():
        result = results.get(buffer.storage)
        if result is not None and (offset.substitute(at) != result.offset or buffer.dtype != result.buffer.dtype):
            return None
        if result is not None and not is_written and is_narrow_float(buffer.dtype):  # it is rounded in memory
            return None
        if buffer.storage in (others if is_written else inner):
            return None
    made = _at_results(nest, at, results, names_in_nest(first))
    overwritten = {s.buffer.storage for s in nest.stores}
    users = touched_by([reduction, step])
    kept_stores = [s for s in first.stores if s.level == PRE or not _is_done(s, overwritten, users, touched)]
    whole = replace(
        first,
        statements=[*first.statements, *made.statements],
        stores=[*kept_stores, *made.stores],
        eqns=list(dict.fromkeys([*first.eqns, *nest.eqns])),
        constants={**first.constants, **made.constants},
    )
    eqns = list(dict.fromkeys([*reduction.eqns, *step.eqns]))
    return replace(reduction, name=f"{reduction.name}_{step.name}", nest=whole, eqns=eqns)


def _is_done(
    store: Store, overwritten: set[Storage], users: Mapping[Storage, int], touched: Mapping[Storage, int]
) -> bool:
    """Whether nobody needs a result in memory behind the nest that is computed of it."""
    storage = store.buffer.storage
    is_private = storage.kind == "arena" and users[storage.memory] == touched.get(storage.memory)
    return storage in overwritten or is_private


def _at_results(nest: Nest, at: dict[Symbol, Affine], results: Mapping[Storage, Store], taken: set[str]) -> Nest:
    """What a nest does at each result of a reduction, under names that are not taken."""
    names: dict[str, str] = {name: fresh(name, taken) for name in nest.constants}
    statements: list[Statement] = []
    for s in nest.statements:
        names.update({name: fresh(name, taken) for name in names_of(s)})
        made = replace(at_point(s, at, names), level=POST)
        if isinstance(s, Load) and s.buffer.storage in results:
            value = results[s.buffer.storage].value
            made = Let(names_of(made), value, (value,), POST, None)
        statements.append(made)
    stores = [replace(store_at(s, at, names), level=POST) for s in nest.stores]
    constants = {names[name]: value for name, value in nest.constants.items()}
    return replace(nest, statements=statements, stores=stores, constants=constants)
