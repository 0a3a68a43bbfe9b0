"""The notebooks run from top to bottom, without Jupyter, and their outputs are committed."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def run_cell(source: str, namespace: dict[str, Any]) -> str:
    """What the cell prints, and the repr of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def committed_output(cell: dict[str, Any]) -> str:
    texts = []
    for output in cell["outputs"]:
        assert output["output_type"] != "error", output
        texts.append("".join(output["text"] if "text" in output else output["data"]["text/plain"]))
    return "".join(texts)


def test_there_are_notebooks():
    assert [p.name for p in NOTEBOOKS][0] == "01_quickstart.ipynb"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_and_prints_what_is_committed(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = [c for c in cells if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1)), "run the notebook from top to bottom"
    for cell in code:
        source = "".join(cell["source"])
        shown, committed = run_cell(source, namespace), committed_output(cell)
        # Digits may differ in the last places between NumPy builds; the words and the structure may not.
        assert without_digits(shown) == without_digits(committed), source


def without_digits(text: str) -> str:
    return "".join(c for c in text if c.isalpha() or c in "[]{}()=:")
