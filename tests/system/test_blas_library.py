"""NumPy's BLAS library and its number of threads: one during an un-jitted product, and what it was afterwards.

Knows the library's own count only.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.backends.cpu.products import blas
from functad.system import lapack
from functad.system.blas_library import numpys_blas, on_one_thread


@pytest.fixture
def threads():
    """The library's number of threads, which is 3 at first."""
    found = numpys_blas()
    if found is None or not found.get_threads:
        pytest.skip("NumPy's BLAS library does not say how many threads it has")
    before = found.threads()
    set_threads = getattr(ctypes.CDLL(found.path), found.set_threads)
    set_threads(3)
    yield found.threads
    set_threads(before)


def test_there_is_one_thread_within_and_the_number_comes_back(threads):
    assert on_one_thread(threads) == 1 and threads() == 3
    assert on_one_thread(on_one_thread, threads) == 1 and threads() == 3
    with pytest.raises(ZeroDivisionError):
        on_one_thread(lambda: 1 / 0)
    assert threads() == 3


def test_products_of_medium_size_run_on_one_thread(threads, monkeypatch):
    seen = []
    matmul = np.matmul

    def spy(*args, **kwargs):
        seen.append(threads())
        return matmul(*args, **kwargs)

    monkeypatch.setattr(np, "matmul", spy)
    x = jnp.ones((128, 128))
    assert jnp.array_equal(x @ x, jnp.full((128, 128), 128.0))
    assert seen == [1] and threads() == 3


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", ["cholesky", "eigh", "qr", "svd"])
def test_matrices_of_medium_size_are_factorised_on_one_thread(threads, monkeypatch, name, jit):
    monkeypatch.setattr("functad.backends.cpu.lowering.has_routine", lambda name, dtype: False)
    seen = []
    routine = {"cholesky": "potrf", "eigh": "syevd", "qr": "geqrf", "svd": "gesdd"}[name]
    apply = lapack.apply

    def spy(called, *args, **kwargs):
        if called == routine:
            seen.append(threads())
        return apply(called, *args, **kwargs)

    monkeypatch.setattr(lapack, "apply", spy)
    factorise = functad.jit(getattr(jnp.linalg, name)) if jit else getattr(jnp.linalg, name)
    factorise(jnp.eye(64))
    assert seen == [1] and threads() == 3
    monkeypatch.setattr(machine_model, "ONE_THREAD_MATRIX", 63)
    if not jit:  # beside compiled kernels the library's threads would fight with functad's
        factorise(jnp.eye(64))
        assert seen == [1, 3]


def test_routines_that_kernels_call_have_one_thread(threads, monkeypatch):
    seen = []
    spy = ctypes.CFUNCTYPE(None)(lambda: seen.append(threads()))
    monkeypatch.setattr(lapack, "routine_address", lambda name, dtype: ctypes.cast(spy, ctypes.c_void_p).value)
    if not blas.has_routine("potrf", np.float32):
        pytest.skip("compiled code multiplies by a library that is not NumPy's LAPACK")
    functad.clear_caches()
    blas._handle_of_routine.cache_clear()
    functad.jit(jnp.linalg.cholesky)(jnp.eye(71))
    functad.clear_caches()
    blas._handle_of_routine.cache_clear()
    assert seen == [1] and threads() == 3


def test_the_number_comes_back_whoever_else_multiplies(threads):
    """Un-jitted and jitted products of several threads, which come and go in any order."""
    x = jnp.ones((128, 128))
    jitted = functad.jit(lambda x: x @ x)
    jitted(x)

    def work(product):
        for _ in range(100):
            product(x)

    workers = [threading.Thread(target=work, args=(p,)) for p in (jitted, lambda x: x @ x) * 2]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert threads() == 3


_FORK = """
import os, threading
from functad.system.blas_library import on_one_thread, numpys_blas, _thread_calls
_thread_calls()[1](3)
inside, leave = threading.Event(), threading.Event()
other = threading.Thread(target=on_one_thread, args=(lambda: (inside.set(), leave.wait()),))
other.start()
inside.wait()
child = os.fork()
if child == 0:
    os._exit(numpys_blas().threads())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
leave.set()
other.join()
print(numpys_blas().threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_has_the_number_of_before(threads):
    run = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "3"]
