"""A pytree as what folds: each part with what it holds, each array with its type, its bytes and the path to it.

Knows pytrees and the types of arrays; not their elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from functad import dtypes
from functad.errors import DTypeError
from functad.tree_util import keystr, tree_flatten_with_path


def tree(params: Any, name: str = "params") -> TreeView:
    """A pytree, such as a model's parameters, as a view that a notebook lets you fold, and that prints as a list.

    Args:
        params: any pytree of arrays, numbers or `ShapeDtypeStruct`s.
        name: what the tree is called in the paths that can be copied.

    >>> import functad, functad.numpy as jnp
    >>> functad.views.tree({"dense": {"w": jnp.ones((8, 4)), "b": jnp.zeros(4)}, "scale": jnp.ones(())})
    params          3 arrays, 37 elements, 148 bytes
      ['dense']     2 arrays, 36 elements, 144 bytes
        ['b']       f32[4], 16 bytes
        ['w']       f32[8,4], 128 bytes
      ['scale']     f32[], 4 bytes
    """
    root = Branch(name, name)
    for path, leaf in tree_flatten_with_path(params)[0]:
        root.add([keystr((key,)) for key in path], leaf)
    return TreeView(root)


class Branch:
    """A part of a tree: its own key, the path to it, and what lies in it. A leaf has a type instead.

    count: of arrays. elements, bytes: of all of them together.
    """

    def __init__(self, key: str, path: str) -> None:
        self.key, self.path = key, path
        self.children: dict[str, Branch] = {}
        self.kind = ""
        self.count = self.elements = self.bytes = 0

    def add(self, keys: list[str], leaf: Any) -> None:
        """Put in a leaf at the end of these keys."""
        kind, elements, nbytes = _described(leaf)
        at = self
        at._grow(elements, nbytes)
        for key in keys:
            at = at.children.setdefault(key, Branch(key, at.path + key))
            at._grow(elements, nbytes)
        at.kind = kind

    def _grow(self, elements: int, nbytes: int) -> None:
        self.count += 1
        self.elements += elements
        self.bytes += nbytes

    @property
    def words(self) -> str:
        """What it holds."""
        if self.kind:
            return f"{self.kind}, {size_text(self.bytes)}"
        arrays = f"{self.count:,} array{'s' if self.count != 1 else ''}"
        elements = f"{self.elements:,} element{'s' if self.elements != 1 else ''}"
        return f"{arrays}, {elements}, {size_text(self.bytes)}"

    def lines(self, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Keys, indented, and what lies there."""
        yield "  " * depth + self.key, self.words
        for child in self.children.values():
            yield from child.lines(depth + 1)


class TreeView:
    """A pytree that prints as a list, and folds in a notebook."""

    def __init__(self, root: Branch) -> None:
        self.root = root

    def __repr__(self) -> str:
        lines = list(self.root.lines())
        width = max(len(key) for key, _ in lines) + 3
        return "\n".join(f"{key:<{width}}{words}" for key, words in lines)

    def _repr_html_(self) -> str:
        return f'<div class="ft"><style>{_LOOKS}</style>{_html(self.root, 0)}</div>'


_LOOKS = """
.ft { font: 13px/1.7 system-ui, sans-serif; max-width: 52rem; }
.ft details > :not(summary) { margin-left: 1.4em; border-left: 1px solid rgba(128,128,128,.35); padding-left: .6em; }
.ft code { font: 12px ui-monospace, monospace; background: none; color: inherit; }
.ft summary { cursor: pointer; } .ft summary:focus-visible, .ft button:focus-visible { outline: 2px solid #2b7bd6; }
.ft span { opacity: .75; margin-left: .8em; font-variant-numeric: tabular-nums; }
.ft button { font: 11px system-ui, sans-serif; margin-left: .8em; padding: 0 .5em; color: inherit; background: none;
  border: 1px solid rgba(128,128,128,.5); border-radius: .3em; cursor: pointer; opacity: 0; }
.ft .ft-row:hover button, .ft button:focus { opacity: 1; } @media (hover: none) { .ft button { opacity: 1; } }
"""
_COPY = "event.preventDefault();navigator.clipboard.writeText(this.dataset.path);this.textContent='copied'"


def _html(branch: Branch, depth: int) -> str:
    path = escape(branch.path)
    button = f'<button type="button" data-path="{path}" title="{path}" onclick="{escape(_COPY)}">copy path</button>'
    row = f"<code>{escape(branch.key)}</code><span>{escape(branch.words)}</span>{button}"
    if not branch.children:
        return f'<div class="ft-row">{row}</div>'
    is_open = " open" if depth < 2 else ""
    inside = "".join(_html(child, depth + 1) for child in branch.children.values())
    return f'<details{is_open}><summary class="ft-row">{row}</summary><div>{inside}</div></details>'


def _described(leaf: Any) -> tuple[str, int, int]:
    """The type of a leaf, its elements and its bytes."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        if not isinstance(leaf, (bool, int, float, complex)):
            return type(leaf).__name__, 0, 0
        value = np.asarray(leaf)
        return f"{type(leaf).__name__} {leaf!r}", 1, value.nbytes
    elements = int(np.prod(shape, dtype=np.int64))
    try:
        kind = dtypes.short_name(dtype)
    except DTypeError:  # texts, dates, or what other libraries have
        kind = str(dtype)
    return f"{kind}[{','.join(map(str, shape))}]", elements, elements * getattr(dtype, "itemsize", 0)


def size_text(nbytes: int) -> str:
    """A number of bytes, for people.

    >>> size_text(999), size_text(123_456), size_text(5_000_000)
    ('999 bytes', '123.5 kB', '5.0 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e4)):
        if nbytes >= size:
            return f"{nbytes / (1e3 if unit == 'kB' else size):,.1f} {unit}"
    return f"{nbytes:,} byte{'s' if nbytes != 1 else ''}"
