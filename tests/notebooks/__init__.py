"""Running the notebooks without Jupyter. `python -m tests.notebooks [FILE …]` runs them and writes what they show."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import linecache
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
PICTURES = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}
SOLUTION = re.compile(r"<details>.*?```python\n(.*?)```.*?</details>", re.DOTALL)

Cell = dict[str, Any]


def read(path: Path) -> Cell:
    notebook: Cell = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: Cell) -> list[Cell]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: Cell) -> dict[str, Any]:
    """Run all cells and leave in each what it shows; what the cells have defined."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), start=1):
        cell["execution_count"] = number
        cell["outputs"] = run_cell("".join(cell["source"]), namespace, number)
    return namespace


def run_cell(source: str, namespace: dict[str, Any], number: int = 1) -> list[Cell]:
    """What a cell prints, and what it ends with, as Jupyter keeps them; an error ends the run."""
    name = f"<cell {number}>"
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    _remember(name, source)
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        elif isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), name, "exec"), namespace)
    outputs: list[Cell] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {mime: _lines(getattr(value, method)()) for mime, method in PICTURES.items() if hasattr(value, method)}
        data["text/plain"] = _lines(repr(value))
        result = {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def text_of(outputs: list[Cell]) -> str:
    """The text that a cell shows, without pictures."""
    return "".join("".join(o["text"] if "text" in o else o["data"]["text/plain"]) for o in outputs)


def solutions(notebook: Cell) -> list[str]:
    """The code that exercises hide."""
    texts = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return [html.unescape(code) for text in texts for code in SOLUTION.findall(text)]


def written(notebook: Cell) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _remember(name: str, source: str) -> None:
    """Let tracebacks, and functad, show the lines of a cell."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
