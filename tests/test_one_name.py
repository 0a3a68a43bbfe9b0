"""One name, one thing: no two classes, types or functions of functad, in whatever modules, have the same name.

A function whose name begins with an underscore is known in its file alone. Of those, too, none is written twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from test_public_names import MODULES

import functad
from functad.all_primitives import registry

ROOT = Path(functad.__file__).parent

OPERATIONS = ("primitives", "control", "backends/c[a-z]+/scalars", "numpy", "lax", "scipy", "random", "nn", "optim")
"""The rooms in which one operation has functions of its own name: what users call, what binds its primitive, the NumPy
algorithm, and the word for it in kernels."""

ON_PURPOSE = {
    "what each backend does to a Program": {"compile_program", "lower_program", "generate", "emit"},
    "what each backend tells of a compiled Program": {"machine_code", "profile_of"},
    "what each format of files does": {"read", "prepare"},
    "what each sub-command does": {"add_parser", "add_parsers", "run"},
    "each attaches its own part to arrays or functions": {"install"},
    "what each namespace takes as an operand: their rules of promotion differ": {"operand"},
    "one operation by primitives, by NumPy's functions and by public names alone": {"adjoint"},
    "files in the language of `integer_compiler` cannot import": {"up"},
}


def types_of(text: str) -> Iterator[str]:
    """The classes that a module defines at its top level, and the names that it gives to types."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            bare = name.lstrip("_")
            if bare[:1].isupper() and not bare.isupper() and not isinstance(node.value, ast.Constant):
                yield bare


def functions_of(text: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))


def public_functions_of(text: str) -> Iterator[str]:
    """The functions that a module defines at its top level for others."""
    return (f.name for f in functions_of(text) if not f.name.startswith("_"))


def bodies_of(text: str) -> Iterator[str]:
    """What the functions of a module do, without their names and docstrings; not those that call private ones."""
    for function in functions_of(text):
        function.name, function.returns = "_", None
        function.body = function.body[ast.get_docstring(function) is not None :]
        body = ast.unparse(function)
        if function.body and not re.search(r"\b_\w", body.replace("def _(", "")):
            yield body


def found_twice(modules: dict[str, str], names: Callable[[str], Iterator[str]]) -> dict[str, list[str]]:
    """What several modules define, and where."""
    places: dict[str, list[str]] = {}
    for module, text in modules.items():
        for name in sorted({*names(text)}):
            places.setdefault(name, []).append(module)
    return {name: found for name, found in places.items() if len(found) > 1}


def modules_of_functad() -> dict[str, str]:
    modules = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sorted(ROOT.rglob("*.py"))}
    assert len(modules) > 100
    return modules


def public_names() -> list[tuple[ModuleType, str]]:
    return [(module, name) for module in MODULES.values() for name in getattr(module, "__all__", dir(module))]


def shown_to_users() -> set[tuple[str, str]]:
    """The functions that public modules show, and the files in which they stand."""
    shown = (getattr(module, name, None) for module, name in public_names())
    places = ((getattr(f, "__module__", None) or "", getattr(f, "__name__", "")) for f in shown)
    return {(f"{place.removeprefix('functad.').replace('.', '/')}.py", name) for place, name in places}


def test_no_two_types_have_one_name() -> None:
    assert found_twice(modules_of_functad(), types_of) == {}


def test_no_two_functions_have_one_name() -> None:
    shown = shown_to_users()
    operations = {*registry, *(name for _, name in public_names())}
    in_rooms = re.compile(f"({'|'.join(OPERATIONS)})/")

    def is_an_operation(place: str, name: str) -> bool:
        return (place, name) in shown or name in operations and in_rooms.match(place) is not None

    twice = found_twice(modules_of_functad(), public_functions_of)
    meant = set().union(*ON_PURPOSE.values())
    assert meant <= twice.keys()  # no exception that nobody needs
    others = {name: found for name, found in twice.items() if not all(is_an_operation(p, name) for p in found)}
    assert {name: found for name, found in others.items() if name not in meant} == {}


def test_no_function_is_written_twice() -> None:
    modules = modules_of_functad()
    own = {place: text for place, text in modules.items() if not place.startswith("scipy/stats/")}  # each has a `pdf`
    twice = found_twice(own, bodies_of)
    assert [found for body, found in twice.items() if "return __all__" not in body] == [
        [f"backends/cpu/products/own/gemm_{name}.py" for name in ("direct", "panels", "windows")]  # `up`: see above
    ]


@pytest.mark.parametrize("first", ["class Block: ...", "class _Block: ..."])
@pytest.mark.parametrize("other", ["class Block: ...", "Block = int | str", "class _Block: ..."])
def test_a_second_type_of_one_name_is_found(first: str, other: str) -> None:
    assert found_twice({"a.py": first, "b.py": other}, types_of) == {"Block": ["a.py", "b.py"]}
    assert found_twice({"a.py": first, "b.py": "from a import Block\nBLOCK = 3\ndef block(): ..."}, types_of) == {}


def test_a_second_function_of_one_name_is_found() -> None:
    one, other = "def join(a): return a", 'def join(b):\n    "Docs."\n    return b'
    assert found_twice({"a.py": one, "b.py": other}, public_functions_of) == {"join": ["a.py", "b.py"]}
    private = "def _join(a): ...\nclass A:\n def join(a): ..."
    assert found_twice({"a.py": one, "b.py": private}, public_functions_of) == {}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ('def other(x: int) -> int:\n    "Docs."\n    return x + 1', True),
        ("def _other(x: int):\n    return (x + 1)", True),
        ("def other(y: int): return y + 1", False),
        ("def other(x: int): return x + 2", False),
    ],
)
def test_a_function_written_twice_is_found(other: str, found: bool) -> None:
    assert bool(found_twice({"a.py": "def one(x: int) -> int: return x + 1", "b.py": other}, bodies_of)) == found


def test_functions_that_call_private_ones_of_their_files_differ() -> None:
    assert found_twice({"a.py": "def f(x): return _g(x)", "b.py": "def f(x): return _g(x)"}, bodies_of) == {}
