"""The intrinsic that asks whether a kernel shall stop, for Numba: a call through the cancellation token.

This file must not know what makes a call stop. Importing it registers it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature

from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.scalars.interrupts import interrupted
from functad.backends.cpu.scalars.registry_numba import declare_function, implement

_WORD = ir.IntType(64)
_SIGNATURE = signature(types.boolean, types.CPointer(types.int64))

declare_function(interrupted, lambda arguments: _SIGNATURE if len(arguments) == 1 else None)


@implement(interrupted, types.CPointer(types.int64))
def _call(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
    (token,) = values
    entry = builder.load(builder.gep(token, [ir.Constant(_WORD, w.CANCELLATION_POLL)]))
    poll = builder.inttoptr(entry, ir.FunctionType(_WORD, [_WORD]).as_pointer())
    answer = builder.call(poll, [builder.ptrtoint(token, _WORD)])
    return builder.icmp_unsigned("!=", answer, ir.Constant(_WORD, 0))
