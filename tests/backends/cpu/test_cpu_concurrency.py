"""Compiled functions called by several Python threads, within each other, and after a fork."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.backends.cpu.compile import machine
from functad.config import config

jit = functad.jit
ROWS = 256


def run_all(*works):
    """Run functions at the same time, each in a thread; raise what one of them raised."""
    errors, ready = [], threading.Barrier(len(works))

    def run(work):
        ready.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not any(t.is_alive() for t in threads)
    if errors:
        raise errors[0]


SHAPES = [(24,), (2, 12), (12, 2), (3, 8), (8, 3), (4, 6), (6, 4), (2, 3, 4), (4, 3, 2), (2, 2, 6), (3, 2, 4)]


def reshaping(seed):
    """A function that sees 24 elements in many shapes, transposed, rolled and joined."""

    def fun(x):
        order = np.random.default_rng(seed)
        for _ in range(12):
            shape = SHAPES[order.integers(len(SHAPES))]
            x = jnp.roll(x.reshape(shape).T, 1, axis=0) * 2.0 + jnp.tanh(x.reshape(shape[::-1]))
        return x, x.reshape(-1)[::2].sum()

    return fun


def test_threads_that_lower_at_the_same_time_make_the_kernels_of_one():
    x = np.ones(24, np.float32)
    alone = [str(jit(reshaping(seed)).lower(x).kernels) for seed in range(12)]
    made = {}

    def lower(seeds):
        for seed in seeds:
            made[seed] = str(jit(reshaping(seed)).lower(x).kernels)

    run_all(*(lambda k=k: lower(range(k, 12, 4)) for k in range(4)))
    assert [made[seed] for seed in range(12)] == alone


def layer(x, w):
    return jnp.maximum(x @ w, 0.0).sum(axis=1) + jnp.tanh(x).sum(axis=1)


def expected(x, w):
    return np.maximum(x @ w, 0).sum(axis=1) + np.tanh(x).sum(axis=1)


def data(seed):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=s).astype(np.float32) for s in ((ROWS, 64), (64, 128))]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_one_function_called_by_many_threads(threads):
    f = jit(layer)

    def work(seed):
        x, w = data(seed)
        wanted = expected(x, w)
        for _ in range(30):
            np.testing.assert_allclose(f(x, w), wanted, rtol=2e-4, atol=2e-3)

    with config.context(num_threads=threads):
        run_all(*[lambda s=s: work(s) for s in range(4)])


def test_the_first_call_made_by_many_threads_at_once():
    traces = []

    def f(x):
        traces.append(1)
        return x * 2 + 1

    for _ in range(5):
        g = jit(lambda x: f(x))
        results = []
        run_all(*[lambda g=g, r=results, n=n: r.append((n, float(g(float(n))))) for n in range(6)])
        assert sorted(results) == [(n, 2.0 * n + 1) for n in range(6)]


def test_different_functions_at_the_same_time():
    def work(n):
        f = jit(lambda x: jnp.sin(x) * n + x.sum())
        x = np.linspace(0, 1, 1000 + n, dtype=np.float32)
        for _ in range(30):
            np.testing.assert_allclose(f(x), np.sin(x) * n + x.sum(), rtol=1e-5)

    run_all(*[lambda n=n: work(n) for n in range(5)])


def test_donation_in_every_thread():
    step = jit(lambda p, g: (p["w"] - 0.5 * g, g * 2), donate_argnums=(0,))

    def work(n):
        p = {"w": jnp.full(50_000, float(n), np.float32)}
        g = np.ones(50_000, np.float32)
        for i in range(40):
            w, doubled = step(p, g)
            assert w[0] == w[-1] == n - 0.5 * (i + 1) and doubled[0] == 2
            p = {"w": w}
        assert (np.asarray(p["w"]) == n - 20).all()

    run_all(*[lambda n=n: work(n) for n in range(4)])


def test_options_of_one_thread_are_its_own():
    f = jit(lambda x: x * 2.0)
    f(1.0)

    def wide():
        with config.context(enable_x64=True):
            for _ in range(200):
                assert f(1.0).dtype == np.float64

    def narrow():
        for _ in range(200):
            assert f(1.0).dtype == np.float32

    def interpreted():
        with config.context(default_backend="interpreter"):
            for _ in range(200):
                assert f(1.0).dtype == np.float32

    run_all(wide, narrow, interpreted)


def test_tracing_in_one_thread_while_another_calls():
    f = jit(lambda x: x * 2)
    f(1.0)

    def trace():
        for n in range(1, 20):
            assert jit(lambda x, n=n: f(x) * n)(1.0) == 2 * n

    def call():
        for n in range(500):
            assert f(float(n)) == 2 * n

    run_all(trace, call, call)


def test_the_thread_count_changes_meanwhile():
    f = jit(layer)
    x, w = data(0)
    wanted = expected(x, w)

    def call():
        for _ in range(40):
            np.testing.assert_allclose(f(x, w), wanted, rtol=2e-4, atol=2e-3)

    def change():
        for n in (1, 3, 2, 4, 1, 2):
            with config.context(num_threads=n):
                f(x, w)

    run_all(call, call, change)


def test_a_call_from_a_finalizer():
    f = jit(lambda x: x + 1)
    f(np.ones(1000, np.float32))
    seen = []

    class Calls:
        def __del__(self):
            seen.append(float(f(np.full(1000, 5, np.float32))[0]))

    for _ in range(50):
        cycle = [Calls()]
        cycle.append(cycle)
        del cycle
        assert f(np.ones(1000, np.float32))[0] == 2
    gc.collect()
    assert seen == [6] * 50


def _in_child(queue, f, x, w, p, step):
    try:
        fresh = jit(lambda x: jnp.cos(x).sum())
        queue.put((np.asarray(f(x, w)), float(fresh(np.zeros(3, np.float32))), float(step(p)[0])))
    except BaseException as error:
        queue.put(error)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_parent_and_child_go_on():
    f, step = jit(layer), jit(lambda p: p + 1, donate_argnums=0)
    x, w = data(1)
    wanted = expected(x, w)
    context = multiprocessing.get_context("fork")
    with config.context(num_threads=2):
        f(x, w)
        for _ in range(2):
            queue = context.Queue()
            p = jnp.ones(1000)
            child = context.Process(target=_in_child, args=(queue, f, x, w, p, step))
            child.start()
            result = queue.get(timeout=60)
            child.join(60)
            assert child.exitcode == 0 and not isinstance(result, BaseException), result
            np.testing.assert_allclose(result[0], wanted, rtol=2e-4, atol=2e-3)
            assert result[1:] == (3.0, 2.0) and p[0] == 1
            np.testing.assert_allclose(f(x, w), wanted, rtol=2e-4, atol=2e-3)


# --- compiling, by one thread for all ---------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The sources that were compiled; nothing is found on disk."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    sources, compile_kernels = [], machine.compile_kernels
    monkeypatch.setattr(
        machine,
        "compile_kernels",
        lambda source, *rest, **options: sources.append(source) or compile_kernels(source, *rest, **options),
    )
    return sources


def test_many_threads_that_call_one_new_function_compile_it_once(compiled):
    traced, results = [], []

    def f(x):
        traced.append(1)
        time.sleep(0.05)
        return jnp.tanh(x * 1.25 + jnp.sinh(x))

    g = jit(f)
    run_all(*[lambda: results.append(float(g(0.5))) for _ in range(16)])
    assert len(traced) == len(compiled) == 1
    assert len(results) == 16 and len(set(results)) == 1


def test_equal_functions_in_many_threads_are_compiled_once(compiled):
    results = []
    functions = [jit(lambda x: jnp.cosh(x * 1.75) - jnp.sinh(x)) for _ in range(8)]
    run_all(*[lambda f=f: results.append(float(f(0.5))) for f in functions])
    assert len(compiled) == 1 and len(set(results)) == 1 and len(results) == 8


def test_if_the_first_thread_fails_the_others_try():
    tried, results = [], []

    def f(x):
        tried.append(threading.get_ident())
        time.sleep(0.02)
        if len(tried) < 3:
            raise ZeroDivisionError("not yet")
        return x + 1

    g = jit(f)

    def work():
        try:
            results.append(float(g(1.0)))
        except ZeroDivisionError:
            results.append("failed")

    run_all(*[work for _ in range(6)])
    assert len(tried) == 3 and results.count("failed") == 2 and results.count(2.0) == 4


def test_threads_that_trace_functions_which_call_each_other_do_not_wait_for_ever():
    inside = threading.Barrier(2, timeout=20)
    results = []

    @functools.partial(jit, static_argnums=1)
    def f(x, depth):
        if depth == 2:
            inside.wait()
        return g(x, depth - 1) + 1 if depth else x

    @functools.partial(jit, static_argnums=1)
    def g(x, depth):
        if depth == 2:
            inside.wait()
        return f(x, depth - 1) * 2 if depth else x

    # Each holds what the other one needs next.
    f_first = jit(lambda x: f(x, 2) + g(x, 2))
    g_first = jit(lambda x: g(x, 2) + f(x, 2))

    def first():
        results.append(float(f_first(3.0)))

    def second():
        results.append(float(g_first(3.0)))

    run_all(first, second)
    assert results == [15.0, 15.0]


def test_a_function_calls_itself_while_it_is_traced():
    @functools.partial(jit, static_argnums=1)
    def factorial(x, n):
        return factorial(x, n - 1) * n if n else x

    results = []
    run_all(*[lambda: results.append(float(factorial(1.0, 6))) for _ in range(4)])
    assert results == [720.0] * 4


def test_a_callback_compiles():
    inner = jit(lambda x: x * 3 + 1)
    outer = jit(
        lambda x: functad.pure_callback(lambda v: np.asarray(inner(v)), functad.ShapeDtypeStruct((), x.dtype), x)
    )
    results = []
    run_all(*[lambda: results.append(float(outer(np.float32(2)))) for _ in range(8)])
    assert results == [7.0] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_another_thread_compiles(compiled):
    """It does not wait for locks, or for work, of a thread that it does not have."""
    tracing, ended = threading.Event(), threading.Event()

    def f(x):
        tracing.set()
        ended.wait(20)
        return jnp.sinh(x) + 2.5

    g = jit(f)
    busy = [
        threading.Thread(target=lambda: g(0.0)),
        *[threading.Thread(target=lambda k=k: jit(lambda x: jnp.tanh(x) ** 3 + k)(np.ones(5 + k))) for k in range(5)],
    ]
    for t in busy:
        t.start()
    assert tracing.wait(20)
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                ended.set()
                signal.alarm(60)
                right = float(g(0.0)) == 2.5 and float(jit(lambda x: jnp.cosh(x) + 1.5)(0.0)) == 2.5
                os._exit(0 if right else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ended.set()
    for t in busy:
        t.join(60)
    assert float(g(0.0)) == 2.5
