"""A nest that carries values along its rows in phases: what comes before, between and after what is carried.

Knows nests as data; no target. Each phase is a loop of its own over a block of a row, so that vectors do it.
"""

from __future__ import annotations

from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.cost import calls_in
from functad.lowering.nests.nest import Carried, Let, Load, Nest, Statement, Store, names_of, uses_of
from functad.records import NamedTuple


class RowCarry(NamedTuple):
    """What is carried at the end of a phase.

    source: where its values lie, side by side, if they are not computed. target: where it is stored, if that is all.
    """

    carried: Carried
    source: Load | None
    target: Store | None


class Phase(NamedTuple):
    """The statements of a loop over a block, what its end carries along, and its stores."""

    statements: list[Statement]
    chains: list[RowCarry]
    stores: list[Store]


def phases_of(nest: Nest, along: Symbol, moving: set[str]) -> list[Phase] | None:
    """The phases, of which each computes what it needs; None if a function would be computed twice.

    along: the loop of a row. moving: the names that differ from step to step of it.
    """
    levels: dict[str, int] = {}
    for s in nest.statements:
        level = max((levels.get(name, 0) for name in uses_of(s)), default=0)
        levels.update(dict.fromkeys(names_of(s), level + isinstance(s, Carried)))
    last = max(levels[c.name] for c in nest.carries)
    chains = {c: RowCarry(c, _source(nest, c, along), _target(nest, c, along)) for c in nest.carries}
    placed = [chain.target for chain in chains.values()]
    found, called = [], set[Statement]()
    for level in range(last + 1):
        ends = [chains[c] for c in nest.carries if levels[c.name] == level + 1]
        stores = [s for s in nest.stores if s not in placed] if level == last else []
        needed = {chain.carried.value for chain in ends if chain.source is None} | {s.value for s in stores}
        needed |= {x.name for s in stores for x in s.offset.symbols()}
        statements: list[Statement] = []
        for s in reversed(nest.statements):
            if not moving.isdisjoint(names_of(s)) and not needed.isdisjoint(names_of(s)):
                statements.insert(0, s)
                needed.update(() if isinstance(s, Carried) else uses_of(s))  # what has been carried lies in memory
        functions = {s for s in statements if isinstance(s, Let) and calls_in(s)}
        if functions & called:
            return None
        called |= functions
        found.append(Phase(statements, ends, stores))
    return found


def _source(nest: Nest, c: Carried, along: Symbol) -> Load | None:
    for s in nest.statements:
        if isinstance(s, Load) and s.name == c.value and s.buffer.dtype == c.dtype and _lies_along(s, along):
            return s
    return None


def _target(nest: Nest, c: Carried, along: Symbol) -> Store | None:
    """The store of what nothing else needs, in memory that the nest does not read."""
    read = {s.buffer.storage.memory for s in nest.statements if isinstance(s, Load)}
    stores = [s for s in nest.stores if s.value == c.name]
    if len(stores) != 1 or any(c.name in uses_of(s) for s in nest.statements):
        return None
    (store,) = stores
    fits = store.buffer.dtype == c.dtype and store.buffer.storage.memory not in read
    return store if fits and _lies_along(store, along) else None


def _lies_along(access: Load | Store, along: Symbol) -> bool:
    """Whether the elements of a row lie side by side."""
    rest = access.offset - Affine(0, [(along, 1)])
    return access.offset.coefficient(along) == 1 and along not in rest.symbols()
