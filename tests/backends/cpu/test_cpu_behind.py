"""Jobs that are done behind the thread that makes them: order, errors, and who works; kernels compiled in batches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import llvmlite.binding as llvm
import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

from functad import machine_model
from functad.backends.cpu.compile import behind, machine
from functad.backends.cpu.compile.behind import do_behind
from functad.backends.cpu.compile.loader import load_object
from functad.errors import CompilationError
from tests.backends.cpu.test_cpu_machine import run


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    count = {"count": 2}
    monkeypatch.setattr(behind, "available_cores", lambda: (count["count"], "a test"))
    return count


@pytest.mark.parametrize("count", [2, 5])
def test_jobs_are_made_while_others_are_done(cores: dict[str, int], count: int) -> None:
    cores["count"] = count
    started, made = threading.Event(), threading.Event()
    workers = []

    def jobs() -> Iterator[Callable[[], None]]:
        yield lambda: job(0)
        assert started.wait(20)
        made.set()
        yield from (partial(job, number) for number in range(1, 9))

    def job(number: int) -> None:
        workers.append(threading.current_thread())
        done.append(number)
        started.set()
        assert made.wait(20)

    done: list[int] = []
    interval = sys.getswitchinterval()
    do_behind(jobs())
    assert sorted(done) == list(range(9))
    here = threading.current_thread()
    assert workers[0] is not here and len(set(workers)) <= count
    assert not any(worker.is_alive() for worker in workers if worker is not here)
    assert sys.getswitchinterval() == interval


def test_the_thread_that_made_the_jobs_does_some_itself(cores: dict[str, int]) -> None:
    both = threading.Barrier(2, timeout=20)  # two jobs at once: one of them by this thread
    workers = []

    def job() -> None:
        both.wait()
        workers.append(threading.current_thread())

    do_behind([job, job])
    assert threading.current_thread() in workers and len(set(workers)) == 2


def test_one_core_needs_no_other_thread(cores: dict[str, int]) -> None:
    cores["count"] = 1
    workers: list[threading.Thread] = []
    do_behind((lambda: workers.append(threading.current_thread())) for _ in range(3))
    assert workers == [threading.current_thread()] * 3


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("bad", range(4))
def test_what_a_job_raises_is_raised(cores: dict[str, int], count: int, bad: int) -> None:
    cores["count"] = count
    interval = sys.getswitchinterval()
    done: list[float] = []
    with pytest.raises(ZeroDivisionError):
        do_behind((lambda k=k: done.append(1 // (k - bad))) for k in range(4))
    assert len(done) == bad if count == 1 else len(done) < 4
    assert sys.getswitchinterval() == interval


def test_who_does_not_wait_waits_for_one_job_only(cores: dict[str, int]) -> None:
    started, stopped = threading.Event(), threading.Event()
    here = threading.current_thread()
    done: list[int] = []

    def job(number: int) -> None:
        if threading.current_thread() is here:
            assert started.wait(20)
            stopped.set()
            raise KeyboardInterrupt
        started.set()
        assert stopped.wait(20)
        done.append(number)

    interval = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt):
        do_behind(partial(job, number) for number in range(9))
    assert len(done) <= 2 and sys.getswitchinterval() == interval


def test_who_does_not_wait_for_the_last_job_waits_for_that_one(
    cores: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started, joined = threading.Event(), threading.Event()
    join = threading.Thread.join
    done: list[int] = []

    def job() -> None:
        started.set()
        assert joined.wait(20)
        done.append(1)

    def interrupted(thread: threading.Thread) -> None:
        if not joined.is_set():
            joined.set()
            raise KeyboardInterrupt
        join(thread)

    def jobs() -> Iterator[Callable[[], None]]:
        yield job
        assert started.wait(20)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    interval = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt):
        do_behind(jobs())
    assert done == [1] and sys.getswitchinterval() == interval


@pytest.mark.parametrize("count", [2, 5])
def test_threads_that_cannot_start_are_not_needed(
    cores: dict[str, int], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    cores["count"] = count
    start = threading.Thread.start
    left = [start] * (count - 2)

    def started(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    done: list[int] = []
    do_behind(partial(done.append, k) for k in range(9))
    assert sorted(done) == list(range(9))


@pytest.mark.parametrize("is_started", [False, True])
def test_who_does_not_wait_for_a_start_is_told_so(
    cores: dict[str, int], monkeypatch: pytest.MonkeyPatch, is_started: bool
) -> None:
    start, threads = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        threads.append(thread)
        if is_started:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    interval = sys.getswitchinterval()
    with pytest.raises(KeyboardInterrupt):
        do_behind((lambda: None) for _ in range(3))
    assert not threads[0].is_alive() and sys.getswitchinterval() == interval


def test_what_makes_jobs_may_fail_too(cores: dict[str, int]) -> None:
    workers = []

    def jobs() -> Iterator[Callable[[], None]]:
        yield lambda: workers.append(threading.current_thread())
        raise KeyError("no more")

    interval = sys.getswitchinterval()
    with pytest.raises(KeyError, match="no more"):
        do_behind(jobs())
    assert not any(worker.is_alive() for worker in workers) and sys.getswitchinterval() == interval


def test_python_goes_on_while_llvm_works(cores: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    # Its passes only begin when `meanwhile` is under way, which itself calls LLVM.
    goes_on = threading.Event()
    passes = machine.run_passes
    monkeypatch.setattr(machine, "run_passes", lambda *given: goes_on.wait(20) and passes(*given))

    def meanwhile() -> None:
        assert "i32" in str(llvm.parse_assembly("define i32 @f() {\n ret i32 0\n}"))
        goes_on.set()

    source = "def copy(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = x[i]\n"
    made = machine.compile_kernels(source, "k.py", {"copy": [np.dtype("float32")] * 2}, meanwhile=meanwhile)
    assert goes_on.is_set()
    run(load_object(made, ["copy"]), "copy", x := np.arange(5, dtype="f4"), out := np.empty_like(x))
    np.testing.assert_array_equal(out, x)


def test_kernels_of_several_batches_are_one_archive(cores: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "BATCH_FOR_LLVM", 1)
    names = [f"kernel{k}" for k in range(5)]
    source = "import math\n" + "".join(
        f"def {name}(x, out, start, stop):\n    for i in range(start, stop):\n        out[i] = {k} * math.exp(x[i])\n"
        for k, name in enumerate(names)
    )
    signatures = dict.fromkeys(names, [np.dtype("float32")] * 2)
    batches = []
    optimized = machine._optimized
    monkeypatch.setattr(machine, "_optimized", lambda *given: batches.append(given) or optimized(*given))
    made = machine.compile_kernels(source, "kernels.py", signatures)
    assert len(batches) == 5 and made.startswith(b"!<arch>")
    cores["count"] = 1
    assert machine.compile_kernels(source, "kernels.py", signatures) == made
    addresses = load_object(made, names)
    x = np.linspace(-2, 2, 33, dtype="f4")
    for k, name in enumerate(names):
        run(addresses, name, x, out := np.empty_like(x))
        np.testing.assert_allclose(out, k * np.exp(x), rtol=1e-6)
    with pytest.raises(CompilationError, match="damaged archive"):
        load_object(made + b"!" * 100, names)
