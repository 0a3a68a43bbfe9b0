"""The cache of compiled kernels: what is kept, every way in which it can be damaged, and its command."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import functad
from functad.__main__ import main
from functad.backends.cpu.compile import machine, objects
from functad.backends.cpu.compile.loader import PREFIX
from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.compile.target import target_machine
from functad.errors import CompilationError

SOURCE = """
def add_one(x, out, start, stop):
    for i in range(start, stop):
        out[i] = x[i] + 1
"""
SIGNATURES = {"add_one": (np.dtype("int64"),) * 2}
IDENTITY, NAMES = "int64 int64", ["add_one"]
POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="only POSIX systems have owners and modes of files")


@pytest.fixture(scope="module")
def object_bytes():
    return machine.compile_kernels(SOURCE, "kernels.py", SIGNATURES)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the cache, empty; and no kernels in memory before or after."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))
    objects._loaded.clear()
    yield tmp_path / "cache" / "kernels"
    objects._loaded.clear()


@pytest.fixture
def cache(folder, object_bytes, caplog):
    """Calls `get_functions` as a new process would; says how often it compiled and what it logged."""
    caplog.set_level(logging.DEBUG, logger="functad")
    return Cache(object_bytes, caplog)


class Cache:
    def __init__(self, object_bytes, caplog):
        self.object_bytes, self.caplog = object_bytes, caplog
        self.compiled: list[str] = []

    def get(self, source=SOURCE, identity=IDENTITY, names=NAMES, forget=True):
        if forget:
            objects._loaded.clear()
        kernels = objects.get_functions(source, identity, names, self.make)
        assert add_one(kernels) == [2, 3, 4]
        return kernels

    def make(self, path):
        self.compiled.append(path)
        return self.object_bytes

    @property
    def log(self):
        return self.caplog.text


def add_one(kernels):
    x, out = np.array([1, 2, 3]), np.zeros(3, np.int64)
    slots, params = np.array([x.ctypes.data, out.ctypes.data]), np.array([0, 1])
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(kernels.addresses["add_one"])
    kernel(slots.ctypes.data, params.ctypes.data, 0, 3)
    return out.tolist()


def object_file(folder):
    (path,) = folder.glob("*.o")
    return path


# ---- what is kept


def test_compiled_once_then_found_in_memory_and_on_disk(cache, folder):
    first = cache.get()
    assert first.compiled and len(cache.compiled) == 1
    again = cache.get(forget=False)
    assert again.addresses is first.addresses and not again.compiled
    other_process = cache.get()
    assert other_process.addresses is not first.addresses and not other_process.compiled
    assert len(cache.compiled) == 1 and cache.log == ""


def test_source_lies_beside_the_object_before_anything_is_compiled(cache, folder):
    seen = []
    cache.make = lambda path: seen.append(Path(path).read_text()) or cache.object_bytes
    kernels = cache.get()
    assert seen == [SOURCE]
    assert kernels.source_file.parent == folder
    assert kernels.source_file.with_suffix(".o") == object_file(folder)


def test_damaged_or_removed_source_is_written_again(cache):
    path = cache.get().source_file
    for damage in (path.unlink, lambda: path.write_text("def add_"), lambda: path.write_text("")):
        damage()
        assert cache.get().source_file.read_text() == SOURCE
    assert len(cache.compiled) == 1


def test_source_alone_is_kept_for_plain_runs(folder):
    path = objects.keep_source(SOURCE)
    assert path.parent == folder and path.read_text() == SOURCE
    assert objects.keep_source(SOURCE) == path != objects.keep_source(SOURCE + "\n")


def test_kernels_that_nobody_holds_leave_memory(cache):
    kernels = cache.get()
    assert len(objects._loaded) == 1
    del kernels
    assert len(objects._loaded) == 0


def test_everything_that_matters_is_in_the_key(cache, monkeypatch):
    cache.get()
    cache.get(source=SOURCE + "# another comment\n")
    cache.get(identity="float32 float32")
    cache.get(names=["add_one", "add_one"])
    assert len(cache.compiled) == 4
    known = objects._environment()
    for k in range(len(known)):
        monkeypatch.setattr(objects, "_environment", lambda k=k: (*known[:k], "changed", *known[k + 1 :]))
        cache.get()
        assert len(cache.compiled) == 5 + k


def test_environment_names_versions_processor_and_the_files_that_compile(monkeypatch, tmp_path):
    objects._environment.cache_clear()
    known = objects._environment()
    for part in (functad.__version__, np.__version__, sys.version, *processor()):
        assert part in known
    names = ("executable.py", "vector_math.py", "facts.py")
    for k, (name, place) in enumerate(zip(names, objects._SOURCES, strict=True)):
        assert (place / name).exists()
        (tmp_path / name).write_text("changed")
        monkeypatch.setattr(objects, "_SOURCES", [*objects._SOURCES[:k], tmp_path, *objects._SOURCES[k + 1 :]])
        objects._environment.cache_clear()
        changed = [a != b for a, b in zip(known, objects._environment(), strict=True)]
        assert sum(changed) == 1
        (tmp_path / f".#{name}").symlink_to("nobody@nowhere")  # what Emacs makes as long as there is something to save
        objects._environment.cache_clear()
        assert [a != b for a, b in zip(known, objects._environment(), strict=True)] == changed
        monkeypatch.undo()
    objects._environment.cache_clear()


@POSIX
def test_only_the_owner_may_read_or_write(cache, folder):
    before = os.umask(0)
    try:
        cache.get()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


# ---- damaged files


@pytest.mark.parametrize("keep", [0, 1, 11, 200, -1, -2])
def test_truncated_file_is_compiled_again(cache, folder, keep):
    cache.get()
    path = object_file(folder)
    path.write_bytes(path.read_bytes()[:keep])
    assert cache.get().compiled
    assert f"{path} cannot be used: it is incomplete" in cache.log
    assert not cache.get().compiled


@pytest.mark.parametrize("position", [0, 70, 300, -150, -70, -20, -13, -12, -11, -9])
def test_damaged_byte_is_noticed(cache, folder, position):
    cache.get()
    path = object_file(folder)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)
    assert cache.get().compiled
    assert "it is damaged, or belongs to other kernels" in cache.log
    assert not cache.get().compiled


def test_file_of_other_kernels_is_not_taken(cache, folder):
    cache.get(identity="other")
    other = object_file(folder).read_bytes()
    cache.get()
    for path in folder.glob("*.o"):
        path.write_bytes(other)
    assert cache.get().compiled
    assert "belongs to other kernels" in cache.log


def test_object_without_what_this_process_has_is_compiled_again(cache, folder):
    cache.get()
    path = object_file(folder)
    text = f"declare void @functad_gone()\ndefine void @{PREFIX}add_one() {{ call void @functad_gone() ret void }}"
    stale = target_machine().emit_object(llvm.parse_assembly(text))
    path.write_bytes(objects._pack(path.stem, stale))
    assert cache.get().compiled
    assert "needs functions that this process does not have: functad_gone" in cache.log


def test_folder_in_the_place_of_a_file(cache, folder):
    cache.get()
    path = object_file(folder)
    path.unlink()
    path.mkdir()
    assert cache.get().compiled
    assert "cannot be used" in cache.log and "cannot be written" in cache.log
    assert not list(folder.glob("*.part"))


def test_what_cannot_be_compiled_leaves_no_object(folder):
    def make(path):
        raise CompilationError("no such word")

    with pytest.raises(CompilationError, match="no such word"):
        objects.get_functions(SOURCE, IDENTITY, NAMES, make)
    assert not list(folder.glob("*.o"))


# ---- places that cannot be used


def test_no_folder_can_be_made(cache, folder, monkeypatch):
    blocker = folder.parent
    blocker.write_text("a file, where the folder should be")
    kernels = cache.get()
    assert kernels.compiled and kernels.source_file.read_text() == SOURCE
    assert kernels.source_file.parent == objects._temporary_folder()
    assert "nothing is kept on disk" in cache.log


def test_folder_that_cannot_be_written(cache, folder, monkeypatch):
    def refuse(*arguments, **settings):
        raise OSError(errno.EROFS, "Read-only file system")

    write = objects.atomic_write
    monkeypatch.setattr(
        objects, "atomic_write", lambda path, **how: refuse() if folder in path.parents else write(path, **how)
    )
    kernels = cache.get()
    assert kernels.compiled and kernels.source_file.read_text() == SOURCE
    assert "cannot be written: [Errno 30] Read-only file system" in cache.log
    assert list(folder.iterdir()) == []


def test_no_place_for_files_at_all(cache, folder, monkeypatch):
    def refuse(*arguments, **settings):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(objects, "atomic_write", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    objects._temporary_folder.cache_clear()
    kernels = cache.get()
    assert kernels.compiled and kernels.source_file.suffix == ".py" and not kernels.source_file.exists()
    assert "no folder for temporary files" in cache.log
    objects._temporary_folder.cache_clear()


def test_no_home(cache, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(objects, "cache_folder", no_home)
    assert cache.get().compiled
    assert "Could not determine home directory." in cache.log


@POSIX
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_folder_that_others_can_write_is_not_used(cache, folder, mode):
    cache.get()
    folder.chmod(mode)
    kernels = cache.get()
    assert kernels.compiled and kernels.source_file.parent != folder
    assert "other users may write to it" in cache.log


@POSIX
def test_file_that_others_can_write_is_compiled_again(cache, folder):
    cache.get()
    object_file(folder).chmod(0o622)
    assert cache.get().compiled
    assert "other users may write to it" in cache.log
    assert stat.S_IMODE(object_file(folder).stat().st_mode) == 0o600


@POSIX
def test_what_belongs_to_another_user_is_not_used(cache, folder, monkeypatch):
    cache.get()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    kernels = cache.get()
    assert kernels.compiled and kernels.source_file.parent != folder
    assert f"it belongs to the user with number {me}" in cache.log


# ---- other processes

PREAMBLE = """
import pathlib, sys
from functad.backends.cpu.compile import objects

