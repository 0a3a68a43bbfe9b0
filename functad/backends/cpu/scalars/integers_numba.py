"""Python's `min` and `max` of integers for Numba, which else compiles Python functions for them.

Importing it registers them.
"""

from __future__ import annotations

import builtins
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, signature

from functad.backends.cpu.scalars.registry_numba import declare, implement


def _register(intrinsic: Any, wins: str) -> None:
    class Template(AbstractTemplate):
        key = intrinsic

        def generic(self, arguments: Any, keywords: Any) -> Any:
            if keywords or not all(types.unliteral(a) in types.signed_domain for a in arguments):
                return None
            return signature(types.int64, *(types.int64 for _ in arguments))

    declare(intrinsic, types.Function(Template))

    @implement(intrinsic, types.int64, types.VarArg(types.int64))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Any) -> ir.Value:
        return reduce(lambda x, y: builder.select(builder.icmp_signed(wins, x, y), x, y), values)


_register(builtins.min, "<")
_register(builtins.max, ">")
