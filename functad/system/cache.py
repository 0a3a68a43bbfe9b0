"""Where functad keeps files between runs (the cache folder); how a file is written whole or not at all, and read.

This file must not know what is kept there: data sets and compiled programs each use a folder of their own.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# A file that is being written: the name of the one whose place it takes, the process, and a random number.
_PART = r"\..+\.\d+-[0-9a-f]{8}\.part"
_tidied: set[Path] = set()  # folders that this process has looked through
_STALE = 24 * 3600.0  # s after which nobody is taken to write a file any more, where that cannot be asked


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

    Until then, and for ever if the block raises, `path` is what it was before. Missing folders are made. What processes
    that were killed while they wrote have left in the folder is removed.

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
    with part_of(target, private=private) as file:
        yield file
        file.flush()
        if durable:
            os.fsync(file.fileno())
        if fcntl is None:
            file.close()  # Windows renames no open file
        os.replace(file.name, target)


@contextmanager
def part_of(target: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A new file beside `target`, which is removed at the end unless it has been renamed.

    Raises:
        OSError: the folder cannot be made or written to.
    """
    folder = target.parent
    folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    if not (private and folder in _tidied):  # the folder of a cache may be large, and is written to often
        _remove_parts(folder)
        _tidied.add(folder)
    file = _new_part(target, private)
    try:
        with file:
            yield file
    finally:
        Path(file.name).unlink(missing_ok=True)


def read_file(path: Path) -> tuple[bytes, os.stat_result]:
    """The content and the status of a regular file; nothing else is waited for or read.

    Raises:
        OSError: there is no such file, or it is no regular one, such as a folder or a pipe.

    >>> import tempfile
    >>> read_file(Path(tempfile.mkdtemp()))
    Traceback (most recent call last):
    OSError: [Errno 22] it is no regular file
    """
    if sys.platform == "win32":
        descriptor = os.open(path, os.O_RDONLY | os.O_BINARY)
    else:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)  # opening a pipe would wait for a writer
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), status
    finally:
        os.close(descriptor)


def _new_part(target: Path, private: bool) -> BinaryIO:
    """A file to write, which is locked as long as it is open: so others see that somebody writes it."""
    while True:
        name = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
        file = open(name, "xb", opener=_open_private if private else None)
        if fcntl is None or not _lock(file.fileno(), wait=True, otherwise=False):
            return file
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # somebody has removed it before it was locked


def _remove_parts(folder: Path) -> None:
    """Remove the files that nobody writes any more."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if re.fullmatch(_PART, entry.name)]
    for name in names:
        try:
            _remove_abandoned(folder / name)
        except OSError as problem:
            # Gone meanwhile, somebody else's, or in use: that is the business of its writer.
            if problem.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM):
                raise


def _remove_abandoned(path: Path) -> None:
    status = path.lstat()
    is_old = time.time() - status.st_mtime > _STALE
    if not stat.S_ISREG(status.st_mode):
        return
    if fcntl is None:
        if is_old:
            path.unlink()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # Removed under its lock: a writer that waits for it sees then that the file is gone.
        if _lock(descriptor, wait=False, otherwise=is_old):
            path.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool, otherwise: bool) -> bool:
    """Lock a file; False if somebody else has it, `otherwise` on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True


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
