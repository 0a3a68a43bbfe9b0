"""Pages about the public modules: of every name how it is called and what its docstring says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import functad

from . import shared
from .docstrings import as_markdown, escaped, fenced

_WITHIN = 100  # columns of a call's line


def modules() -> dict[str, types.ModuleType]:
    """The public modules by their names: those that answer for names which they do not have, as `absent` does."""
    found = {"functad": functad}
    for part in pkgutil.walk_packages(functad.__path__, "functad."):
        if not any(word in part.name for word in (".backends", "__main__", ".cli", "experimental.mpi")):
            module = importlib.import_module(part.name)
            if getattr(vars(module).get("__getattr__"), "__module__", "") == "functad.absent":
                found[module.__name__] = module
    return {**found, "functad.debug": functad.debug, "functad.errors": functad.errors, "functad.train": functad.train}


def page(name: str, module: types.ModuleType) -> str:
    """All public names of a module, those that can be called first."""
    called, classes, values = [], [], []
    for public, value in names(module):
        if not is_ours(value) or not callable(value):
            values.append(f"- `{public}`: {_said_of(value)}")
        elif isinstance(value, type):
            classes.append(_class(public, value, name))
        else:
            called.append(_entry("###", public, value, name))
    parts = [f"# {name}", as_markdown(_for_readers(inspect.getdoc(module) or ""))]
    if name != "functad.errors":
        parts.append(
            "What functions have in common, errors first of all, is told at [functad.errors](functad.errors.md)."
        )
    for title, entries in ("Functions", called), ("Classes", classes):
        parts += [f"## {title}", *entries] if entries else []
    if values:
        parts += ["## Values", "\n".join(values)]
    return "\n\n".join(parts) + "\n"


def _for_readers(doc: str) -> str:
    """A file's docstring without what it knows and must not know, which is said to those who edit it."""
    parts = shared.without(doc).split("\n\n")
    return "\n\n".join(part for part in parts if not part.startswith(("Knows ", "This file ")))


def names(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module and what they stand for, modules left out."""
    listed = getattr(module, "__all__", None) or dir(module)
    for public in listed:
        value = getattr(module, public)
        if not public.startswith("_") and not isinstance(value, types.ModuleType):
            yield public, value


def is_ours(value: Any) -> bool:
    """Whether functad defines it, so that its docstring is functad's."""
    return str(getattr(value, "__module__", "")).startswith("functad")


def _said_of(value: Any) -> str:
    doc = getattr(value, "doc", None)  # what a record says of itself
    if isinstance(doc, str):
        return escaped(" ".join(doc.split()))
    if callable(value) and hasattr(value, "__module__") and hasattr(value, "__name__"):
        return f"`{value.__module__}.{value.__name__}`"
    text = repr(value).splitlines()[0]
    return f"`{type(value).__name__}`" if "0x" in text or len(text) > 80 else f"`{text}`"


def _entry(level: str, public: str, value: Any, owner: str) -> str:
    doc = inspect.getdoc(value) or ""
    if not inspect.isroutine(value) and not isinstance(value, type) and doc == inspect.getdoc(type(value)):
        doc = ""
    parts = [f"{level} {public}", fenced("python", _call(f"{owner}.{public}", value)), as_markdown(doc)]
    if not isinstance(value, type):
        parts += [as_markdown(f"{title}:\n{textwrap.indent(text, '    ')}") for title, text in shared.of(value).items()]
    return "\n\n".join(parts)


def _class(public: str, value: type, owner: str) -> str:
    parts = [_entry("###", public, value, owner)]
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        if isinstance(member, (types.FunctionType, classmethod, staticmethod)):
            parts.append(_entry("####", name, getattr(value, name), public))
        elif isinstance(member, property) and member.__doc__:
            parts.append(f"#### {name}\n\n{as_markdown(inspect.getdoc(member) or '')}")
    return "\n\n".join(parts)


def _call(name: str, value: Any) -> str:
    """How something is called: its parameters without their types, which docstrings tell."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return name
    words: list[str] = []
    kinds = [p.kind for p in parameters]
    for k, p in enumerate(parameters):
        if p.kind is p.KEYWORD_ONLY and k and p.VAR_POSITIONAL not in kinds and kinds[k - 1] is not p.KEYWORD_ONLY:
            words.append("*")
        elif p.kind is p.KEYWORD_ONLY and not k:
            words.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        words.append(star + p.name + ("" if p.default is p.empty else f"={_default(p.default)}"))
        if p.kind is p.POSITIONAL_ONLY and p.POSITIONAL_ONLY not in kinds[k + 1 :]:
            words.append("/")
    line = f"{name}({', '.join(words)})"
    return line if len(line) <= _WITHIN else f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _default(value: Any) -> str:
    text = repr(value)
    return getattr(value, "__name__", "...") if "0x" in text or "<" in text else text
