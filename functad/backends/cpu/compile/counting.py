"""`for i in range(start, stop)` for Numba in the few instructions that it takes: how often is left, and the number.

Numba's own ranges divide by the step to find how often they run, and raise where it is 0: a tenth of the time of a
kernel in LLVM and before. Must not know what a kernel computes. Other ranges (with a step, of other types) are Numba's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import RefType, iternext_impl
from numba.core.typing.templates import AbstractTemplate, signature

from functad.backends.cpu.scalars.registry_numba import implement


class CountingIterator(types.SimpleIteratorType):
    """Where the next number lies, and where how many are left: so LLVM sees that `range(i, i + 8)` are 8."""

    def __init__(self) -> None:
        super().__init__("CountingIterator", types.int64)


class Counting(types.SimpleIterableType):
    """The int64 numbers from `start` up to `stop`, which lie less than 2⁶³ apart."""

    def __init__(self) -> None:
        super().__init__("Counting", CountingIterator())


COUNTING = Counting()
_POINTER = types.CPointer(types.int64)


class CountingFunction(types.Function):
    """The type of `range`: one or two int64 arguments make a Counting, others what Numba makes of them."""

    def __init__(self, numbas: types.Function) -> None:
        super().__init__(_CountUp)
        self._numbas = numbas

    def get_call_type(self, context: Any, arguments: Any, keywords: Any) -> Any:
        if not keywords and len(arguments) in (1, 2) and all(types.unliteral(a) == types.int64 for a in arguments):
            return signature(COUNTING, *[types.int64] * len(arguments))
        return self._numbas.get_call_type(context, arguments, keywords)

    def get_impl_key(self, sig: Any) -> Any:
        return _CountUp.key if sig.return_type == COUNTING else self._numbas.get_impl_key(sig)


class _CountUp(AbstractTemplate):
    key = "functad.range"


@register_default(Counting)
class _CountingModel(models.StructModel):
    def __init__(self, manager: Any, counting: Counting) -> None:
        super().__init__(manager, counting, [("start", types.int64), ("stop", types.int64)])


@register_default(CountingIterator)
class _IteratorModel(models.StructModel):
    def __init__(self, manager: Any, iterator: CountingIterator) -> None:
        super().__init__(manager, iterator, [("at", _POINTER), ("left", _POINTER)])


@implement(_CountUp.key, types.int64)
@implement(_CountUp.key, types.int64, types.int64)
def _range(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    counting = cgutils.create_struct_proxy(COUNTING)(context, builder)
    counting.start = arguments[0] if len(arguments) == 2 else context.get_constant(types.int64, 0)
    counting.stop = arguments[-1]
    return counting._getvalue()


@implement("getiter", Counting)
def _begin(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    counting = cgutils.create_struct_proxy(COUNTING)(context, builder, arguments[0])
    iterator = cgutils.create_struct_proxy(COUNTING.iterator_type)(context, builder)
    iterator.at, iterator.left = (cgutils.alloca_once(builder, counting.start.type) for _ in range(2))
    builder.store(counting.start, iterator.at)
    builder.store(builder.sub(counting.stop, counting.start), iterator.left)
    return iterator._getvalue()


@implement("iternext", CountingIterator)
@iternext_impl(RefType.UNTRACKED)
def _next(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any, result: Any) -> None:
    iterator = cgutils.create_struct_proxy(COUNTING.iterator_type)(context, builder, arguments[0])
    number, left = builder.load(iterator.at), builder.load(iterator.left)
    one = ir.Constant(number.type, 1)
    is_valid = builder.icmp_signed(">", left, ir.Constant(left.type, 0))
    result.set_valid(is_valid)
    result.yield_(number)
    with builder.if_then(is_valid):
        builder.store(builder.sub(left, one, flags=["nsw"]), iterator.left)
        builder.store(builder.add(number, one), iterator.at)
