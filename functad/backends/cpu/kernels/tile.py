"""Loops that exchange rows and columns, cut into small squares, which vector registers turn around.

Knows nests as data. What runs across the rows of a square is copied first, so that all loops run along rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from functad import machine_model
from functad.backends.cpu.scalars import running
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.nest import PRE, IndexLet, Let, Load, Nest, Statement, Store, fresh, moved
from functad.lowering.nests.reductions import names_in_nest
from functad.primitives.loops.text import cast


@dataclass(eq=False)
class Square(Load):
    """`name = ` a copy of the square of `side` rows that begins at `offset`, with rows and columns exchanged.

    pitch: how far its columns lie apart in the buffer. count: how many squares lie side by side. result: where the
    first element of a square of a large result lies to which it leads, and how far that square's rows lie apart, if
    that is not streamed.
    """

    side: int
    pitch: int
    count: int
    result: tuple[Buffer, Affine, int] | None = None


@dataclass(eq=False)
class LineStart(IndexLet):
    """`name = ` the last place up to `value`, and from 0 to `last`, where a cache line of the buffer begins.

    offset: of the element at the place `value`.
    """

    buffer: Buffer
    offset: Affine
    last: int


@dataclass(eq=False)
class StreamedStore(Store):
    """`room[place] = value`; when `count` squares of `side` rows are there, they go to the buffer at `offset`.

    They pass by the caches. pitch: how far their rows lie apart in the buffer. place: none if the room is what a square
    was copied to. depth: of how many loops they are filled by.
    """

    room: str
    place: str
    side: int
    pitch: int
    count: int
    depth: int


@dataclass(eq=False)
class PackedTile(Load):
    """`name = ` a copy of `rows` rows of `columns` elements, of which the first begins at `offset`, `pitch` apart."""

    pitch: int
    rows: int
    columns: int


@dataclass(eq=False)
class TransposedStore(Store):
    """The columns of the packed tile `value`, so many of so many elements, go to rows at `offset`, `pitch` apart."""

    pitch: int
    rows: int
    columns: int


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
    return _in_tiles(nest, sides[0]) or _in_squares(nest, sides[0])


def _in_tiles(nest: Nest, side: int) -> Nest | None:
    """The nest, in packed tiles, if all that it does is to exchange rows and columns, and caches hold its results."""
    rows, columns = nest.loops[-2:]
    loads = {s.name: s for s in nest.statements if isinstance(s, Load) and _is_movable(s, rows, columns)}
    kinds = {name: s.buffer.dtype for name, s in loads.items()}
    plain = [s for s in nest.stores if kinds.get(s.value) == s.buffer.dtype and _writes_rows(s, rows, columns)]
    if len(plain) < len(nest.stores) or len(loads) < len(nest.statements) or not loads:
        return None
    widest = max(kind.itemsize for kind in kinds.values())
    if rows.extent * columns.extent * widest <= machine_model.FIRST_CACHE // 2:
        return None  # all of it stays there
    most = machine_model.LARGEST_TRANSPOSED_TILE // widest
    tiles = [(n, m) for n, m in machine_model.TRANSPOSED_TILES if not columns.extent % n and not rows.extent % m]
    tiles = [(n, m) for n, m in tiles if n * m <= most]
    if not tiles or any(_is_streamed(s, rows, columns, side) for s in nest.stores):
        return None
    down, along = tiles[0]
    row, column = loop(f"{rows.name}_tile", rows.extent // along), loop(f"{columns.name}_tile", columns.extent // down)
    starts, taken = {rows: row * along, columns: column * down}, names_in_nest(nest)
    names = {name: fresh(f"{name}_tile", taken) for name in loads}
    statements: list[Statement] = []
    for name, s in loads.items():
        start, pitch = s.offset.substitute(starts), s.offset.coefficient(columns)
        statements.append(PackedTile(names[name], s.buffer, start, s.level, pitch, down, along))
    stores: list[Store] = []
    for store in nest.stores:
        start, pitch = store.offset.substitute(starts), store.offset.coefficient(rows)
        stores.append(TransposedStore(store.buffer, start, names[store.value], PRE, pitch, down, along))
    loops = [*nest.loops[:-2], *(x.terms[0][0] for x in (row, column) if x.terms)]
    return Nest(loops, [False] * len(loops), statements, [], stores, nest.eqns, nest.constants)


def _in_squares(nest: Nest, side: int) -> Nest:
    rows, columns = nest.loops[-2:]
    streamed = [s for s in nest.stores if _is_streamed(s, rows, columns, side)]
    count = _squares_together(columns.extent // side) if streamed else 1
    row, column = (loop(f"{s.name}_tile", s.extent // n) for s, n in ((rows, side), (columns, side * count)))
    within = [loop(rows.name, side), loop(columns.name, side * count)]
    starts = {rows: row * side, columns: column * (side * count)}
    taken = names_in_nest(nest)
    lines: list[Statement] = []
    by_lines = _read_by_lines(nest, side) if count > 1 and len(streamed) == len(nest.stores) else None
    if by_lines is not None:
        row = loop(f"{rows.name}_tile", rows.extent // side + 1)
        first = Symbol(fresh(f"{rows.name}_first", taken), 0, rows.extent - side)
        begins = by_lines.offset.substitute(starts | {rows: row * side})
        lines = [LineStart(first.name, row * side, PRE, by_lines.buffer, begins, first.high)]
        starts[rows] = Affine(0, [(first, 1)])
    parts = {s: starts[s] + inner for s, inner in zip((rows, columns), within)}
    place = IndexLet(fresh("place", taken), within[0] * (side * count) + within[1], PRE)
    large = [s for s in nest.stores if s not in streamed and _is_large(s, columns)]
    results = [(s.buffer, s.offset.substitute(starts), s.offset.coefficient(rows)) for s in large]
    movable = [s for s in nest.statements if isinstance(s, Load) and _is_movable(s, rows, columns)]
    squares = {s.name: fresh(f"{s.name}_square", taken) for s in movable}
    # What is only moved: floats of 16 bits get their other type by being read.
    kinds = {s.name: s.buffer.dtype for s in movable}
    rooms = {s: squares[s.value] for s in streamed if s.value in kinds and kinds[s.value] == s.buffer.dtype}
    are_moved = all(s in rooms for s in nest.stores)
    inner = [] if are_moved else within
    statements = lines if are_moved else [*lines, place]
    for s in nest.statements:
        if s not in movable:
            statements.append(moved(s, parts))
            continue
        name, start, pitch = squares[s.name], s.offset.substitute(starts), s.offset.coefficient(columns)
        statements.append(Square(name, s.buffer, start, s.level, side, pitch, count, *results[:1]))
        if not are_moved:
            statements.append(Let((s.name,), f"{name}[{place.name}]", (name, place.name), s.level, None))
    stores: list[Store] = []
    for store in nest.stores:
        if store not in streamed:
            stores.append(replace(store, offset=store.offset.substitute(parts)))
            continue
        room, at = rooms.get(store), ""
        if room is None:
            room, at = fresh(f"{store.buffer.name}_squares", taken), place.name
            statements.append(Let((room,), f"room_{cast(store.buffer.dtype)}()", (), PRE, None))
        start, pitch = store.offset.substitute(starts), store.offset.coefficient(rows)
        stores.append(StreamedStore(store.buffer, start, store.value, PRE, room, at, side, pitch, count, len(inner)))
    order = [column, row] if count > 1 else [row, column]  # down bands: what is read of the next lies near
    loops = [*nest.loops[:-2], *(x.terms[0][0] for x in (*order, *inner) if x.terms)]
    return Nest(loops, [False] * len(loops), statements, [], stores, nest.eqns, nest.constants)


def _read_by_lines(nest: Nest, side: int) -> Load | None:
    """What is read across its rows whose squares could begin with cache lines, as all its rows begin alike.

    Squares then overlap at both ends, so that nothing may be read that is written.
    """
    rows, columns = nest.loops[-2:]
    loads, written = [s for s in nest.statements if isinstance(s, Load)], {s.buffer.storage for s in nest.stores}
    if any(s.buffer.storage in written for s in loads):
        return None
    for s in loads:
        size, pitch = s.buffer.dtype.itemsize, s.offset.coefficient(columns)
        if side * size == machine_model.CACHE_LINE and not pitch % side and _is_movable(s, rows, columns):
            return s
    return None


def _squares_together(columns: int) -> int:
    """How many squares of a row of so many are streamed together."""
    fewest = machine_model.FEWEST_OF_SQUARES
    return next((n for n in machine_model.SQUARES_TOGETHER if not columns % n and columns >= n * fewest), 1)


def _is_large(store: Store, columns: Symbol) -> bool:
    """Whether what is written row by row does not fit into a cache."""
    return store.offset.coefficient(columns) == 1 and store.buffer.nbytes > machine_model.SECOND_CACHE


def _is_streamed(store: Store, rows: Symbol, columns: Symbol, side: int) -> bool:
    """Whether rows of squares are whole cache lines of a large result: they pass by the caches."""
    buffer = store.buffer
    fills_lines = side * buffer.dtype.itemsize == machine_model.CACHE_LINE
    is_large = buffer.dtype in running.ROOMS and buffer.nbytes >= machine_model.SQUARES_STREAMED_BYTES
    return is_large and fills_lines and _writes_rows(store, rows, columns)


def _writes_rows(store: Store, rows: Symbol, columns: Symbol) -> bool:
    """Whether what is written along both loops are rows of a matrix."""
    offset = store.offset
    if type(store) is not Store or offset.coefficient(columns) != 1:
        return False
    along = Affine(0, [(rows, offset.coefficient(rows)), (columns, 1)])
    return {rows, columns}.isdisjoint((offset - along).symbols())


def _runs_across(s: Statement, rows: Symbol, columns: Symbol) -> bool:
    return isinstance(s, Load) and s.offset.coefficient(rows) == 1 and s.offset.coefficient(columns) > 1


def _is_movable(s: Load, rows: Symbol, columns: Symbol) -> bool:
    """Whether a square of what is read is one of a matrix in memory, and its rows fit into vector registers."""
    if not _runs_across(s, rows, columns) or s.buffer.dtype.itemsize > machine_model.WIDEST_IN_SQUARES:
        return False
    along = Affine(0, [(rows, 1), (columns, s.offset.coefficient(columns))])
    return {rows, columns}.isdisjoint((s.offset - along).symbols())
