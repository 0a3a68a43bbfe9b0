"""The kinds of faults: each is a function of a folder, a number and a generator that raises `Fault`."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import random
import resource
import select
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import functad
import functad.numpy as jnp
from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile import shared_kernels as kernels
from tests.faults import work
from tests.faults.processes import HANG, Fault, finish, run, start

HOURS = 6 * 3600.0  # s: as long as it takes


def use_folder(folder: Path | str) -> None:
    """Keep kernels there; this process has none in memory."""
    os.environ["FUNCTAD_CACHE_DIR"] = str(folder)
    assert not objects._loaded and not kernels._known, "the children would not look at the folder"


def kills(folder: Path, count: int, choose: random.Random) -> None:
    """Processes are killed while they compile, keep what they compiled, and save."""
    use_folder(folder)
    saved = folder / "saved" / "file.npz"

    def busy(seed: int) -> None:
        work.save(saved, seed)
        work.compute(seed)
        work.save(saved, seed + 1)

    def whole() -> None:
        work.check_saved(saved)
        work.compute(0)
        work.save(saved, 0)
        left = list(saved.parent.glob(".*.part"))
        assert not left, f"nobody removes {left}"

    run(whole, "the first process")
    for number in range(count):
        if number % 2:
            forget_one(folder, choose)
        child = start(partial(busy, choose.randrange(1 << 30)))
        time.sleep(choose.random() ** 2 * 0.5)
        os.kill(child, signal.SIGKILL)
        finish(child, f"process {number}", killed=True)
        if number % 10 == 9:
            run(whole, f"the process after kill {number}")
    run(whole, "the last process")


def saves(folder: Path, count: int, choose: random.Random) -> None:
    """Processes save one version after the other until they are killed: the last that was finished is there, and whole.

    Files of both formats, and checkpoints, of which three are kept.
    """
    receive, send = os.pipe()
    os.set_blocking(receive, False)
    there = dict.fromkeys(work.SAVED, 0)

    def busy(kind: str) -> None:
        save = work.saver(folder / kind)
        for version in itertools.count(there[kind] + 1):
            save(version)
            os.write(send, version.to_bytes(8, "little"))

    for number in range(count):
        kind = choose.choice(work.SAVED)
        child = start(partial(busy, kind))
        has_saved = select.select([receive], [], [], HANG)[0]
        time.sleep(choose.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        finish(child, f"process {number}", killed=True)
        if not has_saved:
            raise Fault(f"kill {number}: {kind} was not saved once")
        last = there[kind]
        try:
            while told := os.read(receive, 8):
                last = int.from_bytes(told, "little")
        except BlockingIOError:
            pass  # that was all
        there[kind] = work.version_of(folder / kind)
        if there[kind] not in (last, last + 1):
            raise Fault(f"kill {number}: {kind} has version {there[kind]}, but {last} was saved last")
    print(f"          {sum(there.values())} versions were saved", flush=True)


def interrupts(folder: Path, count: int, choose: random.Random) -> None:
    """A signal's handler raises at any time while a process compiles, computes and saves; then it does that again."""
    use_folder(folder)

    class Interruption(KeyboardInterrupt):
        """As Ctrl-C; a compiler may take a mere Exception for one of its own."""

    def interrupt(*_: object) -> None:
        raise Interruption

    def again(seed: int) -> None:
        signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001 + random.Random(seed).random() * 0.3)
            work.save(folder / "file.npz", seed)
            work.compute(seed)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            pass  # the signal came
        work.check_saved(folder / "file.npz")
        work.compute(seed)

    for number in range(count):
        forget_one(folder, choose)
        forget_one(folder, choose)
        run(partial(again, choose.randrange(1 << 30)), f"interrupted process {number}")


def flips(folder: Path, count: int, choose: random.Random) -> None:
    """Bytes of the cache are other ones, missing, or too many."""
    use_folder(folder)
    run(partial(work.compute, 0), "the first process")
    for number in range(count):
        path = choose.choice(files(folder))
        damage(path, choose)
        run(partial(work.compute, number), f"the process after damage {number}, to {path.name}")


def damage(path: Path, choose: random.Random) -> None:
    content = bytearray(path.read_bytes())
    place = choose.randrange(max(len(content), 1))
    kind = choose.randrange(8)
    if kind == 0:
        content = content[:place]
    elif kind == 1:
        content += choose.randbytes(1 + choose.randrange(100))
    elif kind == 2:
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    elif content:
        content[place] ^= 1 << choose.randrange(8)
    path.write_bytes(content)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "kernels").iterdir() if p.is_file())


def forget_one(folder: Path, choose: random.Random) -> None:
    found = files(folder) if (folder / "kernels").exists() else []
    if found:
        choose.choice(found).unlink()


