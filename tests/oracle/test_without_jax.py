"""Where JAX is not installed, every comparison with it skips with a reason: none stops the run of the tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def first_import_of_jax(text: str) -> ast.stmt | None:
    for statement in ast.parse(text).body:
        for node in ast.walk(statement):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
                names += [ast.literal_eval(node.args[0])]
            if any(name.split(".")[0] == "jax" for name in names):
                return statement
    return None


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.stem)
def test_jax_is_asked_for_before_it_is_imported(path):
    first = first_import_of_jax(path.read_text())
    if first is None:  # it compares with something else, or it is this file
        return
    assert "pytest.importorskip" in ast.unparse(first), f"{path.name}:{first.lineno}: {ast.unparse(first)}"
