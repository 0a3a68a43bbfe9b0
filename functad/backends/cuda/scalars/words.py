"""The words for several elements of a thread at a time, as kernels run without a GPU: tuples.

Knows arrays and numbers; no text. `intrinsics` and `product_intrinsics` give each word machine code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH = 4  # elements that one instruction loads or stores
TERMS = 4  # that a thread adds at a time
LONGEST_VECTOR = 16  # bytes, of which one instruction loads or stores no more


def vector_alignment(width: int, itemsize: int) -> int:
    """Of how many bytes the address of a vector must be a multiple."""
    return min(width * itemsize, LONGEST_VECTOR)


def load4(array: Any, first: int) -> tuple[Any, ...]:
    """Four elements of an array."""
    return tuple([array[first + part] for part in range(WIDTH)])


def store4(array: Any, first: int, one: object, two: object, three: object, four: object) -> None:
    """Set four elements of an array."""
    for part, value in enumerate((one, two, three, four)):
        array[first + part] = value


def copies(count: int, value: Any) -> tuple[Any, ...]:
    """So many of a value."""
    return (value,) * count


def loads(array: Any, count: int, width: int, base: int, line: int, step: int, last: int, row: int) -> tuple[Any, ...]:
    """`width` elements from each of `count` lines on, of which none is past the last one.

    Lines are `step` apart from `line` on, and begin `row` elements apart, the first one at `base`.
    """
    places = [base + min(line + k * step, last) * row for k in range(count)]
    return tuple([array[place + x] for place in places for x in range(width)])


def stores(
    shared: Any, width: int, to: int, step: int, values: tuple[Any, ...], at: int, at_step: int, end: int
) -> None:
    """Put what was loaded into lines `step` elements apart; zeros, where `at`, `at_step` a line, is past the end."""
    for k in range(len(values) // width):
        for x in range(width):
            value = values[k * width + x]
            shared[to + k * step + x] = value if at + k * at_step < end else type(value)(0)


def along(shared: Any, count: int, at: int, apart: int) -> tuple[Any, ...]:
    """Four terms each of `count` rows or columns, where terms lie side by side."""
    return tuple([shared[at + r * apart + k] for r in range(count) for k in range(TERMS)])


def across(shared: Any, count: int, at: int, apart: int, stride: int) -> tuple[Any, ...]:
    """The same, where rows or columns lie side by side, up to four of them, and the next four `apart` from them."""
    few = min(count, TERMS)
    places = [r // few * apart + r % few for r in range(count)]
    return tuple([shared[at + place + k * stride] for place in places for k in range(TERMS)])


def add_products(sums: tuple[Any, ...], a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sums of all rows and columns, with the products of their four terms."""
    found = list(sums)
    columns = len(b) // TERMS
    with np.errstate(all="ignore"):
        for k in range(TERMS):
            for n in range(len(sums)):
                found[n] = found[n] + a[n // columns * TERMS + k] * b[n % columns * TERMS + k]
    return tuple(found)


def add_product(total: Any, x: Any, y: Any) -> Any:
    """A sum with one more product, which is not rounded first."""
    with np.errstate(all="ignore"):
        return total + x * y


WORDS = {word.__name__: word for word in (copies, loads, stores, along, across, add_products, add_product)}
