"""The cache of compiled kernels: in this process, and on disk, where other processes find them.

This file must not know how kernels are compiled, and never imports Numba: it is told how to make what is missing.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import re
import struct
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from functad import machine_model
from functad.backends.cpu.compile.loader import Loaded, load_object
from functad.backends.cpu.compile.processor import processor
from functad.errors import CompilationError
from functad.primitives import kernels as formulas
from functad.records import NamedTuple
from functad.system.cache import atomic_write, cache_dir, read_file
from functad.system.garbage import collection_paused
from functad.system.log import logger
from functad.system.once import imported, unforked
from functad.system.source_files import files_of
from functad.version import __version__

_SOURCES = (Path(__file__).parent.parent, Path(formulas.__path__[0]), Path(machine_model.__path__[0]))
_loaded: WeakValueDictionary[str, Loaded] = WeakValueDictionary()

# A cache file is the object file, then JSON, then the length of the JSON and this mark:
# what follows the end of an object file is ignored by the tools that read such files.
_MARK = b"FUNCTAD1"
_LENGTH = struct.Struct("<I")
_OURS = r"[0-9a-f]{40}\.(o|py|in|plan|cubin)|\.[0-9a-f]{40}\.(o|py|in|plan|cubin)\.\d+-[0-9a-f]+\.part"


class LoadedObject(NamedTuple):
    """Functions ready to be called, and where they came from."""

    addresses: Loaded
    source_file: Path
    compiled: bool  # now, rather than found in the cache


def get_functions(source: str, identity: str, names: Sequence[str], make: Callable[[str], bytes]) -> LoadedObject:
    """The functions of one object file: loaded before, found on disk, or compiled now and kept.

    Trouble with the cache is no error: what cannot be read is compiled again, what cannot be written stays in
    memory, which is said once; the log (`functad`, level debug) says why.

    Args:
        source: the text of the functions, kept beside the object file for people to read.
        identity: what else decides about the machine code, such as the dtypes of the arguments.
        names: the functions that the object exports.
        make: compiles; is given the path of the file that holds `source`, returns the bytes of an object file.

    Raises:
        CompilationError: the functions cannot be compiled, or their machine code cannot be loaded.
    """
    key = compilation_key(source, identity, *names)
    source_file = _keep_source(_trusted_folder(), f"{key}.py", source.encode())
    addresses = _loaded.get(key) or find_functions(key, names)
    is_missing = addresses is None
    if addresses is None:
        addresses = compiled(key, source, names, make)
    _loaded[key] = addresses
    return LoadedObject(addresses, source_file, is_missing)


def find_functions(key: str, names: Sequence[str]) -> Loaded | None:
    """The functions `names` of the object file that lies on disk under a key, loaded; None if there is none."""
    folder = _trusted_folder()
    return None if folder is None else _find(folder / f"{key}.o", key, names)


def compiled(key: str, source: str, names: Sequence[str], make: Callable[[str], bytes]) -> Loaded:
    """As `get_functions`, made now, loaded, and kept under a key."""
    folder = _trusted_folder()
    path = _keep_source(folder, f"{key}.py", source.encode())
    with unforked, collection_paused():
        object_bytes = make(str(path))
        addresses = load_object(object_bytes, names)
    if folder is not None:
        _keep(folder / f"{key}.o", _pack(key, object_bytes))
    return addresses


def read_kept(name: str) -> bytes | None:
    """What a small file of the cache holds; None if it is not there."""
    folder = _trusted_folder()
    try:
        return None if folder is None else read_file(folder / name)[0]
    except OSError:
        return None


def write_kept(name: str, content: bytes) -> None:
    """Keep a small file in the cache, if there is one."""
    folder = _trusted_folder()
    if folder is not None:
        _keep(folder / name, content)


def write_alike(names: Sequence[str], content: bytes) -> None:
    """As `write_kept` for several small files of one content, which are links to the first one where there can be."""
    folder = _trusted_folder()
    if folder is None or not _keep(folder / names[0], content):
        return
    for name in names[1:]:
        try:
            os.link(folder / names[0], folder / name)
        except OSError:  # there is one of that name, or the folder is of a kind that knows no links
            _keep(folder / name, content)


def read_packed(name: str, key: str) -> bytes | None:
    """What `write_packed` has kept; None if it is not there, damaged, or may come from somebody else."""
    folder = _trusted_folder()
    return None if folder is None else _read_packed(folder / name, key)


def write_packed(name: str, key: str, content: bytes) -> None:
    """Keep a file with a checksum, for `read_packed`."""
    write_kept(name, _pack(key, content))


def keep_source(source: str) -> Path:
    """The file in which a source lies for people and debuggers to read."""
    return _keep_source(_trusted_folder(), f"{compilation_key(source)}.py", source.encode())


def cache_folder() -> Path:
    """The folder of the kernels on disk; it need not exist."""
    return cache_dir("kernels")


def cached_files() -> list[tuple[Path, os.stat_result]]:
    """The files of the cache on disk, unfinished ones included, and nothing else that may lie in its folder."""
    folder = cache_folder()
    files = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        # Another process may remove a file between two lines.
        if re.fullmatch(_OURS, path.name) and path.exists():
            files.append((path, path.stat()))
    return files


def _find(path: Path, key: str, names: Sequence[str]) -> Loaded | None:
    object_bytes = _read_packed(path, key)
    if object_bytes is None:
        return None
    try:
        with unforked:
            return load_object(object_bytes, names)
    except CompilationError as problem:
        _pass_over(path, problem)
        return None


def _read_packed(path: Path, key: str) -> bytes | None:
    try:
        content, status = read_file(path)
        if doubt := _doubt(status):
            raise CompilationError(doubt)
        return _unpack(key, content)
    except FileNotFoundError:
        pass
    except (OSError, CompilationError) as problem:
        _pass_over(path, problem)
    return None


def _pass_over(path: Path, doubt: Exception) -> None:
    logger().debug("kernel cache: compiling again, as %s cannot be used: %s", path, doubt)


def _keep(path: Path, content: bytes) -> bool:
    try:
        # Not durable: the checksum finds what a power failure leaves, and waiting for the disk costs more.
        with atomic_write(path, durable=False, private=True) as file:
            file.write(content)
        return True
    except OSError as problem:
        logger().debug("kernel cache: %s cannot be written: %s", path, problem)
        if path.parent == cache_folder():
            _say_once(path.parent, problem.strerror or str(problem))
        return False


def _keep_source(folder: Path | None, name: str, content: bytes) -> Path:
    if folder is not None and (_holds(folder / name, content) or _keep(folder / name, content)):
        return folder / name
    folder = _temporary_folder()
    if folder is not None and (_holds(folder / name, content) or _keep(folder / name, content)):
        return folder / name
    return Path(name)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return read_file(path)[0] == content
    except OSError:
        return False


def _pack(key: str, object_bytes: bytes) -> bytes:
    description = f'{{"key": "{key}", "sha256": "{hashlib.sha256(object_bytes).hexdigest()}"}}'.encode()
    return b"".join((object_bytes, description, _LENGTH.pack(len(description)), _MARK))


def _unpack(key: str, content: bytes) -> bytes:
    end = len(content) - len(_MARK) - _LENGTH.size
    if end < 0 or not content.endswith(_MARK):
        raise CompilationError("it is incomplete")
    (length,) = _LENGTH.unpack_from(content, end)
    object_bytes = content[: max(end - length, 0)]
    if content[len(object_bytes) :] != _pack(key, object_bytes)[len(object_bytes) :]:
        raise CompilationError("it is damaged, or belongs to other kernels")
    return object_bytes


def _trusted_folder() -> Path | None:
    folder = None
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        doubt = _doubt(folder.stat())
    except (OSError, RuntimeError) as problem:  # RuntimeError: the user has no home folder
        doubt = str(problem)
    if doubt:
        logger().debug("kernel cache: nothing is kept on disk: %s", doubt)
        _say_once(folder, doubt)
        return None
    return folder


@cache
def _say_once(folder: Path | None, problem: str) -> None:
    if folder is not None:
        problem = f"the folder {folder} cannot be used: {problem}"
    logger().warning(
        "functad keeps no compiled kernels for the next run, as %s. The environment variable FUNCTAD_CACHE_DIR can "
        "name another folder.",
        problem,
    )


def _doubt(status: os.stat_result) -> str:
    # Machine code is run as it is: it must not come from anybody else.
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to the user with number {status.st_uid}"
    if status.st_mode & 0o022:
        return "other users may write to it"
    return ""


def compilation_key(*parts: str) -> str:
    """A hash of texts, and of all else that decides about machine code: versions, processor, the compiler's files."""
    digest = hashlib.sha256()
    for part in (*parts, *_environment()):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:40]


