"""Operations on integers for Numba: `min` and `max`, for which it else compiles Python functions, `//` and `%`.

Importing it registers them.
"""

from __future__ import annotations

import builtins
import operator
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature
from numba.cpython import numbers

from functad.backends.cpu.scalars.registry_numba import declare_function, implement


def _register(intrinsic: Any, wins: str) -> None:
    def signature_of(arguments: Any) -> Any:
        if not all(types.unliteral(a) in types.signed_domain for a in arguments):
            return None
        return signature(types.int64, *(types.int64 for _ in arguments))

    declare_function(intrinsic, signature_of)

    @implement(intrinsic, types.int64, types.VarArg(types.int64))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Any) -> ir.Value:
        return reduce(lambda x, y: builder.select(builder.icmp_signed(wins, x, y), x, y), values)


_register(builtins.min, "<")
_register(builtins.max, ">")


@implement(operator.floordiv, types.int64, types.int64)
def _quotient(context: Any, builder: ir.IRBuilder, call: Any, values: Any) -> ir.Value:
    if not _is_positive(values[1]):
        return numbers.int_floordiv_impl(context, builder, call, values)
    below = builder.ashr(builder.srem(*values), ir.Constant(values[0].type, 63))
    return builder.add(builder.sdiv(*values), below)


@implement(operator.mod, types.int64, types.int64)
def _remainder(context: Any, builder: ir.IRBuilder, call: Any, values: Any) -> ir.Value:
    if not _is_positive(values[1]):
        return numbers.int_rem_impl(context, builder, call, values)
    remainder = builder.srem(*values)
    below = builder.ashr(remainder, ir.Constant(values[0].type, 63))
    return builder.add(remainder, builder.and_(below, values[1]))


def mark_positive(argument: ir.Argument) -> None:
    """Let a function take an integer that it is given for positive, where it divides by it."""
    argument.is_positive = True


def _is_positive(divisor: ir.Value) -> bool:
    # Numba asks whether it is 0, or has another sign: four blocks, of which nothing is left where it is known.
    if isinstance(divisor, ir.Constant):
        return bool(divisor.constant > 0)
    return getattr(divisor, "is_positive", False)
