"""What JAX's names are here: there, there but different, or absent with a reason. Needs JAX.

Knows modules and signatures; what a function computes, the oracle's tests compare.
"""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any, NamedTuple

from functad.absent import INSTEAD
from functad.errors import AbsentNameError
from functad.lax import composed

from .modules import ATTRIBUTES, DIFFERENT, MODULES, NAMES


class Section(NamedTuple):
    """The names of one module of JAX."""

    module: str
    there: list[str]
    different: dict[str, str]
    absent: dict[str, str]


def sections() -> list[Section]:
    """All modules that are compared."""
    return [_section(module) for module in MODULES]


def names_of(module: str) -> list[str]:
    """The public names of a module of JAX: no modules that it merely uses, and nothing that JAX has given up."""
    if module in NAMES:
        return NAMES[module]
    found = []
    here = _import(module)
    for name in dir(here):
        if name.startswith("_") or name in ("annotations", "TYPE_CHECKING"):
            continue
        try:
            value = getattr(here, name)
        except Exception:  # JAX raises of what it has given up
            continue
        if isinstance(value, types.ModuleType) and not value.__name__.startswith("jax"):
            continue
        found.append(name)
    return sorted(found)


def _import(module: str) -> Any:
    if module in ATTRIBUTES:
        parent, _, name = module.rpartition(".")
        return getattr(importlib.import_module(parent), name)
    return importlib.import_module(module)


def _section(module: str) -> Section:
    ours = f"functad{module.removeprefix('jax')}"
    theirs, made = _import(module), Section(module, [], {}, {})
    try:
        here = importlib.import_module(ours)
    except ModuleNotFoundError:
        made.absent.update(dict.fromkeys(names_of(module), reason(*missing_part(ours))))
        return made
    for name in names_of(module):
        try:
            value = getattr(here, name)
        except AbsentNameError:
            made.absent[name] = reason(ours, name)
            continue
        how = DIFFERENT.get(f"{module}.{name}") or _composed(value)
        how = how or _signatures_differ(getattr(theirs, name), value)
        if how:
            made.different[name] = how
        else:
            made.there.append(name)
    return made


def _composed(value: Any) -> str:
    is_one = issubclass(type(value), composed.ComposedPrimitive)  # all primitives are instances of all classes of them
    return "others are recorded in its place, by its `bind`, too" if is_one else ""


def missing_part(module: str) -> tuple[str, str]:
    """The module above one that there is not, and the name that it lacks."""
    parent, _, child = module.rpartition(".")
    try:
        importlib.import_module(parent)
    except ModuleNotFoundError:
        return missing_part(parent)
    return parent, child


def reason(module: str, name: str) -> str:
    """Why a name is absent, and what to use instead; empty if nothing says it."""
    if name.endswith("_p") and name not in INSTEAD.get(module, {}):
        return "what JAX's primitive does, others do here; functad.make_jaxpr shows which"
    sentences = INSTEAD.get(module, {})
    return sentences.get(name, sentences.get("*", ""))


def _signatures_differ(theirs: Any, ours: Any) -> str:
    """How our function takes other arguments than JAX's; empty if a call that names JAX's arguments means the same."""
    if isinstance(theirs, type) and isinstance(ours, type) or not (callable(theirs) and callable(ours)):
        return ""
    try:
        wanted, given = (inspect.signature(f).parameters for f in (theirs, ours))
    except (TypeError, ValueError):
        return ""
    kinds = {p.kind for p in given.values()}
    missing: list[str] = []
    defaults = []
    positional = [p for p in given.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for place, p in enumerate(wanted.values()):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        own = given.get(p.name)
        if own is None and p.kind is p.POSITIONAL_ONLY:
            own = positional[place] if place < len(positional) else None
            if own is None and p.VAR_POSITIONAL in kinds:
                continue
        if own is None:
            if p.VAR_KEYWORD not in kinds and p.name not in _LAYOUT:
                missing.append(p.name)
        elif _plain(p.default) and _plain(own.default) and repr(p.default) != repr(own.default):
            defaults.append(f"`{p.name}` is {own.default!r} by default, not {p.default!r}")
    without = f"without `{'`, `'.join(missing)}`" if missing else ""
    return "; ".join(filter(None, [without, *defaults]))


_LAYOUT = {"out_sharding", "sharding", "mesh_axis", "explicit_mesh_axis", "spmd_axis_name"}  # of arrays over devices


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, tuple))
