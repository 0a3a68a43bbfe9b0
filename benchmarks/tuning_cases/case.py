"""A program in which tuned numbers decide, and what is timed of it.

Knows nothing of functad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# What is timed: a call of a jitted function, or of one that is not; compiling it; a call in a process of its own,
# of what reads the number only once.
JITTED, UNJITTED, COMPILED, APART = "jitted", "not jitted", "compiling", "apart"

# What to try where half and twice are nothing.
OTHER_VALUES: dict[str, tuple[Any, ...]] = {
    "SQUARE_SIDES": ((8,), (16,)),
    "TRANSPOSED_TILES": ((), ((64, 64), (32, 32)), ((32, 32),)),
    "SQUARES_TOGETHER": ((4, 2), (16, 8, 4, 2)),
    "ROWS_READ_ALONE": ((1024, 1536),),
}


class Case(NamedTuple):
    """A program.

    Attributes:
        numbers: that decide in it, with spaces.
        title: what it is called in the table.
        function: of arrays.
        arguments: their dtypes and shapes, such as `f32[10,3] i32[7]<10`: normal numbers, and integers below a limit.
        way: what is timed.
        in_code: whether the number decides what LLVM makes of the same kernels.
        environment: variables of a process of its own.
    """

    numbers: str
    title: str
    function: Callable[..., Any]
    arguments: str
    way: str = JITTED
    in_code: bool = False
    environment: str = ""
