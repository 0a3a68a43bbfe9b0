"""The pool of threads that runs tapes together with the thread that calls: starting, stopping, fork and exit.

This file must not know what a tape is: the helpers live in compiled code.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.runtime import layout as w
from functad.system.log import logger
from functad.system.once import hold_over_forks


class Pool:
    """Helper threads that wait in compiled code, busily for 200 microseconds after the last work, then asleep.

    They start before the first call of an executable, or when a call has found them missing, and stop at exit, before a
    fork, and when the number changes.

    Args:
        addresses: of the compiled functions `helper`, `stop`, `finish`, `spin`, `poll`.
    """

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self.words = _aligned_words(w.POOL_HELPER + w.HELPER_SIZE * w.MAX_THREADS)
        self.address = int(self.words.ctypes.data)
        self._helper = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(addresses["helper"])
        self._stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses["stop"])
        self._finish = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses["finish"])
        self._threads: list[threading.Thread] = []
        self._lock = threading.RLock()
        api = ctypes.pythonapi
        self.words[w.YIELD] = address_of(_yield_function())
        self.words[w.ACQUIRE] = address_of(api.PyThread_acquire_lock)
        self.words[w.RELEASE] = address_of(api.PyThread_release_lock)
        self.words[w.SAVE_THREAD] = address_of(api.PyEval_SaveThread)
        self.words[w.RESTORE_THREAD] = address_of(api.PyEval_RestoreThread)
        self.words[w.TO_PYTHON] = address_of(api.PyLong_FromLongLong)
        self.words[w.ARRAY_TYPE] = id(np.ndarray)
        self.words[w.REALLOC] = address_of(api.PyMem_RawRealloc)
        self.words[w.MAIN_THREAD] = threading.main_thread().ident or 0
        self.words[w.THREAD] = address_of(api.PyThread_get_thread_ident)
        self.words[w.CLOCK], self.words[w.CLOCK_NUMBER] = _clock()
        self.words[w.ENSURE] = address_of(api.PyGILState_Ensure)
        self.words[w.RELEASE_STATE] = address_of(api.PyGILState_Release)
        self.words[w.CHECK_SIGNALS] = address_of(api.PyErr_CheckSignals)
        self.words[w.NEW_TUPLE] = address_of(api.PyTuple_New)
        self.words[w.SET_ITEM] = address_of(api.PyTuple_SetItem)
        self.words[w.CALL] = address_of(api.PyObject_Call)
        self.words[w.DECREF] = address_of(api.Py_DecRef)
        self.words[w.POLL] = addresses["poll"]
        seconds = _seconds_of_a_spin(ctypes.CFUNCTYPE(None, ctypes.c_int64)(addresses["spin"]))
        self.words[w.SPINS] = max(1, int(machine_model.SPIN_SECONDS / seconds))
        self.words[w.PATIENCE] = max(1, int(machine_model.PATIENCE_SECONDS / seconds))
        # No line of Python runs there, which a second Ctrl-C could interrupt with a traceback.
        atexit.register(self._finish, self.address)

    def survive_forks(self) -> None:
        """Stop the helpers before each fork; parent and child start their own again."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork_in_child)
        hold_over_forks(self._before_fork, self._lock.release)

    @property
    def threads(self) -> int:
        """How many threads a call may use: the one that calls, and the helpers."""
        return int(self.words[w.WANTED]) + 1

    @property
    def running(self) -> int:
        """How many helper threads there are now."""
        return int(self.words[w.HELPERS])

    def set_threads(self, count: int) -> None:
        """Let calls use `count` threads from now on. Calls under way go on, perhaps with fewer."""
        with self._lock:
            wanted = 0 if self.words[w.ENDING] else min(count, w.MAX_THREADS) - 1
            if wanted != len(self._threads):
                self._stop_helpers()
            self.words[w.WANTED] = wanted

    def start(self) -> None:
        """Start the helpers that are missing."""
        with self._lock:
            wanted = 0 if self.words[w.ENDING] else int(self.words[w.WANTED])
            if self.words[w.HELPERS] == wanted:
                return
            self._stop_helpers()
            for number in range(wanted):
                own = w.POOL_HELPER + w.HELPER_SIZE * number
                if self.words[own + 1] == 0:
                    self.words[own + 1] = _held_lock()
                arguments = (self.address, self.address + 8 * own)
                thread = threading.Thread(
                    target=self._helper, args=arguments, name=f"functad helper {number + 1}", daemon=True
                )
                self._threads.append(thread)  # first: Ctrl-C may come while it starts, and it must be stopped then
                try:
                    thread.start()
                except RuntimeError as problem:
                    logger().warning("functad goes on with %d of %d threads: %s", number + 1, wanted + 1, problem)
                    self._threads.pop()
                    self.words[w.WANTED] = number
                    break
                self.words[w.HELPERS] = number + 1  # not before: whoever starts what is missing goes by this

    def stop(self) -> None:
        """Stop all helpers; the next call that wants them starts them again."""
        with self._lock:
            self._stop_helpers()

    def _stop_helpers(self) -> None:
        if self._threads:
            self._stop(self.address)
            self.words[w.HELPERS] = 0
            # Ctrl-C may end the wait; the next call of this method goes on with it.
            while self._threads:
                with suppress(RuntimeError):  # Ctrl-C came before it had started
                    self._threads[-1].join()
                self._threads.pop()
            self.words[w.STOP] = 0

    def _before_fork(self) -> None:
        # Threads do not survive a fork, and Python warns about a fork of a process that has some.
        self._lock.acquire()
        self._stop_helpers()

    def _after_fork_in_child(self) -> None:
        # Calls that other threads had under way are gone: the pool has no owner and nothing to claim.
        words = self.words
        words[w.MAIN_THREAD] = threading.get_ident()
        words[w.LIVING] = 0
        words[w.OWNER] = 0
        words[w.CLAIM] = (words[w.CLAIM] | (w.CLAIM_SIZE**2 - 1)) + 1
        words[w.BLAS_LOCK] = 0
        if words[w.BLAS_CALLERS] > 0:
            words[w.BLAS_CALLERS] = 0
            ctypes.CFUNCTYPE(None, ctypes.c_int)(int(words[w.BLAS_SET]))(int(words[w.BLAS_SAVED]))


