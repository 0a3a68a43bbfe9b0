"""What calls, loops and branches share: running a body, and small rewrites of the Programs that are their bodies.

Knows Programs; nothing of any particular loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from functad import interpreter
from functad.config import config
from functad.editing.inlining import inline_calls
from functad.editing.keys import without_keys
from functad.editing.placement import on_one_device
from functad.errors import ProgramError
from functad.ir import Aval, Program, memoised
from functad.tracing import eval_program

T = TypeVar("T")

_lock = threading.Lock()
_PARTNERS = 16  # with so many others at a time a Program remembers what it made


def body_function(program: Program) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A closed Program as a function of ndarrays, run equation by equation."""
    if config.debug_nans or config.debug_infs:  # so that the first equation to blame is found
        inlined = on_one_device(inline_calls(without_keys(program)))
        return lambda args: [np.asarray(out) for out in eval_program(inlined, args)]
    return memoised(program, ("interpreted",), lambda: interpreter.compile_program(program))


def memoised_together(programs: Sequence[Program], key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives for several Programs, kept as long as all live and the first is not used with many others."""
    first, *others = programs
    table = first.cache
    for program in others:
        with _lock:
            partners = table.setdefault("together with", WeakKeyDictionary())
            if program not in partners:
                if len(partners) >= _PARTNERS:  # one that is made anew for each call must not pile up
                    del partners[next(iter(partners))]
                partners[program] = {}
            table = partners[program]
    return memoised(first, key, make, table)


def check_operands(name: str, avals: Sequence[Aval], body: Program) -> None:
    """Raise ProgramError unless a body takes operands of these types."""
    if len(avals) != len(body.invars) or not all(a.same_type(v.aval) for a, v in zip(avals, body.invars)):
        given, taken = (", ".join(a.str_short() for a in side) for side in (avals, body.in_avals))
        raise ProgramError(f"`{name}` is given operands ({given}) for a body that takes ({taken})")


def closed(program: Program) -> Program:
    """A Program whose constants are its first inputs, the same object each time."""
    return memoised(program, ("closed",), program.close) if program.consts else program


def with_constants(program: Program, operands: Sequence[Any] = ()) -> tuple[Program, list[Any]]:
    """A closed Program, and its operands: the constants it had in front."""
    return closed(program), [*program.consts, *operands]


def group(flags: Iterable[bool], values: Iterable[T]) -> list[T]:
    """The values whose flag is set."""
    return [v for f, v in zip(flags, values) if f]


def split_at(values: Sequence[T], *sizes: int) -> list[list[T]]:
    """Consecutive parts of the given sizes, and the rest."""
    parts, start = [], 0
    for size in sizes:
        parts.append(list(values[start : start + size]))
        start += size
    return [*parts, list(values[start:])]
