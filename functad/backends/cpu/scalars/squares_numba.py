"""The squares of `squares` for Numba: loads of rows, exchanges between registers, stores. Importing it registers them.

Of d = 1, 2, 4, … the blocks of d × d elements beside the diagonal of each block of 2d × 2d are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad.backends.cpu.compile.frontend import PackedPointer
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.squares import SIDES

_WORD = ir.IntType(32)
_POINTERS = (types.CPointer, PackedPointer)


def exchanged(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The columns of a square whose rows are vectors."""
    side, distance = len(rows), 1
    while distance < side:
        lower = [c if not c & distance else side + c - distance for c in range(side)]
        upper = [c + distance if not c & distance else side + c for c in range(side)]
        masks = [ir.Constant(ir.VectorType(_WORD, side), places) for places in (lower, upper)]
        for i in range(side):
            if not i & distance:
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        distance *= 2
    return rows


def _register(function: Callable[..., Any], side: int) -> None:
    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        if len(arguments) != 3 or not isinstance(arguments[0], _POINTERS):
            return None
        return signature(arguments[0], arguments[0], types.int64, types.int64)

    declare_function(function, signature_of)

    def square(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        elements, first, pitch = values
        size = context.get_abi_sizeof(elements.type.pointee)
        row = ir.VectorType(ir.IntType(8 * size), side)
        rows = []
        for k in range(side):
            start = builder.gep(elements, [builder.add(first, builder.mul(pitch, pitch.type(k)))])
            rows.append(builder.load(builder.bitcast(start, row.as_pointer()), align=size))
        place = cgutils.alloca_once(builder, row, size=side)
        for k, column in enumerate(exchanged(builder, rows)):
            builder.store(column, builder.gep(place, [_WORD(k)]))
        return builder.bitcast(place, elements.type)

    for pointer in _POINTERS:
        implement(function, pointer, types.Integer, types.Integer)(square)


for _side, _function in SIDES.items():
    _register(_function, _side)