def _aligned_words(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    room = np.zeros(count + 8, np.int64)
    start = -(room.ctypes.data // 8) % 8
    return room[start : start + count]


def address_of(function: Any) -> int:
    """Where a function of C begins, as `ctypes` knows it."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _clock() -> tuple[int, int]:
    """The address of the function that reads the clock, and the number of the clock, -1 if there is only one."""
    if sys.platform == "win32":
        return address_of(ctypes.windll.kernel32.GetTickCount64), -1
    clock = time.CLOCK_MONOTONIC
    if sys.platform == "linux":
        clock = 6  # CLOCK_MONOTONIC_COARSE: it ticks every few ms, and reading it takes 4 ns rather than 20
    return address_of(ctypes.CDLL(None).clock_gettime), clock


def _yield_function() -> Any:
    if sys.platform == "win32":
        return ctypes.windll.kernel32.SwitchToThread
    return ctypes.CDLL(None).sched_yield


def _held_lock() -> int:
    # Python's own locks, since compiled code can wait for them on every platform, and without the interpreter.
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", ctypes.pythonapi))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(
        ("PyThread_acquire_lock", ctypes.pythonapi)
    )
    lock = allocate()
    if not lock:
        raise MemoryError("no memory for a lock of the thread pool")
    acquire(lock, 1)
    return int(lock)


def _seconds_of_a_spin(spin: Any) -> float:
    count = 500
    shortest = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        spin(count)
        shortest = min(shortest, time.perf_counter() - start)
    return max(shortest / count, 1e-10)
