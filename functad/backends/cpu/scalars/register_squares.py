"""A square of numbers whose rows are vectors, with rows and columns exchanged in registers, as LLVM IR.

This file must not know where the rows come from. It never imports Numba.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir


def columns_of_square(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of 2ⁿ rows.

    Of d = 1, 2, 4, … the blocks of d × d elements beside the diagonal of each block of 2d × 2d are exchanged.
    """
    found, side, distance = [*rows], len(rows), 1
    while distance < side:
        lower = [c if not c & distance else side + c - distance for c in range(side)]
        upper = [c + distance if not c & distance else side + c for c in range(side)]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), side), places) for places in (lower, upper)]
        for i in range(side):
            if not i & distance:
                pair = found[i], found[i + distance]
                found[i], found[i + distance] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        distance *= 2
    return found
