"""The squares of `squares` for Numba: loads of rows, exchanges between registers, stores. Importing it registers them.

Knows how squares lie in memory; nothing of what they are for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad import machine_model
from functad.backends.cpu.compile.frontend import PackedPointer
from functad.backends.cpu.scalars.register_squares import columns_of_square
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.squares import BANDS, SIDES, STREAMS, packed_tile, write_transposed
from functad.backends.cpu.scalars.vector_calls import has_wide_registers

_WORD = ir.IntType(32)
_POINTERS = (types.CPointer, PackedPointer)


def _register(function: Callable[..., Any], side: int) -> None:
    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) not in (3, 6) or not all(isinstance(pointer, _POINTERS) for pointer in arguments[::3]):
            return None
        places = [kind for pointer in arguments[::3] for kind in (pointer, types.int64, types.int64)]
        return signature(arguments[0], *places)

    declare_function(function, signature_of)

    def square(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        elements, first, pitch = values[:3]
        size = context.get_abi_sizeof(elements.type.pointee)
        part = _rows_in_registers(side, size)
        place = _room(builder, size, part, side * side)
        for step in range(side // part):
            corner = builder.add(first, builder.mul(pitch, pitch.type(step * part)))
            places = [_WORD(k * (side // part) + step) for k in range(side)]
            _turn(builder, (elements, corner, pitch), place, places)
        if len(values) > 3:
            result, begin, apart = values[3:]
            ahead = builder.add(begin, begin.type(side * machine_model.SQUARES_AHEAD))
            for start in _starts(builder, side, result, ahead, apart):
                _ask_for(builder, start, for_writing=True)
        return builder.bitcast(place, elements.type)

    for pointer in _POINTERS:
        implement(function, pointer, types.Integer, types.Integer)(square)
        for other in _POINTERS:
            implement(function, pointer, types.Integer, types.Integer, other, types.Integer, types.Integer)(square)


def _register_band(function: Callable[..., Any], side: int) -> None:
    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 4 or not isinstance(arguments[0], _POINTERS):
            return None
        return signature(arguments[0], arguments[0], types.int64, types.int64, types.int64)

    declare_function(function, signature_of)

    def band(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        elements, first, pitch, count = values
        size = context.get_abi_sizeof(elements.type.pointee)
        part = _rows_in_registers(side, size)
        place = _room(builder, size, part, machine_model.SQUARES_TOGETHER[0] * side * side)
        steps = builder.mul(count, count.type(side // part))
        with cgutils.for_range(builder, steps) as step:
            corner = builder.add(first, builder.mul(pitch, builder.mul(step.index, pitch.type(part))))
            places = [builder.add(builder.mul(steps, steps.type(k)), step.index) for k in range(side)]
            _turn(builder, (elements, corner, pitch), place, places)
            for start in _starts(builder, part, elements, builder.add(corner, corner.type(side)), pitch):
                _ask_for(builder, start, for_writing=False)
        return builder.bitcast(place, elements.type)

    for pointer in _POINTERS:
        implement(function, pointer, types.Integer, types.Integer, types.Integer)(band)


def _rows_in_registers(side: int, size: int) -> int:
    """How many rows, of as many elements, of a square of elements of `size` bytes vector registers turn at once."""
    return min(side, (64 if has_wide_registers() else 32) // size)


def _room(builder: ir.IRBuilder, size: int, part: int, count: int) -> ir.Value:
    """Memory for so many elements, as vectors of `part`."""
    place = cgutils.alloca_once(builder, ir.VectorType(ir.IntType(8 * size), part), size=count // part)
    place.align = machine_model.CACHE_LINE
    return place


def _turn(
    builder: ir.IRBuilder, source: tuple[ir.Value, ir.Value, ir.Value], place: ir.Value, places: list[ir.Value]
) -> None:
    """Read as many rows as vectors have elements, each cache line at once, and put their columns where `places` say.

    source: the elements, where the first row begins, and how far rows lie apart.
    """
    row = place.type.pointee
    starts = _starts(builder, row.count, *source)
    for left in range(0, len(places), row.count):
        pieces = [builder.bitcast(builder.gep(start, [_WORD(left)]), row.as_pointer()) for start in starts]
        rows = [builder.load(piece, align=row.element.width // 8) for piece in pieces]
        for column, where in zip(columns_of_square(builder, rows), places[left:]):
            builder.store(column, builder.gep(place, [where]))


def _register_stream(function: Callable[..., Any], side: int) -> None:
    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 5 or not all(isinstance(pointer, _POINTERS) for pointer in arguments[:2]):
            return None
        return signature(types.none, *arguments[:2], types.int64, types.int64, types.int64)

    declare_function(function, signature_of)

    def stream(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        room, elements, first, pitch, count = values
        size = context.get_abi_sizeof(elements.type.pointee)
        line = ir.VectorType(ir.IntType(8 * size), side)
        lines = builder.bitcast(room, line.as_pointer())
        start = builder.gep(elements, [first])
        with builder.if_else(_are_whole_lines(builder, start, pitch, size)) as (whole, parts):
            for way, is_whole in ((whole, True), (parts, False)):
                with (
                    way,
                    cgutils.for_range(builder, pitch.type(side)) as row,
                    cgutils.for_range(builder, count) as square,
                ):
                    within = builder.add(builder.mul(row.index, count), square.index)
                    value = builder.load(builder.gep(lines, [within]), align=size * side)
                    along = builder.mul(square.index, count.type(side))
                    place = builder.gep(start, [builder.add(builder.mul(row.index, pitch), along)])
                    kept = builder.store(value, builder.bitcast(place, line.as_pointer()), align=size)
                    if is_whole:
                        kept.align = machine_model.CACHE_LINE
                        kept.set_metadata("nontemporal", builder.module.add_metadata([_WORD(1)]))
        return context.get_dummy_value()

    for pointer in _POINTERS:
        for other in _POINTERS:
            implement(function, pointer, other, types.Integer, types.Integer, types.Integer)(stream)


def _register_tiles() -> None:
    def packed_signature(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 5 or not isinstance(arguments[0], _POINTERS):
            return None
        return signature(arguments[0], arguments[0], *4 * [types.int64])

    def written_signature(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 6 or not all(isinstance(pointer, _POINTERS) for pointer in arguments[:2]):
            return None
        return signature(types.none, *arguments[:2], *4 * [types.int64])

    declare_function(packed_tile, packed_signature)
    declare_function(write_transposed, written_signature)
    for pointer in _POINTERS:
        implement(packed_tile, pointer, *4 * [types.Integer])(_pack)
        for other in _POINTERS:
            implement(write_transposed, pointer, other, *4 * [types.Integer])(_write_transposed)


def _pack(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    elements, first, pitch, rows, columns = values
    part, apart, row = _tile_layout(context, builder, elements, columns)
    most = machine_model.LARGEST_TRANSPOSED_TILE // machine_model.CACHE_LINE
    most += max(side for side, _ in machine_model.TRANSPOSED_TILES)
    room = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(8), machine_model.CACHE_LINE), size=most)
    room.align = machine_model.CACHE_LINE
    place = builder.bitcast(room, elements.type)
    with cgutils.for_range(builder, rows) as i, cgutils.for_range(builder, builder.udiv(columns, part)) as piece:
        along = builder.mul(piece.index, part)
        source = builder.gep(elements, [builder.add(first, builder.add(builder.mul(pitch, i.index), along))])
        target = builder.gep(place, [builder.add(builder.mul(apart, i.index), along)])
        size = row.element.width // 8
        value = builder.load(builder.bitcast(source, row.as_pointer()), align=size)
        builder.store(value, builder.bitcast(target, row.as_pointer()), align=row.count * size)
    return place


def _write_transposed(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    tile, elements, first, pitch, rows, columns = values
    part, apart, row = _tile_layout(context, builder, tile, columns)
    size = row.element.width // 8
    with (
        cgutils.for_range(builder, builder.udiv(columns, part)) as across,
        cgutils.for_range(builder, builder.udiv(rows, part)) as down,
    ):
        left, top = builder.mul(across.index, part), builder.mul(down.index, part)
        begin = builder.add(left, builder.mul(apart, top))
        starts = [builder.bitcast(s, row.as_pointer()) for s in _starts(builder, row.count, tile, begin, apart)]
        lines = [builder.load(start, align=row.count * size) for start in starts]
        begin = builder.add(first, builder.add(builder.mul(pitch, left), top))
        targets = _starts(builder, row.count, elements, begin, pitch)
        for column, target in zip(columns_of_square(builder, lines), targets):
            builder.store(column, builder.bitcast(target, row.as_pointer()), align=size)
    return context.get_dummy_value()


def _tile_layout(
    context: Any, builder: ir.IRBuilder, elements: ir.Value, columns: ir.Value
) -> tuple[ir.Value, ir.Value, ir.VectorType]:
    """Of a packed tile: how many elements registers turn at once, how far rows lie apart, what holds part of one."""
    size = context.get_abi_sizeof(elements.type.pointee)
    part = _rows_in_registers(machine_model.TRANSPOSED_TILES[-1][-1], size)
    apart = builder.add(columns, columns.type(machine_model.CACHE_LINE // size))
    return columns.type(part), apart, ir.VectorType(ir.IntType(8 * size), part)


def _are_whole_lines(builder: ir.IRBuilder, place: ir.Value, pitch: ir.Value, size: int) -> ir.Value:
    """Whether rows of this pitch begin where cache lines do, if the first one begins at the place."""
    address = builder.ptrtoint(place, pitch.type)
    behind = builder.or_(address, builder.mul(pitch, pitch.type(size)))
    return builder.icmp_unsigned("==", builder.and_(behind, pitch.type(machine_model.CACHE_LINE - 1)), pitch.type(0))


def _starts(builder: ir.IRBuilder, side: int, elements: ir.Value, first: ir.Value, pitch: ir.Value) -> list[ir.Value]:
    """Where each row of a square begins."""
    return [builder.gep(elements, [builder.add(first, builder.mul(pitch, pitch.type(k)))]) for k in range(side)]


def _ask_for(builder: ir.IRBuilder, place: ir.Value, *, for_writing: bool) -> None:
    """Let the processor fetch the cache line of a place, to read it or to write to it."""
    byte, module = ir.IntType(8).as_pointer(), builder.module
    name = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [byte, _WORD, _WORD, _WORD])
    fetch = module.globals.get(name) or ir.Function(module, kind, name)
    close, of_data = _WORD(3), _WORD(1)
    builder.call(fetch, [builder.bitcast(place, byte), _WORD(int(for_writing)), close, of_data])


for _side, _function in SIDES.items():
    _register(_function, _side)
for _side, _function in BANDS.items():
    _register_band(_function, _side)
for _side, _function in STREAMS.items():
    _register_stream(_function, _side)
_register_tiles()
