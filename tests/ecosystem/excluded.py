"""A pytest plugin that leaves out the tests that `excluded.txt` lists for a library: `-p excluded --library NAME`.

Both sides of a comparison leave out the same ones.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("excluded.txt")


def patterns_of(text: str, library: str) -> list[str]:
    """The patterns of a library's tests: lines `library pattern`; what follows a `#` says why."""
    pairs = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [pattern.strip() for name, pattern in pairs if name == library]


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--library", default="", help="whose tests to leave out, as excluded.txt lists them")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    patterns = patterns_of(LIST.read_text(encoding="utf-8"), config.getoption("--library"))
    left_out = [item for item in items if any(fnmatchcase(item.nodeid, pattern) for pattern in patterns)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
