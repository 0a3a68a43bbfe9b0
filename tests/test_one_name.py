"""One name, one thing: no two classes or types of functad, in whatever modules, have the same name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import functad

ROOT = Path(functad.__file__).parent


def types_of(text: str) -> Iterator[str]:
    """The classes that a module defines at its top level, and the names that it gives to types."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            bare = name.lstrip("_")
            if bare[:1].isupper() and not bare.isupper() and not isinstance(node.value, ast.Constant):
                yield name


def named_twice(modules: dict[str, str]) -> list[str]:
    """The names that several modules define, private ones too, with or without an underscore."""
    places: dict[str, list[str]] = {}
    for module, text in modules.items():
        for name in sorted({name.lstrip("_") for name in types_of(text)}):
            places.setdefault(name, []).append(module)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def test_no_two_things_have_one_name() -> None:
    modules = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in sorted(ROOT.rglob("*.py"))}
    assert len(modules) > 100
    assert named_twice(modules) == []


@pytest.mark.parametrize("first", ["class Block: ...", "class _Block: ..."])
@pytest.mark.parametrize("other", ["class Block: ...", "Block = int | str", "class _Block: ..."])
def test_a_second_thing_of_one_name_is_found(first: str, other: str) -> None:
    assert named_twice({"a.py": first, "b.py": other}) == ["Block: a.py, b.py"]
    assert named_twice({"a.py": first, "b.py": "from a import Block\nBLOCK = 3\ndef block(): ..."}) == []
