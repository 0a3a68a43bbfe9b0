"""Why a jitted function compiles again: what is new about a call, compared with the nearest earlier one.

Knows signatures as data: structures, types, static values, closures. It traces and compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from functad.ir import Aval
from functad.options import TRACE_OPTIONS
from functad.records import Record
from functad.tree_util import PyTreeDef


class Signature(Record):
    """What a compiled Program depends on, with names for people.

    leaves: the key path and the type of each array. settings: of `TRACE_OPTIONS`.
    """

    in_tree: PyTreeDef
    leaves: tuple[tuple[str, Aval], ...]
    statics: tuple[tuple[str, Any], ...]
    settings: tuple[Any, ...]
    backend: str
    closure: tuple[tuple[str, Any], ...]


class CallExplanation(Record):
    """Whether a call finds a compiled Program (`hit`), and if not, what changed; printing it tells.

    >>> import functad, numpy as np
    >>> f = functad.jit(lambda x: x * 2)
    >>> _ = f(np.ones(3, np.float32))
    >>> f.explain(np.ones(4, np.float32))
    miss: <lambda> is compiled again
      `x` has shape (4,), before it was (3,)
    """

    name: str
    hit: bool
    changes: tuple[str, ...]

    def __str__(self) -> str:
        if self.hit:
            head = f"hit: {self.name} runs as it was compiled before"
        elif self.changes:
            head = f"miss: {self.name} is compiled again"
        else:
            head = f"miss: {self.name} has not been compiled yet"
        return "\n".join([head, *(f"  {change}" for change in self.changes)])

    __repr__ = __str__


# The signatures of all jitted functions made from one piece of code, each with the number of the jitted function.
_seen: WeakKeyDictionary[Any, list[tuple[int, Signature]]] = WeakKeyDictionary()
_REMEMBERED = 64


def remember(fun: Callable[..., Any], number: int, signature: Signature) -> None:
    """Note that a function was compiled for a signature, by the jitted function of that number."""
    code = _code_of(fun)
    if code is not None:
        known = _seen.setdefault(code, [])
        known.append((number, signature))
        del known[:-_REMEMBERED]


def forget(fun: Callable[..., Any], number: int) -> None:
    """Forget all signatures of the jitted function of that number."""
    code = _code_of(fun)
    if code in _seen:
        _seen[code] = [known for known in _seen[code] if known[0] != number]


def _code_of(fun: Any) -> Any:
    """The code of a function, also behind a `partial` or in a callable object; None for what is not Python."""
    if isinstance(fun, partial):
        return _code_of(fun.func)
    if hasattr(fun, "__code__"):
        return fun.__code__
    return getattr(type(fun).__call__, "__code__", None)


def closure_of(fun: Callable[..., Any]) -> tuple[tuple[str, Any], ...]:
    """The names of a function's closure, and a short text of each value."""
    code, cells = getattr(fun, "__code__", None), getattr(fun, "__closure__", None) or ()
    if code is None:
        return ()
    found = []
    for name, cell in zip(code.co_freevars, cells):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            value = "unassigned"
        text = repr(value) if isinstance(value, (int, float, complex, str, bool, type(None))) else ""
        found.append((name, text or f"a {type(value).__name__} at {id(value):#x}"))
    return tuple(found)


def explain_miss(name: str, fun: Callable[..., Any], number: int, signature: Signature, hit: bool) -> CallExplanation:
    """Compare a call's signature with the nearest one for which this code was compiled."""
    earlier = _seen.get(_code_of(fun), []) if _code_of(fun) is not None else []
    if hit:
        own = [old for n, old in earlier if n == number and _differences(signature, old, False) == []]
        stale = _value_changes("closure variable", signature.closure, own[-1].closure) if own else []
        return CallExplanation(name, True, tuple(f"{change}; the old value stays in use" for change in stale))
    options = [_differences(signature, old, n != number) for n, old in earlier]
    nearest: list[str] = min(options, key=len, default=[])
    return CallExplanation(name, False, tuple(nearest))


def _differences(new: Signature, old: Signature, other_function: bool) -> list[str]:
    changes: list[str] = []
    if new.in_tree != old.in_tree:
        before, now = dict(old.leaves), dict(new.leaves)
        changes += [f"`{path}` is new" for path in now if path not in before]
        changes += [f"`{path}` is gone" for path in before if path not in now]
        if not changes:
            changes.append(f"the arguments have the structure {new.in_tree}, before it was {old.in_tree}")
    before = dict(old.leaves)
    for path, aval in new.leaves:
        if path in before:
            changes += _type_changes(path, aval, before[path])
    changes += _value_changes("static argument", new.statics, old.statics)
    for option, value, previous in zip(TRACE_OPTIONS, new.settings, old.settings):
        if value != previous:
            changes.append(f"{option} is {value}, before it was {previous}")
    if new.backend != old.backend:
        changes.append(f"the backend is {new.backend!r}, before it was {old.backend!r}")
    if other_function:
        changes += _value_changes("closure variable", new.closure, old.closure)
        changes.append("the function is a new object: apply `jit` once, outside of the loop that calls it")
    return changes


def _type_changes(path: str, new: Aval, old: Aval) -> list[str]:
    changes = []
    if new.shape != old.shape:
        changes.append(f"`{path}` has shape {new.shape}, before it was {old.shape}")
    if new.dtype != old.dtype:
        changes.append(f"`{path}` has dtype {new.dtype}, before it was {old.dtype}")
    if new.weak_type != old.weak_type:
        kinds = {True: "a Python number (weakly typed)", False: "an array"}
        changes.append(f"`{path}` is {kinds[new.weak_type]}, before it was {kinds[old.weak_type]}")
    return changes


def _value_changes(what: str, new: Sequence[tuple[str, Any]], old: Sequence[tuple[str, Any]]) -> list[str]:
    before = dict(old)
    changes = [
        f"{what} `{name}` is {value}, before it was {before[name]}"
        for name, value in new
        if name in before and before[name] != value
    ]
    return changes + [f"{what} `{name}` is new" for name, _ in new if name not in before]
