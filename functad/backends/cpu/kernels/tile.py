"""Loops that exchange rows and columns, cut into small squares: a square's cache lines stay in the first cache.

Knows nests as data. LLVM knows that a square has a fixed size, and moves it with vectors.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.lowering.nests.affine import Symbol, loop
from functad.lowering.nests.nest import Carried, IndexLet, Let, Load, Nest, Statement


def tiled(nest: Nest) -> Nest:
    """The nest, or one that does the same in squares if its last two loops run through something across its rows.

    Their extents must be multiples of the square's side.
    """
    if len(nest.loops) < 2 or any(nest.reduced) or nest.accumulators or nest.carried is not None or nest.ordered:
        return nest
    rows, columns = nest.loops[-2:]
    if (
        rows.extent % machine_model.SQUARE_SIDE
        or columns.extent % machine_model.SQUARE_SIDE
        or not any(_runs_across(s, rows, columns) for s in nest.statements)
    ):
        return nest
    squares = [loop(f"{s.name}_tile", s.extent // machine_model.SQUARE_SIDE) for s in (rows, columns)]
    within = [loop(s.name, machine_model.SQUARE_SIDE) for s in (rows, columns)]
    parts = {s: outer * machine_model.SQUARE_SIDE + inner for s, outer, inner in zip((rows, columns), squares, within)}

    def moved(statement: Statement) -> Statement:
        if isinstance(statement, Let | Carried):
            return statement
        if isinstance(statement, IndexLet):
            return IndexLet(statement.name, statement.value.substitute(parts), statement.level)
        return Load(statement.name, statement.buffer, statement.offset.substitute(parts), statement.level)

    loops = [*nest.loops[:-2], *(x.terms[0][0] for x in (*squares, *within) if x.terms)]
    stores = [replace(s, offset=s.offset.substitute(parts)) for s in nest.stores]
    statements = [moved(s) for s in nest.statements]
    return Nest(loops, [False] * len(loops), statements, [], stores, nest.eqns, nest.constants)


def _runs_across(statement: object, rows: Symbol, columns: Symbol) -> bool:
    if not isinstance(statement, Load):
        return False
    return statement.offset.coefficient(rows) == 1 and statement.offset.coefficient(columns) > 1
