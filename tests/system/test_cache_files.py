"""Files that are written whole or not at all, what killed writers leave, and what is no file at all."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import io
from functad.backends.cpu.compile import objects
from functad.system import cache

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, owners and locks of POSIX")

WRITER = """
import os, signal, sys
from functad.system.cache import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """Starts a process that writes a file until its input is closed."""
    started = []

    def start() -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
        root = Path(functad.__file__).parents[1]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True, cwd=root))
        assert started[-1].stdout.readline() == "writing\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".*.part"))


def test_the_next_save_removes_what_a_killed_one_left(writer, tmp_path):
    killed = writer()
    killed.send_signal(signal.SIGKILL)
    killed.wait(60)
    assert len(parts(tmp_path)) == 1
    io.save(tmp_path / "params.npz", {"w": np.ones(3)})
    assert not parts(tmp_path) and list(io.load(tmp_path / "params.npz")) == ["w"]


def test_what_somebody_writes_is_not_removed(writer, tmp_path):
    other = writer()
    for k in range(3):
        io.save(tmp_path / "file", [np.ones(k)])
    assert len(parts(tmp_path)) == 1
    other.communicate("", timeout=60)
    assert (tmp_path / "file").read_bytes() == b"half" and not parts(tmp_path)


def test_many_writers_of_one_file(tmp_path):
    failed = []

    def write(k: int) -> None:
        try:
            for _ in range(100):
                with cache.atomic_write(tmp_path / "file", durable=False) as file:
                    file.write(bytes([k]) * 1000)
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and not parts(tmp_path)
    assert len(set((tmp_path / "file").read_bytes())) == 1


def test_files_of_similar_names_are_left_alone(tmp_path):
    names = [".file.part", "file.1-0123abcd.part", ".file.1-0123abcd.part.bak", ".file.x-0123abcd.part"]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".folder.1-0123abcd.part").mkdir()
    io.save(tmp_path / "file", [1.0])
    assert {p.name for p in tmp_path.iterdir()} == {*names, ".folder.1-0123abcd.part", "file"}


def test_a_trial_leaves_nothing(tmp_path):
    io.check_writable(tmp_path / "new" / "params.npz")
    assert list((tmp_path / "new").iterdir()) == []


def test_where_files_cannot_be_locked_age_decides(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(cache.fcntl, "flock", refuse)
    old, new = (tmp_path / f".file.1-{k}0000000.part" for k in (1, 2))
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    io.save(tmp_path / "file", [1.0])
    assert parts(tmp_path) == [new]


# --- what lies in the place of a kernel -----------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def nowhere(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def circle(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("kind", [pipe, folder, nowhere, endless, circle])
def test_only_files_are_read(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    objects.write_kept("note.in", b"text")
    assert objects.read_kept("note.in") == b"text"
    path = tmp_path / "kernels" / "note.in"
    path.unlink()
    kind(path)
    with pytest.raises(OSError):
        cache.read_file(path)
    assert objects.read_kept("note.in") is None and objects.find_functions("note", ["f"]) is None
    objects.write_kept("note.in", b"text")  # takes the place of all but folders
    assert objects.read_kept("note.in") == (None if kind is folder else b"text")


def no_links(*paths: Path) -> None:
    raise OSError("no links here")


@pytest.mark.parametrize("has_links", [True, False])
def test_files_of_one_content_are_written_at_once(has_links, tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    kernels = tmp_path / "kernels"
    objects.write_kept("c", b"old")
    nowhere(kernels / "d")
    objects.write_alike(list("abcd"), b"new")
    assert [objects.read_kept(name) for name in "abcd"] == [b"new"] * 4
    assert len({(kernels / name).stat().st_ino for name in "abcd"}) == (3 if has_links else 4)
    objects.write_kept("a", b"newer")  # which is no longer the file of the others
    assert [objects.read_kept(name) for name in "ab"] == [b"newer", b"new"]


def test_no_process_waits_for_pipes_in_the_place_of_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    root = Path(functad.__file__).parents[1]
    script = "import functad, functad.numpy as jnp\nprint(functad.jit(lambda x: jnp.sin(x) * 3)(jnp.zeros(3)).sum())"

    def run() -> list[Path]:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=root)
        assert (done.returncode, done.stdout, done.stderr) == (0, "0.0\n", "")
        return list((tmp_path / "kernels").iterdir())

    for path in (files := run()):
        path.unlink()
        pipe(path)
    assert sorted(run()) == sorted(files) and all(stat.S_ISREG(path.lstat().st_mode) for path in files)


def test_an_unusable_folder_is_said_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path / "cache"))
    objects._say_once.cache_clear()
    caplog.set_level(logging.WARNING, logger="functad")
    for k in range(3):
        x = jnp.arange(7.0 + k)
        assert functad.jit(lambda x, k=k: x.sum() * (k + 3) - jnp.cos(x).sum())(x).shape == ()
    (said,) = caplog.messages
    assert str(tmp_path / "cache") in said and "FUNCTAD_CACHE_DIR" in said
