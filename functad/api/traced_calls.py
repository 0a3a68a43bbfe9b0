"""What was traced of jitted functions: kept by function, options and signature.

Knows what a traced Program depends on; nothing of tracing, nor of running.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from functad.api.dispatch import Arguments, FastCall
from functad.config import config
from functad.exact import exact_key
from functad.ir import Aval, Program, surroundings
from functad.records import NamedTuple
from functad.system.recent import Recent
from functad.tree_util import PyTreeDef

_numbers = count()  # one for each jitted function: ids are used again


_MOST_ENTRIES = 1024  # signatures of a function


class CallKey(NamedTuple):
    """What a traced Program depends on; equal signatures share it."""

    in_tree: Hashable
    avals: tuple[Aval, ...]
    statics: tuple[tuple[int | str, Hashable], ...]
    settings: tuple[Any, ...]
    axes: tuple[tuple[Hashable, int], ...]  # that have a name around the call


class CacheEntry(NamedTuple):
    program: Program
    out_tree: PyTreeDef
    donated: tuple[bool, ...]
    calls: dict[tuple[Any, ...], tuple[Arguments, FastCall]]  # by the options that they were made under
    backends: set[str]  # for which it was compiled


class SortedCall(NamedTuple):
    """A call's arguments, sorted: the arrays as leaves, and all that the signature holds."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_args: dict[int, Any]
    dynamic_kwargs: dict[str, Any]
    leaves: list[Any]
    in_tree: PyTreeDef
    statics: Sequence[tuple[int | str, Any]]

    def signature(self, avals: Sequence[Aval]) -> CallKey:
        """What it is found by: values that are equal but of other types, as 1 and 1.0, are others."""
        statics = tuple([(where, exact_key(value)) for where, value in self.statics])
        return CallKey(self.in_tree.exact_key(), tuple(avals), statics, config.trace_settings, surroundings.axes)


class TracedCalls:
    """What was traced of a function with some options.

    entries: by signatures. fast: the short ways, each with the options that it was made under.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.warned = False  # that 64 bits creep in
        self.entries: Recent[CacheEntry] = Recent(_MOST_ENTRIES)
        self.fast: list[tuple[tuple[Any, ...], FastCall]] = []
        all_known.add(self)

    def clear(self) -> None:
        self.entries.clear()
        self.fast.clear()


all_known: WeakSet[TracedCalls] = WeakSet()

_known: WeakKeyDictionary[Any, dict[Hashable, TracedCalls]] = WeakKeyDictionary()


def traced_calls_of(fun: Callable[..., Any], options: Hashable) -> TracedCalls:
    """The same for the same function and options. Callables of other classes may be equal without being the same."""
    if type(fun) is not FunctionType:
        return TracedCalls()
    return _known.setdefault(fun, {}).setdefault(options, TracedCalls())
