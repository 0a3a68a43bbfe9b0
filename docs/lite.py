"""`python -m docs.lite`: the notebooks as a JupyterLite site, which runs them in a browser.

Knows how the site gets its notebooks and the wheel of functad; Pyodide, its Python, comes from where JupyterLite says.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "lite"
INSTALL = "%pip install -q functad"


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    write_notebooks(BUILD / "notebooks")
    wheel = build_wheel(BUILD / "wheel")
    site = BUILD / "site"
    parts = ["--contents", str(BUILD / "notebooks"), "--piplite-wheels", str(wheel), "--output-dir", str(site)]
    apps = ["--apps", "lab", "--apps", "notebooks", "--no-unused-shared-packages", "--no-sourcemaps"]
    # Run in a folder of its own: JupyterLite takes what lies there for its configuration, and leaves a database.
    work = [sys.executable, "-m", "jupyterlite_core", "build", "--lite-dir", str(BUILD), *parts, *apps]
    status = subprocess.run(work, cwd=BUILD).returncode
    if not status:
        print(
            f"The site: {site}. `python -m http.server -d {site.relative_to(ROOT)}` shows it at http://localhost:8000/lab"
        )
    return status


def write_notebooks(folder: Path) -> None:
    """Copies of the notebooks, each with a first cell that installs functad in the browser's Python."""
    folder.mkdir(parents=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        (folder / path.name).write_text(json.dumps(installing(notebook)), encoding="utf-8")


def installing(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook with a cell before the others: JupyterLite finds there the wheel that the site brings.

    Texts that are lists of lines become one string each; JupyterLite sets commas between the lines of an output.
    """
    cell = {"cell_type": "code", "execution_count": None, "id": "install", "metadata": {}}
    return _joined({**notebook, "cells": [{**cell, "outputs": [], "source": INSTALL}, *notebook["cells"]]})


def _joined(part: Any, key: str = "") -> Any:
    if isinstance(part, dict):
        return {name: _joined(inner, name) for name, inner in part.items()}
    if isinstance(part, list):
        is_text = key in ("source", "text") or "/" in key  # or a MIME type
        return "".join(part) if is_text else [_joined(inner) for inner in part]
    return part


def build_wheel(folder: Path) -> Path:
    """The wheel of functad as it lies here."""
    with tempfile.TemporaryDirectory() as name:  # setuptools leaves its files where it runs
        shutil.copytree(ROOT / "functad", Path(name, "functad"), ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, name)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), name]
        subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


if __name__ == "__main__":
    sys.exit(main())
