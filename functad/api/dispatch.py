"""The short way from a jitted function's arguments to its kernels, once it has run with arguments of these types.

Knows pytrees of built-in containers, arrays and executables; tracing is left to `compilation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from functad.api.arguments import as_value
from functad.array import ArrayImpl, consume, wrap
from functad.config import config
from functad.ir import Aval
from functad.tracing import current_trace
from functad.tree_util import PyTreeDef, tree_unflatten

MISS: Any = object()  # the call is not of the known types
_OPTIONS = ("disable_jit", "debug_nans", "debug_infs", "default_backend", "enable_x64")

# References to an array that nobody else has: its Array, the list of a call's values, a local name, getrefcount.
_SOLE_OWNER = 4


Reader = Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]


class FastCall:
    """Calls an executable for arguments of one structure and types; gives `MISS` for all others."""

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        statics: Sequence[tuple[int | str, Any]],
        avals: Sequence[Aval],
        out_tree: PyTreeDef,
        out_avals: Sequence[Aval],
        constants: Sequence[np.ndarray],
        executable: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
        donated: Sequence[tuple[int, str]],
        read: Reader,
    ) -> None:
        self._read = make_reader(args, kwargs, dict(statics)) or read
        self._build = make_builder(out_tree)
        self._avals = list(avals)
        self._out_avals = list(out_avals)
        self._constants = list(constants)
        self._executable = executable
        self._donated = list(donated)
        self._options = tuple(getattr(config, name) for name in _OPTIONS)

    def applies(self) -> bool:
        """Whether options are as they were, and nothing is being traced."""
        return current_trace() is None and self._options == (
            config.disable_jit,
            config.debug_nans,
            config.debug_infs,
            config.default_backend,
            config.enable_x64,
        )

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = self._read(args, kwargs)
        if leaves is None:
            return MISS
        values = self._constants.copy()
        for leaf, aval in zip(leaves, self._avals):
            kind = type(leaf)
            if kind is ArrayImpl:
                if leaf._aval is not aval:
                    if leaf.aval != aval:
                        return MISS
                    leaf._aval = aval
                values.append(leaf._value)
            elif kind is np.ndarray:
                if leaf.shape != aval.shape or leaf.dtype != aval.dtype or aval.weak_type:
                    return MISS
                values.append(leaf)
            elif kind is float and aval.weak_type and aval.dtype.kind == "f" and not aval.shape:
                values.append(np.array(leaf, aval.dtype))
            else:
                value = as_value(leaf, _an_argument, copy=False)
                if value.aval != aval or type(value) is not ArrayImpl:
                    return MISS
                values.append(value._value)
        value = None
        for i, _ in self._donated:
            value = values[i + len(self._constants)]
            if getrefcount(value) != _SOLE_OWNER or value.base is not None or type(leaves[i]) is not ArrayImpl:
                values[i + len(self._constants)] = value.copy()
        value = None
        results = self._executable(values)
        for i, name in self._donated:
            if type(leaves[i]) is ArrayImpl:
                consume(leaves[i], name)
        return self._build([wrap(r, a) for r, a in zip(results, self._out_avals)])


def make_reader(
    args: tuple[Any, ...], kwargs: dict[str, Any], statics: dict[int | str, Any]
) -> Reader | None:
    """A function that gives the leaves of arguments of the same structure, and None for any other.

    None if the structure has nodes that only `tree_flatten` knows.

    It is written out as Python source for this very structure, so that it costs a fraction of a flattening.

    >>> read = make_reader(({"b": 1, "a": (2, None)},), {}, {})
    >>> read(({"a": (5, None), "b": 6},), {}), read((7,), {})
    ([5, 6], None)
    """
    lines: list[str] = []
    leaves: list[str] = []
    constants: dict[str, Any] = {}
    count = 0

    def fresh() -> str:
        nonlocal count
        count += 1
        return f"x{count}"

    def constant(value: Any) -> str:
        name = f"c{len(constants)}"
        constants[name] = value
        return name

    def read(name: str, value: Any) -> None:
        kind = type(value)
        if value is None:
            lines.append(f"if {name} is not None: return None")
        elif kind in (list, tuple):
            lines.append(f"if type({name}) is not {kind.__name__} or len({name}) != {len(value)}: return None")
            names = [fresh() for _ in value]
            if names:
                lines.append(f"{', '.join(names)}, = {name}")
            for n, v in zip(names, value):
                read(n, v)
        elif kind is dict:
            lines.append(f"if type({name}) is not dict or len({name}) != {len(value)}: return None")
            for key in sorted(value):
                n = fresh()
                text = repr(key) if type(key) in (str, int) else constant(key)
                lines.append(f"{n} = {name}[{text}]")
                read(n, value[key])
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            lines.append(f"if type({name}) is not {constant(kind)}: return None")
            names = [fresh() for _ in value]
            if names:
                lines.append(f"{', '.join(names)}, = {name}")
            for n, v in zip(names, value):
                read(n, v)
        elif kind in (ArrayImpl, np.ndarray, float, int, bool, complex) or isinstance(value, np.generic):
            leaves.append(name)
        else:
            raise _OtherStructure

    def read_static(name: str, value: Any) -> None:
        c = constant(value)
        lines.append(f"if {name} is not {c} and (type({name}) is not type({c}) or {name} != {c}): return None")

    try:
        lines.append(f"if len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return None")
        names = [fresh() for _ in args]
        if names:
            lines.append(f"{', '.join(names)}, = args")
        for i, (n, v) in enumerate(zip(names, args)):
            if i in statics:
                read_static(n, v)
            else:
                read(n, v)
        for key in sorted(kwargs):
            n = fresh()
            lines.append(f"{n} = kwargs[{key!r}]")
            if key in statics:
                read_static(n, kwargs[key])
            else:
                read(n, kwargs[key])
    except (_OtherStructure, TypeError):
        return None
    body = "".join(f"        {line}\n" for line in lines)
    source = f"def read(args, kwargs):\n    try:\n{body}    except KeyError:\n        return None\n    return [{', '.join(leaves)}]\n"
    namespace: dict[str, Any] = dict(constants)
    exec(compile(source, "<reader of a jitted function's arguments>", "exec"), namespace)
    reader: Reader = namespace["read"]
    return reader


def _an_argument() -> str:
    return "an argument"


class _OtherStructure(Exception):
    """The arguments hold something that only `tree_flatten` knows."""


def make_builder(out_tree: PyTreeDef) -> Callable[[list[Any]], Any]:
    """A function that puts leaves into a structure.

    >>> from functad.tree_util import tree_structure
    >>> make_builder(tree_structure({"a": 1, "b": (2, None)}))([5, 6])
    {'a': 5, 'b': (6, None)}
    """
    places = [_Place(i) for i in range(out_tree.num_leaves)]
    constants: dict[str, Any] = {}

    def text(value: Any) -> str:
        kind = type(value)
        if kind is _Place:
            return f"x[{value.number}]"
        if value is None:
            return "None"
        if kind is tuple:
            return f"({''.join(text(v) + ', ' for v in value)})"
        if kind is list:
            return f"[{', '.join(map(text, value))}]"
        if kind is dict:
            parts = []
            for key, v in value.items():
                name = f"c{len(constants)}"
                constants[name] = key
                parts.append(f"{name}: {text(v)}")
            return f"{{{', '.join(parts)}}}"
        raise _OtherStructure

    try:
        source = f"lambda x: {text(tree_unflatten(out_tree, places))}"
    except _OtherStructure:
        return lambda leaves: tree_unflatten(out_tree, leaves)
    builder: Callable[[list[Any]], Any] = eval(compile(source, "<builder of results>", "eval"), constants)
    return builder


class _Place:
    """Stands for a leaf."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
