"""Notebooks as pages, with what their cells show; Jupyter is not needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .docstrings import fenced


def page(path: Path) -> str:
    """A notebook as Markdown."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return "\n\n".join(part for cell in notebook["cells"] for part in parts_of(cell)) + "\n"


def parts_of(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [source]
    return [fenced("python", source), *map(_output, cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for mime in ("text/html", "image/svg+xml"):
        if mime in data:
            return fenced("{raw} html", f'<div class="output">{"".join(data[mime])}</div>')
    if "image/png" in data:
        return (
            f'<img class="output" alt="what the cell shows" src="data:image/png;base64,{"".join(data["image/png"])}">'
        )
    return fenced("text", "".join(data.get("text/plain", output.get("text", output.get("traceback", [])))))
