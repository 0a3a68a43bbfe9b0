"""The blocks of `running` for Numba. Importing it registers them.

A vector meets itself shifted by 1, 2, 4, … lanes, and then what has run up before it: the chain from one vector to the
next is a single operation. Products of floats that may over- or underflow in another order are done in theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad import machine_model
from functad.backends.cpu.compile.frontend import pointer_type
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.running import ROOMS, RUNNING, room_size

_WORD = ir.IntType(32)
# If all that has run up lies between these, it would in any order of a vector's elements.
_MODERATE = {types.float32: (2.0**-60, 2.0**60), types.float64: (2.0**-500, 2.0**500)}
_Combine = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def _register_room(function: Callable[..., Any], pointer: Any) -> None:
    declare_function(function, lambda arguments: None if arguments else signature(pointer))

    @implement(function)
    def room(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        place = cgutils.alloca_once(builder, context.get_data_type(pointer.dtype), size=room_size())
        place.align = machine_model.VECTOR_BYTES
        return place


def _combination(kind: str, element: Any) -> tuple[_Combine, object]:
    """What combines two vectors, and the number that changes no other one."""
    is_float = isinstance(element, types.Float)
    if kind == "sum":
        return (ir.IRBuilder.fadd, -0.0) if is_float else (ir.IRBuilder.add, 0)
    if kind == "prod":
        return (ir.IRBuilder.fmul, 1.0) if is_float else (ir.IRBuilder.mul, 1)
    compared = ir.IRBuilder.icmp_signed if element.signed else ir.IRBuilder.icmp_unsigned
    sign = ">" if kind == "max" else "<"
    lowest = element.minval if kind == "max" else element.maxval
    return (lambda builder, a, b: builder.select(compared(builder, sign, a, b), a, b)), lowest


def _register(kind: str, function: Callable[..., Any], element: Any, pointer: Any) -> None:
    @implement(function, pointer, types.int64, pointer, types.int64, types.int64, element)
    def running(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        source, first, target, place, count, before = values
        vectors = _Vectors(context, builder, kind, element)
        size = context.get_abi_sizeof(before.type)
        lanes = count.type(vectors.lanes)
        groups = builder.sdiv(count, lanes)
        total = cgutils.alloca_once_value(builder, vectors.full_of(before))
        with cgutils.for_range(builder, groups) as group:
            step = builder.mul(group.index, lanes)
            given, to = (
                builder.bitcast(builder.gep(p, [builder.add(at, step)]), vectors.kind.as_pointer())
                for p, at in ((source, first), (target, place))
            )
            value, so_far = builder.load(given, align=size), builder.load(total)
            results = vectors.run_up(so_far, value)

            def store(found: ir.Value, last: ir.Value) -> None:
                builder.store(found, to, align=size)
                builder.store(last, total)

            if kind == "prod" and isinstance(element, types.Float):
                are_moderate = builder.and_(*map(vectors.are_moderate, (so_far, results[0])))
                with builder.if_else(are_moderate) as (then, otherwise):
                    with then:
                        store(*results)
                    with otherwise:
                        store(*vectors.one_by_one(so_far, value))
            else:
                store(*results)
        last = cgutils.alloca_once_value(builder, builder.extract_element(builder.load(total), _WORD(0)))
        with cgutils.for_range_slice(builder, builder.mul(groups, lanes), count, count.type(1)) as (rest, _):
            one = builder.load(builder.gep(source, [builder.add(first, rest)]))
            one = vectors.combine(builder, builder.load(last), one)
            builder.store(one, builder.gep(target, [builder.add(place, rest)]))
            builder.store(one, last)
        return builder.load(last)


class _Vectors:
    """What is done with vectors of elements."""

    def __init__(self, context: Any, builder: ir.IRBuilder, kind: str, element: Any) -> None:
        self.builder, self.element = builder, element
        number = context.get_data_type(element)
        self.lanes = min(16, machine_model.VECTOR_BYTES // context.get_abi_sizeof(number))
        self.kind = ir.VectorType(number, self.lanes)
        self.combine, neutral = _combination(kind, element)
        self.nothing = ir.Constant(self.kind, [neutral] * self.lanes)

    def run_up(self, so_far: ir.Value, value: ir.Value) -> tuple[ir.Value, ir.Value]:
        """What has run up to each element, and a vector full of the last one."""
        distance, builder = 1, self.builder
        while distance < self.lanes:
            places = [k - distance if k >= distance else self.lanes + k for k in range(self.lanes)]
            value = self.combine(builder, self._shuffled(value, self.nothing, places), value)
            distance *= 2
        return self.combine(builder, so_far, value), self.combine(builder, so_far, self._full_of_last(value))

    def one_by_one(self, so_far: ir.Value, value: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The same, in the order of the elements."""
        builder, found = self.builder, ir.Constant(self.kind, ir.Undefined)
        total = builder.extract_element(so_far, _WORD(0))
        for k in range(self.lanes):
            total = self.combine(builder, total, builder.extract_element(value, _WORD(k)))
            found = builder.insert_element(found, total, _WORD(k))
        return found, self._full_of_last(found)

    def are_moderate(self, value: ir.Value) -> ir.Value:
        """Whether no part of these products has over- or underflown: then none of another order has."""
        builder = self.builder
        low, high = (ir.Constant(self.kind, [limit**2] * self.lanes) for limit in _MODERATE[self.element])
        square = builder.fmul(value, value)
        fits = builder.and_(builder.fcmp_ordered(">=", square, low), builder.fcmp_ordered("<=", square, high))
        mask = ir.IntType(self.lanes)
        return builder.icmp_unsigned("==", builder.bitcast(fits, mask), mask((1 << self.lanes) - 1))

    def full_of(self, element: ir.Value) -> ir.Value:
        start = self.builder.insert_element(ir.Constant(self.kind, ir.Undefined), element, _WORD(0))
        return self._shuffled(start, start, [0] * self.lanes)

    def _full_of_last(self, value: ir.Value) -> ir.Value:
        return self._shuffled(value, value, [self.lanes - 1] * self.lanes)

    def _shuffled(self, one: ir.Value, other: ir.Value, places: list[int]) -> ir.Value:
        return self.builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_WORD, self.lanes), places))


_POINTERS: dict[np.dtype[Any], Any] = {dtype: pointer_type(dtype) for dtype in ROOMS}
for _dtype, _room in ROOMS.items():
    _register_room(_room, _POINTERS[_dtype])


def _signature_of(arguments: tuple[Any, ...]) -> Any:
    if len(arguments) != 6 or arguments[0] not in _POINTERS.values():
        return None
    pointer = arguments[0]
    return signature(pointer.dtype, pointer, types.int64, pointer, types.int64, types.int64, pointer.dtype)


for _kind, _function in RUNNING.items():
    declare_function(_function, _signature_of)
    for _pointer in _POINTERS.values():
        if _kind in ("sum", "prod") or isinstance(_pointer.dtype, types.Integer):
            _register(_kind, _function, _pointer.dtype, _pointer)
