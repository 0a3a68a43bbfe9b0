"""Where the user is: the line that an operation comes from, and the named parts of his function around it.

Knows frames of Python, no trace.

Shapes:
    No arrays are taken or given.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from functad.ir import Source

_LIBRARIES = (__name__.partition(".")[0], "numpy", "scipy", "contextlib")


class _Libraries(dict[str | None, bool]):
    """By the name of a module, whether its frames are none of the user's."""

    def __missing__(self, module: str | None) -> bool:
        found = self[module] = (module or "").partition(".")[0] in _LIBRARIES
        return found


_is_library = _Libraries()
_known = _is_library.get  # in a quarter of the time of a subscript
_excluded: set[str] = set()


def register_exclusion(path: str) -> None:
    """Take the lines of a file for none of the user's: operations in it count as those of the line that called.

    path: the file's name, as its `__file__` has it.

    >>> register_exclusion("a_library_of_mine.py")
    """
    _excluded.add(path)


class _CurrentSource(threading.local):
    scopes: tuple[str, ...] = ()
    source: Source | None = None  # while a transform works on an equation: where that came from


state = _CurrentSource()


def set_source(source: Source | None) -> None:
    state.source = source


def user_source(callers: int = 1) -> Source | None:
    """The innermost frame outside of functad, NumPy and SciPy, or that of the equation being transformed.

    callers: from which caller on to look; those before are known to be functad's.
    """
    source = state.source
    if source is not None:
        return source
    frame: FrameType | None = sys._getframe(callers)
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if not (_known(module) or _is_library[module]) and frame.f_code.co_filename not in _excluded:
            return Source(frame.f_code, frame.f_lasti, state.scopes)
        frame = frame.f_back
    return None


class transforming:
    """Entered while rules run over recorded operations, with no user code in between.

    What the rules record bears the line of the operation they work on, which `set_source` tells.
    """

    __slots__ = ("source",)

    def __enter__(self) -> None:
        self.source = state.source

    def __exit__(self, *exc: object) -> None:
        state.source = self.source


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Name a part of a function: the equations recorded inside carry the name with their source line.

    >>> import functad
    >>> def f(x):
    ...     with functad.named_scope("square"):
    ...         return x * x
    >>> functad.make_jaxpr(f)(2.).eqns[0].source.scopes
    ('square',)
    """
    outer = state.scopes
    state.scopes = (*outer, name)
    try:
        yield
    finally:
        state.scopes = outer
