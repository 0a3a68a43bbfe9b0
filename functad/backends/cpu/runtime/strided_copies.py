"""The function that kernels call for copies between arrays of any layout (`scalars.copies`), once for all of them.

Written in the language of `compile.integer_compiler`, which reads this text; nothing here runs as Python. It must not
know what is copied. All parameters are 64-bit words: integers or addresses.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model

EXPORTS = ("copy_elements",)


def copy_elements(
    item, to, source, count_0, to_0, from_0, count_1, to_1, from_1, count_2, to_2, from_2, count_3, to_3, from_3
) -> None:  # fmt: skip
    """Copy elements of `item` bytes along four axes: how many, and how many elements neighbours lie apart."""
    if count_3 > 0:
        for _i in range(count_0):
            row_to = to
            row_from = source
            for _j in range(count_1):
                if to_3 == 1 and from_3 == 1:
                    copy_rows(item * count_3, row_to, row_from, count_2, item * to_2, item * from_2)
                else:
                    copy_apart(
                        item, row_to, row_from, count_2, item * to_2, item * from_2,
                        count_3, item * to_3, item * from_3,
                    )  # fmt: skip
                row_to += item * to_1
                row_from += item * from_1
            to += item * to_0
            source += item * from_0


def copy_rows(size, to, source, rows, to_step, from_step) -> None:
    """Rows of so many bytes: short ones by vectors, of which the last two may overlap, without another call."""
    if size >= 32 and size < machine_model.LONG_ROW_OF_A_COPY:
        whole = (size - 1) // 32
        for _i in range(rows):
            place = to
            vector = source
            for _k in range(whole):
                copy(place, vector, 32)
                place += 32
                vector += 32
            copy(to + size - 32, source + size - 32, 32)
            to += to_step
            source += from_step
    else:
        for _i in range(rows):
            copy(to, source, size)
            to += to_step
            source += from_step


def copy_apart(item, to, source, rows, to_row, from_row, count, to_step, from_step) -> None:
    """Elements that lie apart, one by one."""
    for _i in range(rows):
        place = to
        element = source
        if item == 4:
            for _j in range(count):
                copy(place, element, 4)
                place += to_step
                element += from_step
        elif item == 8:
            for _j in range(count):
                copy(place, element, 8)
                place += to_step
                element += from_step
        else:
            for _j in range(count):
                copy(place, element, item)
                place += to_step
                element += from_step
        to += to_row
        source += from_row
