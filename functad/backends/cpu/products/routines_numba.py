"""The intrinsics of kernel text for routines of LAPACK for Numba: calls through handles. Importing it registers them.

Knows how Fortran takes arguments: all by their addresses. This file must not know what the routines compute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad.backends.cpu.products import routines
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.system.lapack import LETTERS

_WORD = ir.IntType(64)


def _signature(arguments: tuple[types.Type, ...]) -> Any:
    wanted = [types.int64 if isinstance(types.unliteral(a), types.Integer) else types.unliteral(a) for a in arguments]
    return signature(types.int64, *wanted)


def _register(intrinsic: Callable[..., int]) -> None:
    declare_function(intrinsic, _signature)

    @implement(intrinsic, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        routine, places = values[0], []
        given = iter(zip(sig.args[1:], values[1:]))
        for kind, value in given:
            if isinstance(kind, types.CPointer):
                places.append(builder.gep(value, [next(given)[1]]))
                continue
            # Integers of 32 bits are read from the same place: the low half of a word comes first.
            place = cgutils.alloca_once(builder, context.get_data_type(kind))
            builder.store(context.get_value_as_data(builder, kind, value), place)
            places.append(place)
        status = cgutils.alloca_once_value(builder, ir.Constant(_WORD, 0))
        builder.store(ir.Constant(_WORD, 0), status)
        if intrinsic.has_info:  # type: ignore[attr-defined]
            places.append(status)
        _call(builder, routine, places)
        return builder.load(status)


def _call(builder: ir.IRBuilder, routine: ir.Value, places: list[ir.Value]) -> None:
    """Call the routine whose address the word at `routine` is. The lengths of letters come last, all of them 1."""
    words = [builder.ptrtoint(place, _WORD) for place in places] + [ir.Constant(_WORD, 1)] * LETTERS
    kind = ir.FunctionType(ir.VoidType(), [_WORD] * len(words))
    builder.call(builder.inttoptr(builder.load(routine), kind.as_pointer()), words)


for word in routines.WORDS:
    _register(word)
