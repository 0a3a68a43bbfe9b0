"""Code stays readable in one sitting: how long files and functions may be. How complex ones may be, ruff checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import functad

ROOT = Path(functad.__file__).parent
LONGEST_FUNCTION = 60  # lines, but docstrings
LONGEST_FILE = 600  # so, too

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def lengths_of(text: str) -> Iterator[tuple[str, int]]:
    """The functions of a module, those within others too, and how many lines each has besides docstrings."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FunctionNode):
            documents = sum(lines_of_docstring(inner) for inner in ast.walk(node))
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - documents


def lines_of_docstring(node: ast.AST) -> int:
    if isinstance(node, FunctionNode | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
        return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return 0


def length_of_file(text: str) -> int:
    """The lines of a module besides docstrings."""
    return text.count("\n") - sum(lines_of_docstring(node) for node in ast.walk(ast.parse(text)))


def test_no_function_is_long() -> None:
    lengths = [
        (length, name, str(path.relative_to(ROOT)))
        for path in sorted(ROOT.rglob("*.py"))
        for name, length in lengths_of(path.read_text(encoding="utf-8"))
    ]
    assert len(lengths) > 1000
    assert [found for found in lengths if found[0] > LONGEST_FUNCTION] == []


def test_no_file_is_long() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    lengths = [(length_of_file(text), name) for name, text in texts.items()]
    assert [found for found in lengths if found[0] > LONGEST_FILE] == []


def test_lines_are_counted_without_docstrings() -> None:
    inner = 'def g():\n        """Two\n        lines."""\n        return 2'
    assert dict(lengths_of(f'def f(x):\n    """One."""\n    {inner}\n\n    return g\n')) == {"f": 5, "g": 2}
    assert dict(lengths_of("class C:\n    async def f(self):\n        pass\n" + "        x = 3\n" * 60)) == {"f": 62}
