"""Tapes and the pool: order, chunks, entry from Python, stress with many threads, fork, exit, changes of the number."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import functad
from functad.backends.cpu.compile.integer_compiler import compile_words
from functad.backends.cpu.compile.loader import load_object
from functad.backends.cpu.executable import compile_program
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime import tape as runtime_module
from functad.backends.cpu.runtime.tape import Tape, TapeBlock, TapeInstruction, runtime, settle
from functad.config import config
from functad.errors import ArgumentError

KERNELS = '''
def increment(slots, params, start, stop) -> None:
    """x[i] += params[1] for the slot params[0]"""
    x = slots[params[0]]
    i = start
    while i < stop:
        x[i] += params[1]
        i += 1


def prefix(slots, params, start, stop) -> None:
    """y[i] = 2 x[i] + params[2]"""
    x = slots[params[0]]
    y = slots[params[1]]
    i = start
    while i < stop:
        y[i] = 2 * x[i] + params[2]
        i += 1


def record(slots, params, start, stop) -> None:
    """Writes start and stop to the next free place of the log in slot 0, whose first word counts."""
    log = slots[0]
    place = log[0]
    log[1 + 2 * place] = start
    log[2 + 2 * place] = stop
    log[0] = place + 1


def wait(slots, params, start, stop) -> None:
    """Waits until x[1] is 1; x[0] says that it waits."""
    x = slots[0]
    publish(x, 0, 1)
    while load(x, 1) == 0:
        pause()
'''
NAMES = ("increment", "prefix", "record", "wait")
LOADED = load_object(compile_words(KERNELS, {}, NAMES), NAMES)


def instruction(name: str, *params: int, scale: int = 1) -> TapeInstruction:
    return TapeInstruction(LOADED[name], np.array(params or (0,), np.int64), scale)


@pytest.fixture(autouse=True)
def _restore_threads():
    before = config.num_threads
    yield
    config.update("num_threads", before)


def bound(blocks, arrays: int, **options):
    return Tape(blocks, **options).bind(np.zeros(arrays, np.int64), arrays)


def call(run, *arrays) -> None:
    status = run(list(arrays))
    if status:
        settle(status)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("release_gil", [True, False])
def test_blocks_run_in_order_and_all_instructions_over_each_chunk(threads, release_gil):
    config.update("num_threads", threads)
    x, y, z = np.arange(1000), np.zeros(1000, np.int64), np.zeros(1000, np.int64)
    blocks = [
        TapeBlock(1000, [instruction("increment", 0, 5), instruction("prefix", 0, 1, 1)], 64),
        TapeBlock(100, [instruction("prefix", 1, 2, 0, scale=10)], 7),
        TapeBlock(1, [instruction("increment", 2, 1, scale=1000)]),
    ]
    run = bound(blocks, 3, release_gil=release_gil)
    for _ in range(3):
        x[:] = np.arange(1000)
        call(run, x, y, z)
        np.testing.assert_array_equal(y, 2 * (np.arange(1000) + 5) + 1)
        np.testing.assert_array_equal(z, 2 * y + 1)


def test_chunks_depend_on_the_tape_alone():
    config.update("num_threads", 1)
    log = np.zeros(100, np.int64)
    call(bound([TapeBlock(10, [instruction("record", scale=3)], 4), TapeBlock(10, [instruction("record")], 0)], 1), log)
    np.testing.assert_array_equal(log[:9], [4, 0, 12, 12, 24, 24, 30, 0, 10])


def test_many_rows_make_no_more_chunks_than_can_be_counted():
    assert runtime_module._chunks(TapeBlock(10**8, [], 1)) == (1526, 65531)


def test_empty_tapes_and_blocks():
    x = np.arange(3)
    call(bound([], 1), x)
    call(bound([TapeBlock(0, [instruction("increment", 0, 1)], 5), TapeBlock(3, [], 1)], 1), x)
    np.testing.assert_array_equal(x, np.arange(3))


@pytest.mark.parametrize("natively", [True, False])
def test_arrays_that_cannot_be_used_are_named_and_nothing_runs(natively, monkeypatch):
    if natively:
        assert runtime().entry_problem == ""
    monkeypatch.setattr(runtime(), "entry_problem", "" if natively else "for a test")
    x, y = np.zeros(4, np.int64), np.zeros(8, np.int64)
    run = bound([TapeBlock(4, [instruction("increment", 0, 1)])], 2)
    assert run([x, y]) == 0 and x[0] == 1
    for bad in (y[::2], y.view(np.matrix), [1], 3.0, np.frombuffer(b"12345678901234567", "u1", 16, 1).view("i8")):
        assert run([x, bad]) == 2
        assert run([bad, y]) == 1
    assert run([x]) == run([x, y, y]) == w.WRONG_COUNT
    assert x[0] == 1
    with pytest.raises(ArgumentError, match="array 1 of a compiled program is not a C-contiguous"):
        settle(2)
    with pytest.raises(ArgumentError, match="wrong number of arrays"):
        settle(w.WRONG_COUNT)
    settle(0)


def test_a_bound_tape_keeps_what_it_needs():
    run = bound([TapeBlock(4, [instruction("increment", 0, 1)])], 1)
    keep = [np.full(5, i) for i in range(1000)]
    x = np.zeros(4, np.int64)
    call(run, x)
    assert len(keep) == 1000
    np.testing.assert_array_equal(x, np.ones(4))


def test_helpers_start_when_needed_and_follow_the_option():
    pool = runtime().pool
    config.update("num_threads", 3)
    pool.stop()
    x = np.zeros(100, np.int64)
    run = bound([TapeBlock(100, [instruction("increment", 0, 1)], 10)], 1)
    serial = bound([TapeBlock(100, [instruction("increment", 0, 1)])], 1)
    assert serial([x]) == 0 and pool.running == 0
    assert run([x]) == w.HELPERS_MISSING and pool.running == 0
    settle(w.HELPERS_MISSING)
    assert run([x]) == 0 and (pool.running, pool.threads) == (2, 3)
    with config.context(num_threads=1):
        assert (pool.running, pool.threads) == (0, 1)
        assert run([x]) == 0
    assert run([x]) == w.HELPERS_MISSING
    np.testing.assert_array_equal(x, np.full(100, 5))


def test_helpers_start_before_the_first_call_of_what_has_work_for_them():
    pool = runtime().pool
    config.update("num_threads", 3)
    for size, running in ((10, 0), (1_000_000, 2)):
        made = compile_program(functad.make_jaxpr(lambda x: functad.numpy.sin(x) * 2)(np.ones(size, np.float32)))
        pool.stop()
        made.new_context()
        assert pool.running == running


@pytest.mark.parametrize(("number", "wanted"), [(1, 3), (3, 3), (1, 0), (3, 2)])
@pytest.mark.parametrize("is_started", [False, True])
def test_helpers_whose_start_is_interrupted_are_stopped(monkeypatch, is_started, number, wanted):
    pool = runtime().pool
    config.update("num_threads", 4)
    pool.stop()
    start, begun = threading.Thread.start, []

    def interrupted(thread):
        begun.append(thread)
        if is_started or len(begun) < number:
            start(thread)
        if len(begun) == number:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.start()
    sleeping = number - (not is_started)
    deadline = time.monotonic() + 10
    while pool.words[w.SLEEPERS] < sleeping and time.monotonic() < deadline:
        time.sleep(0.001)
    assert pool.words[w.SLEEPERS] == sleeping
    stopping = threading.Thread(target=lambda: (pool.set_threads(wanted + 1), pool.start()), daemon=True)
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive() and not any(thread.is_alive() for thread in begun) and pool.running == wanted


def test_a_hundred_thousand_jobs_with_a_changing_number_of_threads():
    x = np.zeros(24, np.int64)
    blocks = [TapeBlock(24, [instruction("increment", 0, 1)], 8)] * 100
    run = bound(blocks, 1)
    for round_ in range(100):
        config.update("num_threads", 1 + round_ % 5)
        for _ in range(10):
            call(run, x)
    np.testing.assert_array_equal(x, np.full(24, 100 * 10 * 100))


def test_idle_helpers_sleep_and_wake():
    config.update("num_threads", 3)
    pool = runtime().pool
    x = np.zeros(300, np.int64)
    run = bound([TapeBlock(300, [instruction("increment", 0, 1)], 1)], 1)
    for _ in range(30):
        call(run, x)
        deadline = time.monotonic() + 10
        while pool.words[w.SLEEPERS] < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert pool.words[w.SLEEPERS] == 2
    before = time.process_time()
    time.sleep(0.05)
    assert time.process_time() - before < 0.02
    np.testing.assert_array_equal(x, np.full(300, 30))


def test_many_python_threads_at_once():
    config.update("num_threads", 3)
    blocks = [TapeBlock(60, [instruction("prefix", 0, 1, 1), instruction("prefix", 1, 2, 0)], 7)] * 5
    tape = Tape(blocks)
    wrong: list[int] = []

    def work(number: int) -> None:
        run = tape.bind(np.zeros(3, np.int64), 3)
        for i in range(400):
            x, y, z = np.arange(60) * number + i, np.zeros(60, np.int64), np.zeros(60, np.int64)
            call(run, x, y, z)
            if not np.array_equal(z, 2 * (2 * x + 1)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for i in range(20):
        config.update("num_threads", 1 + i % 4)
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_second_caller_does_not_wait_for_the_pool():
    config.update("num_threads", 2)
    flags, x = np.zeros(2, np.int64), np.zeros(100, np.int64)
    run = bound([TapeBlock(100, [instruction("increment", 0, 1)], 10)], 1)
    call(run, x)
    log = np.zeros(10, np.int64)
    blocks = [TapeBlock(2, [instruction("increment", 1, 0)], 1), TapeBlock(1, [instruction("wait")])]
    waiting = bound(blocks, 2)
    thread = threading.Thread(target=call, args=(waiting, flags, log))
    thread.start()
    while flags[0] == 0:
        time.sleep(0.001)
    assert runtime().pool.words[w.OWNER] == 1
    call(run, x)
    flags[1] = 1
    thread.join()
    assert runtime().pool.words[w.OWNER] == 0
    np.testing.assert_array_equal(x, np.full(100, 2))


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")

FORKING = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
import numpy as np
from test_cpu_runtime import TapeBlock, Tape, bound, call, config, instruction, runtime
config.update("num_threads", 3)
x = np.zeros(60, np.int64)
run = bound([TapeBlock(60, [instruction("increment", 0, 1)], 5)] * 20, 1)
stop = []
def busy():
    mine, own = np.zeros(60, np.int64), bound([TapeBlock(60, [instruction("increment", 0, 1)], 5)] * 20, 1)
    while not stop:
        call(own, mine)
background = threading.Thread(target=busy)
if {threaded}:
    background.start()
for i in range(20):
    call(run, x)
    child = os.fork()
    if child == 0:
        for _ in range(20):
            call(run, x)
        good = (x == 20 * (i + 1) + 400).all() and runtime().pool.running == 2
        grandchild = os.fork()
        if grandchild == 0:
            call(run, x)
            os._exit(0)
        good = good and os.waitpid(grandchild, 0)[1] == 0
        call(run, x)
        os._exit(0 if good else 3)
    call(run, x)
    x -= 20
    assert os.waitpid(child, 0)[1] == 0, i
stop.append(1)
if {threaded}:
    background.join()
call(run, x)
assert (x == 20 * 21).all()
print("fine")
"""


