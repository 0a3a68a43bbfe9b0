"""What each public namespace took: its names, and the lines of the files that are its own.

A file counts once, for the nearest public module at or above it; what no public module has is counted by folder.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent.parent.parent / "functad"
_PUBLIC = re.compile(r"__getattr__ = _?absent\(")  # every public module explains the names that it has not


class Row(NamedTuple):
    """A namespace: its public names, its lines, and those of them that are code."""

    name: str
    names: int
    lines: int
    code: int


def rows() -> list[Row]:
    """Public namespaces first, by name, then the folders and files below them, in parentheses."""
    files = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    public = {_module_of(path) for path, text in files.items() if _PUBLIC.search(text)}
    counts: dict[str, list[int]] = {name: [0, 0] for name in public}
    for path, text in files.items():
        count = counts.setdefault(_owner(_module_of(path), public), [0, 0])
        count[0] += len(text.splitlines())
        count[1] += code_lines(text)
    return [
        Row(name, _names(name) if name in public else 0, *counts[name])
        for name in sorted(counts, key=lambda name: (name not in public, name))
    ]


def code_lines(text: str) -> int:
    """The lines that hold more than blanks, comments and docstrings.

    >>> code_lines('\"""A docstring.\"""\\n\\nx = 1  # one\\n# a comment\\n')
    1
    """
    told = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    held = (number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#")
    return len(set(held) - told)


def table(found: list[Row]) -> str:
    """The rows as text, with the sum of all."""
    total = Row("all", *(sum(row[i] for row in found) for i in (1, 2, 3)))
    width = max(len(row.name) for row in found)
    parts = [f"{'namespace':<{width}}  {'names':>6}  {'lines':>7}  {'code':>7}  code a name"]
    for row in [*found, total]:
        each = f"{row.code / row.names:.1f}" if row.names and row is not total else ""
        parts.append(f"{row.name:<{width}}  {row.names or '':>6}  {row.lines:>7,}  {row.code:>7,}  {each:>11}".rstrip())
    return "\n".join(parts)


def _module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _owner(module: str, public: set[str]) -> str:
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        if ".".join(parts[:end]) in public:
            return ".".join(parts[:end])
    return f"({parts[1]})" if len(parts) > 1 else "functad"


def _names(module: str) -> int:
    return len([name for name in dir(importlib.import_module(module)) if not name.startswith("_")])
