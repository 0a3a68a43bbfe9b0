"""The words of `lines` for Numba: stores that no cache keeps, and a fence. Importing it registers them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature

from functad import machine_model
from functad.backends.cpu.compile.processor import is_x86
from functad.backends.cpu.scalars.lines import line_start, store_fence, write_line
from functad.backends.cpu.scalars.registry_numba import declare_function, implement

_WORD = ir.IntType(64)
_LINE = ir.VectorType(_WORD, machine_model.CACHE_LINE // 8)


def _copy_signature(arguments: tuple[types.Type, ...]) -> Any:
    if len(arguments) != 4:
        return None
    return signature(types.int64, arguments[0], types.int64, arguments[2], types.int64)


def _start_signature(arguments: tuple[types.Type, ...]) -> Any:
    return signature(types.int64, arguments[0], *3 * [types.int64]) if len(arguments) == 4 else None


declare_function(write_line, _copy_signature)
declare_function(line_start, _start_signature)
declare_function(store_fence, lambda arguments: None if arguments else signature(types.none))


@implement(write_line, types.Any, types.Integer, types.Any, types.Integer)
def _write(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    """Only a line that begins where one does goes past the caches."""
    target, to, source, at = values
    place = builder.gep(target, [to])
    line = builder.load(builder.bitcast(builder.gep(source, [at]), _LINE.as_pointer()), align=8)
    pointer = builder.bitcast(place, _LINE.as_pointer())
    beside = builder.and_(builder.ptrtoint(place, _WORD), _WORD(machine_model.CACHE_LINE - 1))
    with builder.if_else(builder.icmp_unsigned("==", beside, _WORD(0))) as (aligned, other):
        with aligned:
            store = builder.store(line, pointer, align=machine_model.CACHE_LINE)
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        with other:
            builder.store(line, pointer, align=8)
    return _WORD(0)


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