@cache
def _environment() -> tuple[str, ...]:
    versions = (__version__, *map(_version_file, ("numba", "llvmlite")), np.__version__, sys.version)
    # Kernels call functions that are defined in these folders, whose files also decide how they are compiled.
    compiler = digest_of(sorted({path for folder in _SOURCES for path in files_of(folder)}))
    return (*versions, platform.system(), platform.machine(), *processor(), compiler)


def _version_file(package: str) -> str:
    # Numba takes half a second to import, `importlib.metadata` 10 ms: the file with a version says as much.
    found = find_spec(package)
    if found is None or found.origin is None:
        return "absent"  # kernels are kept to be read
    folder = Path(found.origin).parent
    version = folder / "_version.py"
    return digest_of([str(version if version.exists() else folder / "__init__.py")])


def digest_of(files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            digest.update(file.read())
    return digest.hexdigest()


@cache
def _temporary_folder() -> Path | None:
    # Seldom needed, and half as long to import as all else here.
    tempfile, shutil = imported("tempfile"), imported("shutil")
    try:
        folder = Path(tempfile.mkdtemp(prefix="functad-"))
    except OSError as problem:
        logger().debug("kernel cache: no folder for temporary files: %s", problem)
        return None
    owner = os.getpid()

    def remove() -> None:
        # A forked child leaves it to its parent.
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
