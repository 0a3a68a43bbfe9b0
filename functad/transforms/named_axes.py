"""The axes that `vmap` has given a name, while the function of one example is traced.

Knows names, sizes, and the position of the example along each; the operations on them are in `primitives.collectives`.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from functad.errors import UnboundAxisError
from functad.records import NamedTuple


class NamedAxis(NamedTuple):
    """position: of the example, an int32 scalar that is traced."""

    name: Hashable
    size: int
    position: Any


class _AxesInScope(threading.local):
    axes: tuple[NamedAxis, ...] = ()


_state = _AxesInScope()


@contextmanager
def naming(name: Hashable, size: int, position: Any) -> Iterator[None]:
    """Entered while a function mapped under this name is traced."""
    outer = _state.axes
    _state.axes = (*outer, NamedAxis(name, size, position))
    try:
        yield
    finally:
        _state.axes = outer


def axis_named(name: Hashable) -> NamedAxis:
    """The innermost axis of this name."""
    axes: tuple[NamedAxis, ...] = _state.axes
    for axis in axes[::-1]:
        if axis.name == name:
            return axis
    known = ", ".join(repr(a.name) for a in axes) or "none"
    raise UnboundAxisError(
        f"unbound axis name: {name!r}. Axes that have a name here: {known}. Map the function that reduces over it by "
        f"functad.vmap(f, axis_name={name!r}), and jit around that, not outside of it"
    )
