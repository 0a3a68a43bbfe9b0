"""The Python files of a folder, by which what was made with them is known again.

Knows folders; not what the files are for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator


def python_files(folder: str, without: frozenset[str] = frozenset()) -> Iterator[os.DirEntry[str]]:
    """The files in a folder and in all folders below it, but for those of some names; in any order."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name not in without:
                    yield from python_files(entry.path)
            elif entry.name.endswith(".py") and entry.is_file():  # not an editor's link to nowhere
                yield entry