def folders(folder: Path, count: int, choose: random.Random) -> None:
    """Folders that are full, or cannot be used; and one that many processes share while files vanish."""
    saved = folder / "file.npz"
    work.save(saved, 1)
    before = saved.read_bytes()

    def full(most: int) -> None:
        logging.getLogger("functad").setLevel(logging.ERROR)  # it says so: tests/system/test_cache_files.py
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        work.compute(most)
        try:
            work.save(saved, 2)
        except OSError:
            return
        raise AssertionError("a file was saved where there is no room")

    def unusable() -> None:
        logging.getLogger("functad").setLevel(logging.ERROR)
        work.compute(0)

    for number in range(count):
        use_folder(folder / f"full {number}")
        run(partial(full, choose.choice([0, 1, 100, 3000, 9000, 20_000])), f"the process with full folder {number}")
        if saved.read_bytes() != before:
            raise Fault(f"full folder {number}: the file saved before is lost")
    (folder / "a file").write_text("no folder")
    for name in ("/proc/functad", "/dev/null/functad", folder / "a file" / "functad"):
        use_folder(name)
        run(unusable, f"the process with the cache {name}")
    use_folder(folder / "shared")
    for number in range(count):
        children = [start(partial(work.compute, choose.randrange(1 << 30))) for _ in range(4)]
        for _ in range(10):
            time.sleep(0.01)
            forget_one(folder / "shared", choose)
        for child in children:
            finish(child, f"a process of the shared folder, round {number}")


def threads(folder: Path, count: int, choose: random.Random) -> None:
    """Sixteen threads, each of which calls functions so many times."""
    use_folder(folder)
    numbers = [choose.randrange(1 << 30) for _ in range(16)]

    def all_threads() -> None:
        functions = [functad.jit(function) for function, _ in work.FUNCTIONS]
        failed: list[BaseException] = []

        def calls(seed: int) -> None:
            own = random.Random(seed)
            inputs = [work.X * np.float32(own.random()) for _ in range(3)]
            wanted = [[reference(x) for _, reference in work.FUNCTIONS] for x in inputs]
            try:
                for _ in range(count):
                    k, n = own.randrange(3), own.randrange(len(functions))
                    found = np.asarray(functions[n](inputs[k]))
                    assert np.abs(found - wanted[k][n]).max() < 1e-4, f"function {n}"
            except BaseException as problem:
                failed.append(problem)

        started = [threading.Thread(target=calls, args=(seed,)) for seed in numbers]
        for t in started:
            t.start()
        for t in started:
            t.join()
        if failed:
            raise failed[0]

    run(all_threads, "the process with threads", limit=HOURS)


def forks(folder: Path, count: int, choose: random.Random) -> None:
    """A process that computes and compiles in several threads forks children, which compute and compile as well."""
    use_folder(folder)

    def parent() -> None:
        ended = threading.Event()
        failed: list[BaseException] = []

        def calls(seed: int) -> None:
            own = random.Random(seed)
            try:
                while not ended.is_set():
                    work.check(own.randrange(len(work.FUNCTIONS)), own.random())
            except BaseException as problem:
                failed.append(problem)

        started = [threading.Thread(target=calls, args=(seed,)) for seed in range(3)]
        for t in started:
            t.start()
        try:
            for number in range(count):
                time.sleep(choose.random() * 0.02)
                run(partial(work.compute, number), f"forked child {number}")
        finally:
            ended.set()
        for t in started:
            t.join()
        if failed:
            raise failed[0]

    run(parent, "the process that forks", limit=HOURS)


def memory(folder: Path, count: int, choose: random.Random) -> None:
    """So many jitted functions, one after the other, with kernels of their own now and then: what stays is little."""
    use_folder(folder)

    def jits() -> None:
        square = functad.jit(lambda x, k: x * k + k, static_argnums=1)
        for number in range(50):
            one_jit(number, square)
        before = resident()
        for number in range(50, 50 + count):
            one_jit(number, square)
        stays = resident() - before
        print(f"          {count} jitted functions leave {stays:.1f} MB", flush=True)
        assert stays < 50, f"{stays:.1f} MB stay"

    run(jits, "the process with many jitted functions", limit=HOURS)


def one_jit(number: int, square: Callable[..., object]) -> None:
    x = np.ones(3 + number % 50, np.float32)
    functad.jit(lambda x: jnp.sin(x) * number + 1)(x)
    square(x, number)
    if number % 100 == 0:  # a kernel of its own
        kinds = [jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.abs]
        chain = [kinds[number // 100 // 5**k % 5] for k in range(6)]

        def own(x: object) -> object:
            for kind in chain:
                x = kind(x) + x
            return x

        functad.jit(own)(x)


def resident() -> float:
    """Megabytes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
