"""`python -m functad cache info|clear`: what lies in the cache of compiled kernels, and how to empty it.

Compiles nothing; touches no file but those of the kernels.
"""

from __future__ import annotations

import argparse
import importlib
import time
from typing import Any


def add_parser(commands: Any) -> None:
    """Add `cache` to the sub-commands of a parser."""
    parser = commands.add_parser("cache", help="show or empty the cache of compiled kernels")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    info = actions.add_parser("info", help="where the cache is and how much lies there")
    info.set_defaults(run=show, parser=info)
    empty = actions.add_parser("clear", help="remove the compiled kernels and their sources")
    empty.set_defaults(run=clear_cache, parser=empty)


def show(options: argparse.Namespace) -> int:
    """Print folder, number, size and age of what is cached; returns the exit code."""
    objects = _objects()
    files = objects.cached_files()
    times = [status.st_mtime for path, status in files if path.suffix == ".o"]
    print(f"folder   {objects.cache_folder()}")
    print(f"objects  {len(times)}")
    print(f"size     {_bytes(sum(status.st_size for _, status in files))} in {len(files)} files")
    if times:
        print(f"oldest   {_date(min(times))}")
        print(f"newest   {_date(max(times))}")
    return 0


def clear_cache(options: argparse.Namespace) -> int:
    """Remove the files of the kernels and print how much that was; returns the exit code."""
    objects = _objects()
    files = objects.cached_files()
    for path, _ in files:
        path.unlink(missing_ok=True)
    size = _bytes(sum(status.st_size for _, status in files))
    print(f"removed {len(files)} files, {size}, from {objects.cache_folder()}")
    return 0


def _objects() -> Any:
    # It needs llvmlite, which the other commands, and the doctor above all, do without.
    return importlib.import_module("functad.backends.cpu.compile.objects")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _bytes(number: int) -> str:
    return f"{number:,} bytes" if number < 10_000 else f"{number / 1e6:.2f} MB"
