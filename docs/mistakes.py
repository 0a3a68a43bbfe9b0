"""The page about errors: of each class what it means, and programs that raise it with what they are told."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections import defaultdict
from pathlib import Path

from functad import errors

from .docstrings import as_markdown, fenced

_TOOLS = str(Path(__file__).parent.parent / "tests" / "tools")
FILE = "example.py"

_START = """\
# Errors and what to do

Every error that functad raises on purpose is a `functad.errors.FunctadError` and, beside that, the class that Python or
NumPy would raise. Its message says what is wrong and where, and ends with what helps. Below stands each class, with
programs that make typical mistakes and what they are told. They begin with:
"""


def page() -> str:
    """All classes of errors, with examples."""
    sys.path.insert(0, _TOOLS)
    try:
        from mistake_cases import MISTAKES, PREAMBLE
    finally:
        sys.path.remove(_TOOLS)
    examples: dict[type, list[str]] = defaultdict(list)
    for title, program, _ in MISTAKES:
        error = raised(PREAMBLE, program.strip() + "\n")
        shown = program.strip().replace("  # here", "")
        message = f"{type(error).__name__}: {error}"
        examples[type(error)].append("\n\n".join([f"### {title}", fenced("python", shown), fenced("output", message)]))
    parts = [_START, fenced("python", PREAMBLE)]
    for error_class, names in _classes().items():
        parts += [
            f"## {error_class.__name__}",
            as_markdown(inspect.getdoc(error_class) or ""),
            _kinds(error_class, names),
        ]
        parts += examples[error_class]
    return "\n\n".join(parts) + "\n"


def raised(preamble: str, program: str) -> errors.FunctadError:
    """The error that a program ends with."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(preamble, namespace)
    linecache.cache[FILE] = (len(program), None, program.splitlines(keepends=True), FILE)
    try:
        exec(compile(program, FILE, "exec"), namespace)
    except errors.FunctadError as error:
        return error
    raise AssertionError(f"this program raises none of functad's errors:\n{program}")


def _classes() -> dict[type, list[str]]:
    """The classes in the order of their file, with the other names that they have."""
    found: dict[type, list[str]] = {}
    for name in dir(errors):
        value = getattr(errors, name)
        if value.__module__ == errors.__name__:
            found.setdefault(value, [])
            if name != value.__name__:
                found[value].append(name)
    return found


def _kinds(error_class: type, names: list[str]) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in error_class.__bases__)
    also = ", ".join(f"`{name}`" for name in sorted(names))
    return f"It is a kind of {bases}." + (f" JAX's names of it: {also}." if names else "")
