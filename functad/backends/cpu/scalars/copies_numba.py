"""The words of `copies` for Numba: a call of the one function through its handle. Importing it registers them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad.backends.cpu.scalars.copies import clear, strided_copy
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.primitives.loops.text import AXES_OF_A_COPY

_WORD = ir.IntType(64)


def _signature(arguments: tuple[types.Type, ...]) -> Any:
    copier, to, _, source, _, *axes = arguments
    if to != source or len(axes) % 3 or len(axes) > 3 * AXES_OF_A_COPY:
        return None
    return signature(types.none, copier, to, types.int64, source, types.int64, *[types.int64] * len(axes))


declare_function(strided_copy, _signature)
declare_function(clear, lambda arguments: signature(types.none, arguments[0], types.int64, types.int64))


@implement(clear, types.Any, types.Integer, types.Integer)
def _clear(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    to, place, count = values
    size = builder.mul(count, _WORD(context.get_abi_sizeof(to.type.pointee)))
    cgutils.memset(builder, builder.gep(to, [place]), size, 0)
    return context.get_dummy_value()


@implement(strided_copy, types.VarArg(types.Any))
def _copy(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    copier, to, to_place, source, source_place, *axes = values
    places = [builder.ptrtoint(builder.gep(*pair), _WORD) for pair in ((to, [to_place]), (source, [source_place]))]
    size = _WORD(context.get_abi_sizeof(to.type.pointee))
    missing = [_WORD(1), _WORD(0), _WORD(0)] * (AXES_OF_A_COPY - len(axes) // 3)
    words = [size, *places, *missing, *axes]
    kind = ir.FunctionType(ir.VoidType(), [_WORD] * len(words))
    builder.call(builder.inttoptr(builder.load(copier), kind.as_pointer()), words)
    return context.get_dummy_value()
