"""Where 64-bit floats come from that meet narrower ones in a traced function, which they widen.

Knows how traces record; told by promotion.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Primitive, Source
from functad.records import NamedTuple
from functad.tracing import Op, Tracer
from functad.user_source import user_source


class Meeting(NamedTuple):
    """A 64-bit operand that came from outside of the traced function met a narrower one, which it widens."""

    wide: str
    wide_dtype: np.dtype
    narrow_dtype: np.dtype
    source: Source | None


class _WatchedMeetings(threading.local):
    meetings: list[Meeting] | None = None  # while a jitted function is traced


_state = _WatchedMeetings()
_WIDE = (dtypes.float64, dtypes.complex128)


@contextmanager
def watching_meetings() -> Iterator[list[Meeting]]:
    """Entered while a function is traced: the first place where 64-bit floats from outside meet narrower ones."""
    outer, _state.meetings = _state.meetings, []
    try:
        yield _state.meetings
    finally:
        _state.meetings = outer


def note_meeting(operands: Sequence[Any]) -> None:
    """Told by promotion that operands of several dtypes become 64-bit floats."""
    if _state.meetings != []:
        return  # nobody watches, or has seen one
    strong = [x for x in operands if isinstance(x, Array) and not x.weak_type and kind_of(x.dtype) in "fc"]
    narrow = next((x.dtype for x in strong if x.dtype not in _WIDE), None)
    origins = (origin_of_64_bits(x) for x in strong if x.dtype in _WIDE)
    wide = next((origin for origin in origins if origin), None)
    if narrow is not None and wide is not None:
        dtype = next(x.dtype for x in strong if x.dtype in _WIDE)
        _state.meetings.append(Meeting(wide, dtype, narrow, user_source()))


def origin_of_64_bits(x: Any) -> str:
    """The argument or the constant array that gave a value its 64 bits; empty if the function itself asked for them."""
    seen: set[int] = set()
    makers: dict[int, dict[int, Op]] = {}
    pending = [x]
    while pending:
        x = pending.pop()
        while isinstance(x, Tracer) and isinstance(x.value, Array):
            x = x.value
        if id(x) in seen or getattr(x, "dtype", None) not in _WIDE:
            continue
        seen.add(id(x))
        if not isinstance(x, Tracer):
            if isinstance(x, (Array, np.ndarray)):  # a NumPy scalar is an operation's own constant
                return f"an array of type {aval_of(x).str_short()} that is not an argument"
        elif not isinstance(x.origin, Primitive):
            name = x.origin if isinstance(x.origin, str) else x.origin()
            return f"argument `{name}` of {x.owner.name}"
        else:
            ops = makers.setdefault(id(x.owner), {})
            if not ops:
                ops.update((id(out), op) for op in x.owner.ops for out in op.outs)
            if id(x) in ops:
                pending += ops[id(x)].args
    return ""
