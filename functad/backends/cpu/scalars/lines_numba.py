"""The words of `lines` for Numba: stores that no cache keeps, and a fence. Importing it registers them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad import machine_model
from functad.backends.cpu.compile.processor import is_x86
from functad.backends.cpu.scalars.lines import line_start, store_fence, stream, write_line
from functad.backends.cpu.scalars.registry_numba import declare_function, implement

_WORD = ir.IntType(64)
_LINE = ir.VectorType(_WORD, machine_model.CACHE_LINE // 8)


def _copy_signature(arguments: tuple[types.Type, ...]) -> Any:
    if len(arguments) != 4:
        return None
    return signature(types.int64, arguments[0], types.int64, arguments[2], types.int64)


def _start_signature(arguments: tuple[types.Type, ...]) -> Any:
    return signature(types.int64, arguments[0], *3 * [types.int64]) if len(arguments) == 4 else None


def _stream_signature(arguments: tuple[types.Type, ...]) -> Any:
    return signature(types.none, *arguments[:2], types.int64, types.int64) if len(arguments) == 4 else None


declare_function(write_line, _copy_signature)
declare_function(line_start, _start_signature)
declare_function(stream, _stream_signature)
declare_function(store_fence, lambda arguments: None if arguments else signature(types.none))


@implement(write_line, types.Any, types.Integer, types.Any, types.Integer)
def _write(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    """Only a line that begins where one does goes past the caches."""
    target, to, source, at = values
    place, line = builder.gep(target, [to]), builder.gep(source, [at])
    with builder.if_else(_is_start(builder, place)) as (aligned, other):
        with aligned:
            _copy_line(builder, place, line, is_whole=True)
        with other:
            _copy_line(builder, place, line, is_whole=False)
    return _WORD(0)


@implement(stream, types.Any, types.Any, types.Integer, types.Integer)
def _stream(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    room, target, to, count = values
    of_line = machine_model.CACHE_LINE // context.get_abi_sizeof(target.type.pointee)
    start = builder.gep(target, [to])
    with builder.if_else(_is_start(builder, start)) as (aligned, other):
        for way, is_whole in ((aligned, True), (other, False)):
            with way, cgutils.for_range(builder, builder.udiv(count, _WORD(of_line))) as line:
                at = builder.mul(line.index, _WORD(of_line))
                _copy_line(builder, builder.gep(start, [at]), builder.gep(room, [at]), is_whole)
    return context.get_dummy_value()


def _is_start(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Whether a cache line begins at a place."""
    beside = builder.and_(builder.ptrtoint(place, _WORD), _WORD(machine_model.CACHE_LINE - 1))
    return builder.icmp_unsigned("==", beside, _WORD(0))


def _copy_line(builder: ir.IRBuilder, place: ir.Value, source: ir.Value, is_whole: bool) -> None:
    """Copy as much as a cache line holds, past the caches if it is one."""
    line = builder.load(builder.bitcast(source, _LINE.as_pointer()), align=1)
    store = builder.store(line, builder.bitcast(place, _LINE.as_pointer()), align=1)
    if is_whole:
        store.align = machine_model.CACHE_LINE
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


@implement(line_start, types.Any, types.Integer, types.Integer, types.Integer)
def _start(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    source, at, place, last = values
    size = context.get_abi_sizeof(source.type.pointee)
    address = builder.ptrtoint(builder.gep(source, [at]), _WORD)
    behind = builder.and_(builder.udiv(address, _WORD(size)), _WORD(machine_model.CACHE_LINE // size - 1))
    start = builder.sub(place, behind)
    for bound, beyond in ((_WORD(0), "<"), (last, ">")):
        start = builder.select(builder.icmp_signed(beyond, start, bound), bound, start)
    return start


@implement(store_fence)
def _wait(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    """All processors but x86 order what is written past the caches with a plain fence."""
    if is_x86():
        name, module = "llvm.x86.sse.sfence", builder.module
        fence = module.globals.get(name) or ir.Function(module, ir.FunctionType(ir.VoidType(), []), name)
        builder.call(fence, [])
    else:
        builder.fence("seq_cst")
    return context.get_dummy_value()
