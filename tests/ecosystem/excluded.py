"""A pytest plugin that leaves out the tests that `excluded.txt` lists for a library: `-p excluded --library NAME`.

With `--every N` it takes one in N of the others: a hash of the names chooses. Both sides of a comparison take the same.
"""

from __future__ import annotations

import zlib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("excluded.txt")


def patterns_of(text: str, library: str) -> list[str]:
    """The patterns of a library's tests: lines `library pattern`; what follows a `#` says why."""
    pairs = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [pattern.strip() for name, pattern in pairs if name == library]


def reasons_of(text: str, library: str, test: str) -> list[str]:
    """The patterns of a list of a library's tests that a test fits."""
    return [pattern for pattern in patterns_of(text, library) if fnmatchcase(test, pattern)]


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--library", default="", help="whose tests to leave out, as excluded.txt lists them")
    parser.addoption("--every", type=int, default=1, help="take one test in so many")


def is_taken(name: str, every: int) -> bool:
    """Whether the sample of one in `every` tests has that of this name, whatever runs beside it."""
    return zlib.crc32(name.encode()) % every == 0


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    text = LIST.read_text(encoding="utf-8")
    parts: dict[bool, list[Any]] = {True: [], False: []}
    for item in items:
        listed = reasons_of(text, config.getoption("--library"), item.nodeid)
        parts[not listed and is_taken(item.nodeid, config.getoption("--every"))].append(item)
    if parts[False]:
        config.hook.pytest_deselected(items=parts[False])
        items[:] = parts[True]
