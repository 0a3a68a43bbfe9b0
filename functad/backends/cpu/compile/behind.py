"""Work that other threads do while this one prepares the next piece: LLVM's, which leaves Python to others.

Knows threads; not what the work is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue

from functad import machine_model
from functad.options import available_cores

BackgroundJob = Callable[[], object]


def do_behind(jobs: Iterable[BackgroundJob]) -> None:
    """Do the jobs, in any order, while `jobs` makes more of them; all cores take part, at last this thread, too.

    Raises what a job or `jobs` raises; nothing is at work then.

    >>> squares = set()
    >>> do_behind(lambda k=k: squares.add(k * k) for k in range(4))
    >>> sorted(squares)
    [0, 1, 4, 9]
    """
    workers = available_cores()[0] - 1
    if workers == 0:
        for job in jobs:
            job()
        return
    with _Workers(workers) as behind:
        for job in jobs:
            behind.add(job)


class _Workers:
    """The threads; as long as they live, threads leave Python to one another soon."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: SimpleQueue[BackgroundJob | None] = SimpleQueue()  # None ends a thread
        self._goes_on = True
        self._problem: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def add(self, job: BackgroundJob) -> None:
        self._jobs.put(job)
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name="functad-behind", daemon=True)
            self._threads.append(thread)  # first: Ctrl-C may come while it starts
            try:
                thread.start()
            except RuntimeError:  # there are as many as the system allows
                self._threads.pop()
                self._most = 0

    def __enter__(self) -> _Workers:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(min(self._interval, machine_model.SWITCH_S))
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._goes_on = self._goes_on and kind is None
        for _ in range(len(self._threads) + 1):
            self._jobs.put(None)
        try:
            self._run()
            self._join()
        except BaseException:  # somebody does not want to wait: only for the jobs that are being done
            self._goes_on = False
            self._join()
            raise
        finally:
            sys.setswitchinterval(self._interval)
        if kind is None and self._problem is not None:
            raise self._problem

    def _join(self) -> None:
        for thread in self._threads:
            with suppress(RuntimeError):  # Ctrl-C came before it had started: it does no job any more
                thread.join()

    def _run(self) -> None:
        while job := self._jobs.get():
            if self._goes_on:
                try:
                    job()
                except BaseException as problem:
                    self._problem, self._goes_on = problem, False
