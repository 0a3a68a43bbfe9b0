"""`python -m tests.notebooks [FILE …]` runs notebooks, all by default, and writes what their cells show into them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.notebooks import FOLDER, read, run, written

for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
    notebook = read(path)
    run(notebook)
    path.write_text(written(notebook), encoding="utf-8")
    print(path)
