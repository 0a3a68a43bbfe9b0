"""`for i in range(start, stop, step)` for Numba in the few instructions that it takes: the number, how many are left.

Numba's own ranges find out how often they run as if nothing was known of the step, and raise where it is 0: more
instructions than most loops have in them. Must not know what a kernel computes. Other ranges (backwards, with a step
from elsewhere, of other types) are Numba's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.typing.templates import AbstractTemplate, signature

from functad.backends.cpu.scalars.registry_numba import implement


class CountingIterator(types.SimpleIteratorType):
    """Where the next number lies, and where how many are left: so LLVM sees that `range(i, i + 8)` are 8."""

    def __init__(self, step: int) -> None:
        super().__init__(f"CountingIterator({step})", types.int64)
        self.step = step


class Counting(types.SimpleIterableType):
    """The int64 numbers from `start` on that are less than `stop`, by a known step; all lie less than 2⁶³ apart."""

    def __init__(self, step: int) -> None:
        super().__init__(f"Counting({step})", CountingIterator(step))


_POINTER = types.CPointer(types.int64)


class CountingFunction(types.Function):
    """The type of `range`: int64 numbers upwards make a Counting, others what Numba makes of them."""

    def __init__(self, numbas: types.Function) -> None:
        super().__init__(_CountUp)
        self._numbas = numbas

    def get_call_type(self, context: Any, arguments: Any, keywords: Any) -> Any:
        step = 1
        if len(arguments) == 3:
            step = arguments[2].literal_value if isinstance(arguments[2], types.IntegerLiteral) else 0
        if not keywords and step > 0 and all(types.unliteral(a) == types.int64 for a in arguments):
            return signature(Counting(step), *[types.int64] * len(arguments))
        return self._numbas.get_call_type(context, arguments, keywords)

    def get_impl_key(self, sig: Any) -> Any:
        return _CountUp.key if isinstance(sig.return_type, Counting) else self._numbas.get_impl_key(sig)


class _CountUp(AbstractTemplate):
    key = "functad.range"


@register_default(Counting)
class _CountingModel(models.StructModel):
    def __init__(self, manager: Any, counting: Counting) -> None:
        super().__init__(manager, counting, [("start", types.int64), ("count", types.int64)])


@register_default(CountingIterator)
class _IteratorModel(models.StructModel):
    def __init__(self, manager: Any, iterator: CountingIterator) -> None:
        super().__init__(manager, iterator, [("at", _POINTER), ("left", _POINTER)])


@implement(_CountUp.key, types.int64)
@implement(_CountUp.key, types.int64, types.int64)
@implement(_CountUp.key, types.int64, types.int64, types.int64)
def _range(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    step = sig.return_type.iterator_type.step
    if len(arguments) == 1:
        return struct(builder, ir.Constant(arguments[0].type, 0), arguments[0])
    start, stop = arguments[:2]
    count = builder.sub(stop, start)
    if step > 1:
        # Rounded up; where there is nothing to count, what comes out is not positive either way.
        count = builder.sdiv(builder.add(count, ir.Constant(count.type, step - 1)), ir.Constant(count.type, step))
    return struct(builder, start, count)


@implement("getiter", Counting)
def _begin(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    start, count = field(builder, arguments[0], 0), field(builder, arguments[0], 1)
    with builder.goto_entry_block():
        at, left = (builder.alloca(start.type) for _ in range(2))
    builder.store(start, at)
    builder.store(count, left)
    return struct(builder, at, left)


@implement("iternext", CountingIterator)
def _next(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    at, left = field(builder, arguments[0], 0), field(builder, arguments[0], 1)
    number, count = builder.load(at), builder.load(left)
    is_valid = builder.icmp_signed(">", count, ir.Constant(count.type, 0))
    with builder.if_then(is_valid):
        builder.store(builder.sub(count, ir.Constant(count.type, 1), flags=["nsw"]), left)
        builder.store(builder.add(number, ir.Constant(number.type, sig.args[0].step)), at)
    return struct(builder, number, is_valid)


def struct(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """A struct of two values, not in memory as Numba's own: a tenth of the instructions."""
    empty = ir.Constant(ir.LiteralStructType([first.type, second.type]), ir.Undefined)
    return builder.insert_value(builder.insert_value(empty, first, 0), second, 1)


def field(builder: ir.IRBuilder, value: ir.Value, place: int) -> ir.Value:
    """What lies at a place of a struct: the value that was put there, if that can be seen."""
    seen = value
    while isinstance(seen, ir.instructions.InsertValue):
        if seen.indices == [place]:
            return seen.value
        seen = seen.aggregate
    return builder.extract_value(value, place)
