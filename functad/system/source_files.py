"""The Python files of a folder, by which what was made with them is known again.

Knows folders, and archives that Python imports from; not what the files are for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def python_files(folder: str, without: frozenset[str] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """The files in a folder and in all folders below it, but for those of some names; in any order."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py") and entry.is_file():  # not an editor's link to nowhere
                yield entry
            elif entry.name not in without and entry.name != "__pycache__" and entry.is_dir():
                yield from python_files(entry.path)


def text_of(module: ModuleType, beside: str = "") -> str:
    """The text of a module, or of a file beside it, which lies where the module was found: in an archive, too."""
    loader: Any = module.__loader__
    path = Path(str(module.__file__))
    content: bytes = loader.get_data(str(path.with_name(beside) if beside else path))
    return content.decode()


def files_of(folder: Path) -> list[str]:
    """The paths of the Python files in a folder and below it, in order, or that of the archive in which it lies."""
    try:
        return sorted(file.path for file in python_files(str(folder)))
    except NotADirectoryError:
        return [str(parent) for parent in folder.parents if parent.is_file()]
