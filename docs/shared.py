"""What the functions of a file share: sections that its docstring, or a package's above it, says once for all of them.

Knows the sections Args, Shapes and Raises; a function's own words come before them.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

TITLES = "Args", "Shapes", "Raises"
_SECTION = re.compile(r"^(\w+):[ ]*\n((?:[ ]+\S.*(?:\n|$)|\n(?=[ ]))+)", re.MULTILINE)
_SHAPES = re.compile(r"\bshapes?\b|\bscalars?\b|\barray_like\b", re.IGNORECASE)
_EXAMPLE = re.compile(r"^ *>>>.*(?:\n(?!\s*$|\s*>>>).*)*", re.MULTILINE)


@functools.cache
def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring, by their titles.

    >>> sections("One line.\\n\\nShapes:\\n    All the same.\\n\\nRaises:\\n    ShapeError: not so.")
    {'Shapes': 'All the same.', 'Raises': 'ShapeError: not so.'}
    """
    return {title: textwrap.dedent(text).strip() for title, text in _SECTION.findall(doc)}


def without(doc: str) -> str:
    """A file's docstring without what it says for its functions, where it is shown with each of them.

    >>> without("One line.\\n\\nShapes:\\n    All the same.")
    'One line.'
    """
    return _SECTION.sub(lambda found: "" if found[1] in TITLES else found[0], doc).strip()


@functools.cache
def prose(doc: str) -> str:
    """A docstring without its examples."""
    return _EXAMPLE.sub("", doc)


def says_shapes(doc: str) -> bool:
    """Whether a docstring itself says what shapes its function takes or gives."""
    return bool(_SHAPES.search(prose(doc)))


def statements(value: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """The modules that say something for a function, the nearest first, and what they say."""
    name = getattr(inspect.unwrap(value), "__module__", "")
    while "." in name:
        if name in sys.modules and (found := sections(sys.modules[name].__doc__ or "")):
            yield name, {title: text for title, text in found.items() if title in TITLES}
        name = name.rpartition(".")[0]


def of(value: Any) -> dict[str, str]:
    """The sections that hold for a function besides its own: of arguments, those that it has and does not name.

    >>> import functad.numpy as jnp
    >>> of(jnp.maximum)["Raises"].partition(":")[0]
    'ShapeError'
    """
    doc = inspect.getdoc(value) or ""
    said = prose(doc)
    found: dict[str, str] = {}
    for _, statement in statements(value):
        if arguments := _arguments(statement.get("Args", ""), value, said + found.get("Args", "")):
            found["Args"] = "\n".join([*found.get("Args", "").splitlines(), *arguments])
        if "Shapes" in statement and not says_shapes(doc):
            found.setdefault("Shapes", statement["Shapes"])
        if "Raises" in statement and "Raises:" not in doc:
            found.setdefault("Raises", statement["Raises"])
    return {title: found[title] for title in TITLES if title in found}


def _arguments(text: str, value: Any, said: str) -> list[str]:
    """The lines, one an argument, about arguments that a function has and that nothing was said of."""
    try:
        parameters = set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return []
    lines = []
    for line in text.splitlines():
        names, _, what = line.partition(": ")
        missing = [n for n in names.split(", ") if n in parameters and not re.search(rf"\b{n}\b", said)]
        if missing:
            lines.append(f"{', '.join(missing)}: {what}")
    return lines
