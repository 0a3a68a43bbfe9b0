"""The word of `sorts` for Numba: a call of NumPy's function through a handle. Importing it registers it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature

from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.sorts import sort_numbers

_WORD = ir.IntType(64)


def _signature(arguments: tuple[types.Type, ...]) -> Any:
    return signature(types.int64, *arguments[:2], types.int64, types.int64) if len(arguments) == 4 else None


declare_function(sort_numbers, _signature)


@implement(sort_numbers, types.Any, types.Any, types.Integer, types.Integer)
def _sort(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    handle, elements, first, count = values
    words = [builder.ptrtoint(builder.gep(elements, [first]), _WORD), count, _WORD(0)]
    kind = ir.FunctionType(ir.IntType(32), [_WORD] * 3)
    status = builder.call(builder.inttoptr(builder.load(handle), kind.as_pointer()), words)
    return builder.sext(status, _WORD)
