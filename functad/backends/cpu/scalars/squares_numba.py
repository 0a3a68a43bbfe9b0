"""The squares of `squares` for Numba: loads of rows, exchanges between registers, stores. Importing it registers them.

Of d = 1, 2, 4, … the blocks of d × d elements beside the diagonal of each block of 2d × 2d are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad import machine_model
from functad.backends.cpu.compile.frontend import PackedPointer
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.squares import SIDES, STREAMS

_WORD = ir.IntType(32)
_POINTERS = (types.CPointer, PackedPointer)


def exchanged(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square whose rows are vectors."""
    side, distance = len(rows), 1
    while distance < side:
        lower = [c if not c & distance else side + c - distance for c in range(side)]
        upper = [c + distance if not c & distance else side + c for c in range(side)]
        masks = [ir.Constant(ir.VectorType(_WORD, side), places) for places in (lower, upper)]
        for i in range(side):
            if not i & distance:
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        distance *= 2
    return rows


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
        row = ir.VectorType(ir.IntType(8 * size), side)
        rows = []
        for start in _starts(builder, side, elements, first, pitch):
            rows.append(builder.load(builder.bitcast(start, row.as_pointer()), align=size))
        if len(values) > 3:
            result, begin, apart = values[3:]
            ahead = builder.add(begin, begin.type(side * machine_model.SQUARES_AHEAD))
            for start in _starts(builder, side, result, ahead, apart):
                _ask_for(builder, start)
        place = cgutils.alloca_once(builder, row, size=side)
        for k, column in enumerate(exchanged(builder, rows)):
            builder.store(column, builder.gep(place, [_WORD(k)]))
        return builder.bitcast(place, elements.type)

    for pointer in _POINTERS:
        implement(function, pointer, types.Integer, types.Integer)(square)
        for other in _POINTERS:
            implement(function, pointer, types.Integer, types.Integer, other, types.Integer, types.Integer)(square)


def _register_stream(function: Callable[..., Any], side: int) -> None:
    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 4 or not all(isinstance(pointer, _POINTERS) for pointer in arguments[:2]):
            return None
        return signature(types.none, *arguments[:2], types.int64, types.int64)

    declare_function(function, signature_of)

    def stream(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        room, elements, first, pitch = values
        size = context.get_abi_sizeof(elements.type.pointee)
        row = ir.VectorType(ir.IntType(8 * size), side)
        rooms = builder.bitcast(room, row.as_pointer())
        rows = [builder.load(builder.gep(rooms, [_WORD(k)]), align=size * side) for k in range(side)]
        places = [builder.bitcast(p, row.as_pointer()) for p in _starts(builder, side, elements, first, pitch)]
        with builder.if_else(_are_whole_lines(builder, places[0], pitch, size)) as (whole, parts):
            with whole:
                for value, place in zip(rows, places):
                    kept = builder.store(value, place, align=machine_model.CACHE_LINE)
                    kept.set_metadata("nontemporal", builder.module.add_metadata([_WORD(1)]))
            with parts:
                for value, place in zip(rows, places):
                    builder.store(value, place, align=size)
        return context.get_dummy_value()

    for pointer in _POINTERS:
        for other in _POINTERS:
            implement(function, pointer, other, types.Integer, types.Integer)(stream)


def _are_whole_lines(builder: ir.IRBuilder, place: ir.Value, pitch: ir.Value, size: int) -> ir.Value:
    """Whether rows of this pitch begin where cache lines do, if the first one begins at the place."""
    address = builder.ptrtoint(place, pitch.type)
    behind = builder.or_(address, builder.mul(pitch, pitch.type(size)))
    return builder.icmp_unsigned("==", builder.and_(behind, pitch.type(machine_model.CACHE_LINE - 1)), pitch.type(0))


def _starts(builder: ir.IRBuilder, side: int, elements: ir.Value, first: ir.Value, pitch: ir.Value) -> list[ir.Value]:
    """Where each row of a square begins."""
    return [builder.gep(elements, [builder.add(first, builder.mul(pitch, pitch.type(k)))]) for k in range(side)]


def _ask_for(builder: ir.IRBuilder, place: ir.Value) -> None:
    """Let the processor fetch the cache line of a place, to write to it."""
    byte, module = ir.IntType(8).as_pointer(), builder.module
    name = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [byte, _WORD, _WORD, _WORD])
    fetch = module.globals.get(name) or ir.Function(module, kind, name)
    for_writing, close, of_data = _WORD(1), _WORD(3), _WORD(1)
    builder.call(fetch, [builder.bitcast(place, byte), for_writing, close, of_data])


for _side, _function in SIDES.items():
    _register(_function, _side)
for _side, _function in STREAMS.items():
    _register_stream(_function, _side)
