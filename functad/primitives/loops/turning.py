"""Text that copies a matrix with rows and columns exchanged: in squares that registers turn around.

Knows what kernels call such squares (`transposed_8`), and the widths that they may have.
"""

from __future__ import annotations

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText, total
from functad.records import Record


class PitchedMatrix(Record):
    """A matrix in the memory behind a pointer: the text of where it begins, and how far its rows are apart."""

    pointer: str
    first: str
    pitch: int


def copy_turned(
    text: KernelText,
    source: PitchedMatrix,
    target: PitchedMatrix,
    rows: int,
    columns: int,
    dtype: np.dtype,
    value: str = "{0}",
) -> None:
    """Write the loops of `target[j, i] = source[i, j]`, for a source of so many rows and columns.

    dtype: of the source. value: the text of what becomes of an element, {0}.
    """
    side = square_side(rows, columns, dtype)
    if not side:
        with text.loop("j", columns), text.loop("i", rows):
            element = f"{source.pointer}[{total(source.first, ('i', source.pitch), 'j')}]"
            text.line(f"{target.pointer}[{total(target.first, ('j', target.pitch), 'i')}] = {value.format(element)}")
        return
    square = f"square_of_{source.pointer}"
    with text.loop("down", -(-rows // side)), text.loop("along", -(-columns // side)):
        # The last squares overlap those before: they write the same once more.
        text.line(f"square_top = {_start('down', side, rows)}", f"square_left = {_start('along', side, columns)}")
        corner = total(source.first, ("square_top", source.pitch), "square_left")
        text.line(f"{square} = transposed_{side}({source.pointer}, {corner}, {source.pitch})")
        with text.loop("j", side):
            text.line(f"square_to = {total(target.first, ('square_left + j', target.pitch), 'square_top')}")
            with text.loop("i", side):
                element = f"{square}[{side} * j + i]"
                text.line(f"{target.pointer}[square_to + i] = {value.format(element)}")


def square_side(rows: int, columns: int, dtype: np.dtype) -> int:
    """The side of the squares in which a matrix is copied, 0 where it is element by element."""
    if kind_of(dtype) not in "iuf" or not 4 <= dtype.itemsize <= machine_model.WIDEST_IN_SQUARES:
        return 0
    sides = (n for n in machine_model.SQUARE_SIDES if n * dtype.itemsize <= machine_model.VECTOR_BYTES)
    return next((n for n in sides if n <= min(rows, columns)), 0)


def _start(step: str, side: int, size: int) -> str:
    start = f"{side} * {step}"
    return start if size % side == 0 else f"minimum({start}, {size - side})"
