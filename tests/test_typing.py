"""What a strict type checker says of a user's programs; it is told of just the operators and methods there are."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from functad.array import Array
from functad.numpy import array_methods

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "typing"
STUB = ROOT / "functad" / "array_types.pyi"

needs_mypy = pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed (extra `dev`)")


def _declared() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    (stub,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ArrayMethods"]
    return {n.name: n for n in stub.body if isinstance(n, ast.FunctionDef)}


def test_what_is_declared_is_what_is_attached() -> None:
    tables = {
        **array_methods._METHODS,
        **array_methods._SPECIAL,
        **array_methods._PROPERTIES,
        **array_methods._operators(),
    }
    own = {"__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__"}
    assert _declared().keys() - own == tables.keys() - {"__array_ufunc__", "__array_function__"}
    assert all(hasattr(Array, name) for name in tables)


@pytest.mark.parametrize("name", sorted(array_methods._METHODS))
def test_parameters_are_declared_as_they_are(name: str) -> None:
    arguments = _declared()[name].args
    declared = [a.arg for a in (*arguments.posonlyargs, *arguments.args)][1:], [a.arg for a in arguments.kwonlyargs]
    parameters = list(inspect.signature(array_methods._METHODS[name]).parameters.values())[1:]
    keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert declared == ([p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD], keyword)


def _complaints() -> dict[tuple[str, int], str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", str(PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r".*?(\w+\.py):(\d+): (?:note: Revealed type is \"(.*)\"|error: .*\[([\w-]+)\]$)", line)
        assert match or line.startswith("Found ") or ": note:" in line, line + done.stderr
        if match:
            found[match[1], int(match[2])] = match[3] or match[4]
    return found


@needs_mypy
def test_a_strict_checker_finds_the_mistakes_and_nothing_else() -> None:
    expected = {}
    for path in PROGRAMS.glob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = re.search(r"# [RE]: (.*)$", line)
            if match:
                expected[path.name, number] = match[1]
    got = {place: re.sub(r"\w+\.Params", "Params", what) for place, what in _complaints().items()}
    assert len(expected) > 30
    assert got == expected


def test_type_checkers_do_not_see_what_explains_absent_names() -> None:
    for path in (ROOT / "functad").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.parse(source).body if "functad.absent" in source else ():
            named = node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node).partition(" = ")[0]
            assert named != "__getattr__", f"{path}: to mypy every name is there; write `if not TYPE_CHECKING:`"
