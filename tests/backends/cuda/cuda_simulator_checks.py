"""Checks of the simulator itself: the turns of a block's threads, and what they say to one another.

A kernel is text here, as functad's are: the simulator puts what it has for `cuda` among the names of its file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from cuda_check_tools import LeftOut, checks_of, raised

from functad.backends.cuda.scalars.registry import SIMULATED
from functad.backends.cuda.scalars.simulator import simulation

THREADS = 32
KERNELS = f"""
def in_reverse(out, waits):
    thread = cuda.threadIdx.x
    shared = cuda.shared.array({THREADS}, dtype="int64")
    shared[thread] = -1
    cuda.syncthreads()
    shared[thread] = thread
    if waits:
        cuda.syncthreads()
    out[thread] = shared[{THREADS - 1} - thread]

def votes(out):
    thread = cuda.threadIdx.x + 2 * cuda.threadIdx.y
    out[thread] = -1
    if cuda.syncthreads_or(thread == 5) and thread < 3:
        return
    if not cuda.syncthreads_and(thread < 7):
        out[thread] = cuda.syncthreads_count(thread % 2)

def raises(out):
    if cuda.threadIdx.x == 5:
        raise KeyError("a mistake")
    cuda.syncthreads()
"""


def launched(name: str, block: tuple[int, ...], *options: Any) -> np.ndarray:
    """What a kernel writes for each thread."""
    if not SIMULATED:
        raise LeftOut("there is no simulator")
    cuda = import_module("numba.cuda")
    names: dict[str, Any] = {"cuda": cuda}
    exec(KERNELS, names)
    kernel: Callable[..., None] = cuda.jit(names[name])
    out = np.zeros(int(np.prod(block)), np.int64)
    with simulation():
        kernel[1, block](out, *options)
    return out


def check_a_barrier_that_is_not_there_shows() -> None:
    there = np.arange(THREADS)[::-1]
    np.testing.assert_array_equal(launched("in_reverse", (THREADS,), True), there)
    missing = launched("in_reverse", (THREADS,), False)
    assert 4 < (missing == -1).sum() < THREADS - 4  # whichever way threads read
    np.testing.assert_array_equal(missing, launched("in_reverse", (THREADS,), False))  # in every run


def check_threads_that_have_ended_have_no_vote() -> None:
    np.testing.assert_array_equal(launched("votes", (2, 4)), [-1, -1, -1, 3, 3, 3, 3, 3])


def check_a_mistake_of_one_thread_ends_all() -> None:
    assert "a mistake" in raised(KeyError, lambda: launched("raises", (THREADS,)))
    for thread in threading.enumerate():
        if thread.name == "functad-simulated":
            thread.join(1)
            assert not thread.is_alive()


CHECKS = checks_of(globals())