def make(path):
    return pathlib.Path(sys.argv[2]).read_bytes()
"""
GET = "kernels = objects.get_functions(sys.argv[1], 'int64 int64', ['add_one'], make)\n"


@pytest.fixture
def process(folder, object_bytes, tmp_path):
    """Starts a Python process that runs a script with the cache of this test."""
    (tmp_path / "made.o").write_bytes(object_bytes)

    def start(script):
        return subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + script, SOURCE, str(tmp_path / "made.o")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(functad.__file__).parents[1],
        )

    return start


def finish(running):
    output, problems = running.communicate(timeout=120)
    assert running.returncode == 0, problems
    return output


COMPILE = """
import numpy as np

def make(path):
    from functad.backends.cpu.compile import machine
    return machine.compile_kernels(sys.argv[1], path, {"add_one": (np.dtype("int64"),) * 2})

"""


def test_second_process_finds_the_kernels_and_does_not_import_numba(process):
    script = COMPILE + GET + "print(kernels.compiled, 'numba' in sys.modules)"
    assert finish(process(script)).split() == ["True", "True"]
    assert finish(process(script)).split() == ["False", "False"]


def test_processes_at_the_same_time(process, folder, cache):
    for each in [process(GET) for _ in range(3)]:
        finish(each)
    assert sorted(path.suffix for path in folder.iterdir()) == [".o", ".py"]
    assert not cache.get().compiled


@POSIX
def test_process_killed_in_mid_write(process, cache, folder):
    script = """
