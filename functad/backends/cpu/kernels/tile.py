"""Loops that exchange rows and columns, cut into small squares, which vector registers turn around.

Knows nests as data. What runs across the rows of a square is copied first, so that all loops run along rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from functad import machine_model
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.nest import PRE, IndexLet, Let, Load, Nest, Statement, Store, fresh, moved, names_of


@dataclass(eq=False)
class Square(Load):
    """`name = ` a copy of the square of `side` rows that begins at `offset`, with rows and columns exchanged.

    pitch: how far its columns lie apart in the buffer. result: where the first element of a square of a large result
    lies to which it leads, and how far that square's rows lie apart.
    """

    side: int
    pitch: int
    result: tuple[Buffer, Affine, int] | None = None


def tiled(nest: Nest) -> Nest:
    """The nest, or one that does the same in squares if its last two loops run through something across its rows.

    Their extents must be multiples of a square's side.
    """
    if len(nest.loops) < 2 or any(nest.reduced) or nest.accumulators or nest.carried is not None or nest.ordered:
        return nest
    rows, columns = nest.loops[-2:]
    across = [s for s in nest.statements if _runs_across(s, rows, columns)]
    sides = [n for n in machine_model.SQUARE_SIDES if not rows.extent % n and not columns.extent % n]
    widest = max((s.buffer.dtype.itemsize for s in across if isinstance(s, Load)), default=0)
    sides = [n for n in sides if n * widest <= machine_model.VECTOR_BYTES] or sides[-1:]
    if not across or not sides:
        return nest
    return _in_squares(nest, sides[0])


def _in_squares(nest: Nest, side: int) -> Nest:
    rows, columns = nest.loops[-2:]
    tiles = [loop(f"{s.name}_tile", s.extent // side) for s in (rows, columns)]
    within = [loop(s.name, side) for s in (rows, columns)]
    starts = {s: tile * side for s, tile in zip((rows, columns), tiles)}
    parts = {s: starts[s] + inner for s, inner in zip((rows, columns), within)}
    taken = {s.name for s in nest.loops}.union(*map(names_of, nest.statements))
    place = IndexLet(fresh("place", taken), within[0] * side + within[1], PRE)
    large = [s for s in nest.stores if _is_large(s, columns)]
    results = [(s.buffer, s.offset.substitute(starts), s.offset.coefficient(rows)) for s in large]
    statements: list[Statement] = []
    for s in nest.statements:
        if not isinstance(s, Load) or not _is_movable(s, rows, columns):
            statements.append(moved(s, parts))
            continue
        pitch = s.offset.coefficient(columns)
        name, start = fresh(f"{s.name}_square", taken), s.offset.substitute(starts)
        square = Square(name, s.buffer, start, s.level, side, pitch, *results[:1])
        element = Let((s.name,), f"{square.name}[{place.name}]", (square.name, place.name), s.level, None)
        statements += [square, *([] if place in statements else [place]), element]
    loops = [*nest.loops[:-2], *(x.terms[0][0] for x in (*tiles, *within) if x.terms)]
    stores = [replace(s, offset=s.offset.substitute(parts)) for s in nest.stores]
    return Nest(loops, [False] * len(loops), statements, [], stores, nest.eqns, nest.constants)


def _is_large(store: Store, columns: Symbol) -> bool:
    """Whether what is written row by row does not fit into a cache."""
    return store.offset.coefficient(columns) == 1 and store.buffer.nbytes > machine_model.SECOND_CACHE


def _runs_across(s: Statement, rows: Symbol, columns: Symbol) -> bool:
    return isinstance(s, Load) and s.offset.coefficient(rows) == 1 and s.offset.coefficient(columns) > 1


def _is_movable(s: Load, rows: Symbol, columns: Symbol) -> bool:
    """Whether a square of what is read is one of a matrix in memory, and its rows fit into vector registers."""
    if not _runs_across(s, rows, columns) or s.buffer.dtype.itemsize > machine_model.WIDEST_IN_SQUARES:
        return False
    along = Affine(0, [(rows, 1), (columns, s.offset.coefficient(columns))])
    return {rows, columns}.isdisjoint((s.offset - along).symbols())
