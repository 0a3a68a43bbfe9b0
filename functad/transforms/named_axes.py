"""The axes that `vmap` has given a name, while the function of one example is traced, and while its rules run.

Knows names, sizes, and the position of the example along each; the operations on them are in `primitives.collectives`.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from functad.errors import UnboundAxisError
from functad.ir import surroundings
from functad.records import NamedTuple
from functad.tracing import Tracer


class NamedAxis(NamedTuple):
    """position: of the example, an int32 scalar that is traced."""

    name: Hashable
    size: int
    position: Tracer


class _AxesInScope(threading.local):
    axes: tuple[NamedAxis, ...] = ()
    batched: Hashable = None  # the name of the axis that batch rules map over now


_state = _AxesInScope()


@contextmanager
def naming(name: Hashable, size: int, position: Tracer) -> Iterator[None]:
    """Entered while a function mapped under this name is traced."""
    outer, outer_types = _state.axes, surroundings.axes
    _state.axes = (*outer, NamedAxis(name, size, position))
    surroundings.axes = (*outer_types, (name, size))
    try:
        yield
    finally:
        _state.axes, surroundings.axes = outer, outer_types


class batching:
    """Entered while batch rules map over an axis of this name: None, if it has none."""

    __slots__ = ("name", "outer")

    def __init__(self, name: Hashable) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.outer = _state.batched
        _state.batched = self.name

    def __exit__(self, *exc: object) -> None:
        _state.batched = self.outer


def batched_axis() -> Hashable:
    """The name of the axis that batch rules map over now: rules of the user's that run later see it, too."""
    return _state.batched


def axis_named(name: Hashable) -> NamedAxis:
    """The innermost axis of this name. Whoever asks knows its size: a Program traced within serves no other axis."""
    axes: tuple[NamedAxis, ...] = _state.axes
    for number in reversed(range(len(axes))):
        if axes[number].name == name:
            surroundings.asked = min(surroundings.asked, number)
            return axes[number]
    known = ", ".join(repr(a.name) for a in axes) or "none"
    raise UnboundAxisError(
        f"unbound axis name: {name!r}. Axes that have a name here: {known}. Map the function that reduces over it by "
        f"functad.vmap(f, axis_name={name!r}), and jit around that, not outside of it"
    )