import os, signal
from functad.system import cache
cache.os.replace = lambda part, target: os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = process(script + GET)
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (part,) = folder.iterdir()
    assert part.suffix == ".part"
    assert cache.get().compiled
    assert not cache.get().compiled
    assert main(["cache", "clear"]) == 0
    assert list(folder.iterdir()) == []


@POSIX
def test_full_disk(process, folder):
    script = """
import logging, resource
logging.basicConfig(level=logging.DEBUG)
# No file may grow beyond this: writes then fail as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (len(sys.argv[1]) + 10, len(sys.argv[1]) + 10))
"""
    running = process(script + GET + "print(kernels.compiled)")
    output, log = running.communicate(timeout=120)
    assert (running.returncode, output.strip()) == (0, "True"), log
    assert ".o cannot be written: [Errno" in log
    assert [path.suffix for path in folder.iterdir()] == [".py"]


def test_temporary_sources_are_removed_at_the_end_of_the_process(process, folder):
    folder.parent.write_text("a file, where the folder should be")
    path = Path(finish(process(GET + "assert kernels.source_file.exists()\nprint(kernels.source_file)")).strip())
    assert path.suffix == ".py" and not path.parent.exists()


# ---- the command


def test_info_of_an_empty_cache(folder, capsys):
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder   {folder}",
        "objects  0",
        "size     0 bytes in 0 files",
    ]
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 0 files, 0 bytes, from {folder}\n"


def test_info_and_clear(cache, folder, capsys):
    cache.get()
    cache.get(identity="older")
    os.utime(cache.get(identity="oldest").source_file.with_suffix(".o"), (1e9, 1e9))
    (folder / "notes.txt").write_text("not a kernel")
    (folder / "kernel.o").write_text("not a kernel either")
    size = sum(path.stat().st_size for path in folder.glob("?" * 40 + ".*"))
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder   {folder}",
        "objects  3",
        f"size     {size:,} bytes in 6 files",
        f"oldest   {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(1e9))}",
        f"newest   {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(_newest(folder)))}",
    ]
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 6 files, {size:,} bytes, from {folder}\n"
    assert sorted(path.name for path in folder.iterdir()) == ["kernel.o", "notes.txt"]
    assert cache.get().compiled


def _newest(folder):
    return max(path.stat().st_mtime for path in folder.glob("?" * 40 + ".o"))
