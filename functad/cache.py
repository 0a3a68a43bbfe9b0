"""Where functad keeps files between runs (the cache folder), and how a file is written whole or not at all.

This file must not know what is kept there: data sets and compiled programs each use a folder of their own.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def cache_dir(name: str = "") -> Path:
    """The folder in which functad keeps files of the kind `name`; it need not exist yet.

    `FUNCTAD_CACHE_DIR` names the folder; without it the convention of the platform holds:
    `$XDG_CACHE_HOME/functad` or `~/.cache/functad`, on macOS `~/Library/Caches/functad`, on Windows
    `%LOCALAPPDATA%\\functad\\Cache`.

    Args:
        name: the sub-folder, such as `"data"`; the cache folder itself when empty.

    Returns:
        An absolute path.

    >>> cache_dir("data").name
    'data'
    """
    chosen = os.environ.get("FUNCTAD_CACHE_DIR")
    root = Path(chosen).expanduser().absolute() if chosen else _platform_cache()
    return root / name if name else root


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, durable: bool = True, private: bool = False) -> Iterator[BinaryIO]:
    """A binary file to write, which takes the place of `path` when the block ends without an exception.

    Until then, and for ever if the block raises, `path` is what it was before. Missing folders are made.

    Args:
        path: the file to write.
        durable: wait until the bytes are on the disk. Without it a power failure may leave a damaged file.
        private: only the owner may read or write the file (and its folder, if it is made here).

    Returns:
        A context manager that gives the open file.

    Raises:
        OSError: the folder cannot be made or written to.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "folder" / "numbers.bin"
    >>> with atomic_write(path) as file:
    ...     _ = file.write(b"123")
    >>> path.read_bytes()
    b'123'
    """
    target = Path(path)
    target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=_open_private if private else None) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _platform_cache() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "functad" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "functad"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard says that a relative path is to be ignored.
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "functad"
