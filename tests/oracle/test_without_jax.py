"""Where another library is not installed, what compares with it skips with a reason, and stops no run of tests."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OTHERS = ("jax", "scipy", "mpmath", "optax", "safetensors")
FILES = sorted(TESTS.rglob("test_*.py")) + sorted((TESTS / "oracle").glob("*_cases.py"))


def first_import_of(module: str, text: str) -> ast.stmt | None:
    """The first statement of a file that loads a module, or asks whether it is there."""
    for statement in ast.parse(text).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue  # run later
        for node in ast.walk(statement):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
                names += [ast.literal_eval(node.args[0])]
            if any(name.split(".")[0] == module for name in names):
                return statement
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_may_be_missing_is_asked_for_before_it_is_imported(path):
    text = path.read_text(encoding="utf-8")
    for module in OTHERS:
        first = first_import_of(module, text)
        if first is not None:
            assert "pytest.importorskip" in ast.unparse(first), f"{path.name}:{first.lineno}: {ast.unparse(first)}"


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their names alone."""
    twice = [name for name, count in Counter(path.name for path in FILES).items() if count > 1]
    assert not twice, twice


def test_an_import_before_the_question_is_found():
    text = "import numpy\nfrom jax import lax\njax = pytest.importorskip('jax')\n"
    first = first_import_of("jax", text)
    assert first is not None and first.lineno == 2 and first_import_of("scipy", text) is None
