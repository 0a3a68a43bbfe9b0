"""Four elements at a time: which nests a thread computes four neighbours of, and what of it is one load or store.

Knows nests and where they read and write; no text. A GPU's memory is read faster by 16 bytes than by four.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from functad import machine_model
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop, map_nest
from functad.backends.cuda.scalars.words import WIDTH
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol, loop, symbols_of
from functad.lowering.nests.nest import PRE, Let, Load, Nest, Statement, Store, fresh, names_of
from functad.lowering.nests.reductions import at_point, store_at

PLAIN_MEMORY = ("input", "output", "const", "arena")  # that no pointer moves over, so that it begins at a round address


@dataclass(frozen=True)
class Fours:
    """A nest whose last loop goes on by four elements, and how its loops are mapped then.

    values: of each accumulator what it gathers in a step. rest: steps that are left over, of the only loop.
    """

    nest: Nest
    mapping: LoopMapping
    values: dict[str, tuple[str, ...]]
    rest: int


def in_fours(nest: Nest, mapping: LoopMapping, threads: int) -> Fours | None:
    """The nest by four elements, if it is worth it: it is large, and what it stores, or loads, lies side by side."""
    if nest.update or nest.carries or not nest.loops or not _is_worth_it(nest, mapping, threads):
        return None
    last = nest.loops[-1]
    taken = {s.name for s in nest.loops} | {name for s in nest.statements for name in names_of(s)} | {*nest.constants}
    taken |= {a.name for a in nest.accumulators}
    quarter = loop(fresh(f"{last.name}_by_four", taken), last.extent // WIDTH)
    points = [{last: quarter * WIDTH + part} for part in range(WIDTH)]
    names: list[dict[str, str]] = [{} for _ in points]
    if not nest.reduced[-1]:
        for a in nest.accumulators:
            _name_apart(a.name, names, taken)
    statements: list[Statement] = []
    for s in nest.statements:
        if not _depends(s, last, names[0]):
            statements.append(s)
            continue
        for name in names_of(s):
            _name_apart(name, names, taken)
        statements += [replace(at_point(s, at, own), level=s.level) for at, own in zip(points, names)]
    stores: list[Store] = []
    for store in nest.stores:
        copied = store.level == PRE or not nest.reduced[-1]
        copies = [replace(store_at(store, at, own), level=store.level) for at, own in zip(points, names)]
        stores += copies if copied else [store]
    accumulators = nest.accumulators
    values = {a.name: tuple([own.get(a.value, a.value) for own in names]) for a in accumulators}
    if not nest.reduced[-1]:
        accumulators = [
            replace(a, name=own[a.name], value=own.get(a.value, a.value)) for a in accumulators for own in names
        ]
        values = {a.name: (a.value,) for a in accumulators}
    made = replace(
        nest,
        loops=[*nest.loops[:-1], *symbols_of(quarter)],
        statements=statements,
        stores=stores,
        accumulators=accumulators,
    )
    if not any(len(group) > 1 for group in (*in_groups(stores), *in_groups(statements))):
        return None
    return Fours(made, _mapped(made, mapping, last.name, threads), values, last.extent % WIDTH)


def _name_apart(name: str, names: Sequence[dict[str, str]], taken: set[str]) -> None:
    """Give a name one of its own in each of four places; it stays in the first."""
    for part, own in enumerate(names):
        own[name] = name if part == 0 else fresh(f"{name}_{part}", taken)


def _is_worth_it(nest: Nest, mapping: LoopMapping, threads: int) -> bool:
    last, reduced = nest.loops[-1], nest.reduced[-1]
    if last.extent < 2 * WIDTH or len(nest.statements) > machine_model.CUDA_VECTOR_STATEMENTS:
        return False
    if last.extent % WIDTH and (len(nest.loops) > 1 or nest.accumulators or mapping.by_block):
        return False
    gathering = mapping.gathering
    if gathering is not None and reduced:  # all threads of a result have something to do in each row
        return last.extent >= WIDTH * min(gathering.lanes, max(threads // 4, 1))
    if gathering is None and mapping.by_block:
        return reduced is bool(nest.accumulators) and last.extent >= WIDTH * threads
    return not reduced and not nest.ordered and nest.points >= machine_model.CUDA_VECTOR_POINTS


def _depends(s: Statement, last: Symbol, names: dict[str, str]) -> bool:
    """Whether a statement's value is another one at each step of a loop; names: those that are."""
    if isinstance(s, Let):
        return any(name in names for name in s.operands)
    position = s.offset if isinstance(s, Load) else s.value
    assert isinstance(position, Affine)
    return any(x is last or x.name in names for x in position.symbols())


def _mapped(nest: Nest, mapping: LoopMapping, name: str, threads: int) -> LoopMapping:
    """The mapping of the nest by four elements; a thread does four, so that there may be one for each step."""
    if nest.accumulators and (mapping.gathering is not None or not mapping.by_block):
        return map_nest(nest, threads)
    last = nest.loops[-1]

    def renamed(loops: Sequence[MappedLoop]) -> tuple[MappedLoop, ...]:
        return tuple([MappedLoop(last.name, last.extent) if one.name == name else one for one in loops])

    grid, block, thread, serial = map(renamed, (mapping.grid, mapping.block, mapping.thread, mapping.serial))
    return LoopMapping(grid, block, thread, serial, one_step=not mapping.by_block)


# --- what is one instruction ----------------------------------------------------------------------------


def in_groups(items: Sequence[Any]) -> Iterator[list[Any]]:
    """Statements or stores in order; four accesses of neighbours are together, all else is alone."""
    k = 0
    while k < len(items):
        four = list(islice(items, k, k + WIDTH))
        group = four if _is_vector(four) else four[:1]
        yield group
        k += len(group)


def _is_vector(items: Sequence[Statement | Store]) -> bool:
    accesses = [(s.buffer, s.offset) for s in items if isinstance(s, (Load, Store))]
    if len(accesses) < WIDTH:
        return False
    buffer, offset = accesses[0]
    neighbours = all(b.storage is buffer.storage and o == offset + part for part, (b, o) in enumerate(accesses))
    return neighbours and _is_round(offset) and _fits(buffer)


def _is_round(offset: Affine) -> bool:
    return not offset.constant % WIDTH and not any(coefficient % WIDTH for _, coefficient in offset.terms)


def _fits(buffer: Buffer) -> bool:
    """Whether memory begins at an address where vectors may, and elements are what a load takes."""
    storage: Storage = buffer.storage
    plain = storage.kind in PLAIN_MEMORY and storage.whole is None
    return plain and (kind_of(buffer.dtype) in "iuf" or is_narrow_float(buffer.dtype))