@needs_fork
@pytest.mark.parametrize("threaded", [False, True])
def test_fork_in_the_middle(threaded):
    tests = os.path.dirname(__file__)
    # With threads of the user's own, Python's warning about the fork is the user's.
    warnings = "ignore" if threaded else "error"
    assert _run(FORKING.format(tests=tests, threaded=threaded), warnings) == "fine\n"


def test_exit_with_running_helpers_is_clean():
    program = f"""
import sys, threading
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np
from test_cpu_runtime import TapeBlock, bound, call, config, instruction
config.update("num_threads", 4)
x = np.zeros(60, np.int64)
run = bound([TapeBlock(60, [instruction("increment", 0, 1)], 5)] * 20, 1)
def forever():
    while True:
        call(run, x)
call(run, x)
call(run, x)
threading.Thread(target=forever, daemon=True).start()
print("fine")
"""
    assert _run(program, "error") == "fine\n"


def test_the_environment_sets_the_number_of_threads():
    program = "from functad.backends.cpu.runtime.tape import runtime; print(runtime().pool.threads)"
    assert _run(program, "error", FUNCTAD_NUM_THREADS="7") == "7\n"


def test_a_warm_process_imports_no_compiler():
    program = """
import sys
from functad.backends.cpu.runtime.tape import runtime
from functad.backends.cpu.products.blas import handle
handle("float32")
print(runtime().kernels.compiled, sorted({"numba", "functad.backends.cpu.compile.integer_compiler"} & set(sys.modules)))
"""
    runtime()
    assert _run(program, "error") == "False []\n"


def _run(program: str, warnings: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", warnings, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout
