"""Work that another thread does while this one prepares the next piece: LLVM's, which leaves Python to others.

Knows threads; not what the work is.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from functad import machine_model
from functad.config import available_cores

Job = Callable[[], object]


def do_behind(jobs: Iterable[Job]) -> None:
    """Do the jobs in order, each while `jobs` makes those after it, if there is a core for that.

    Raises what a job or `jobs` raises; nothing is at work then.

    >>> squares = []
    >>> do_behind(lambda k=k: squares.append(k * k) for k in range(4))
    >>> squares
    [0, 1, 4, 9]
    """
    if available_cores()[0] == 1:
        for job in jobs:
            job()
        return
    with _Worker() as worker:
        for job in jobs:
            worker.jobs.put(job)


class _Worker:
    """The thread; as long as it lives, threads leave Python to one another soon."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()  # None ends it
        self._goes_on = True
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="functad-behind", daemon=True)

    def __enter__(self) -> _Worker:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(min(self._interval, machine_model.SWITCH_S))
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._goes_on = kind is None
        self.jobs.put(None)
        try:
            self._thread.join()
        except BaseException:  # somebody does not want to wait: only for the job that it is at
            self._goes_on = False
            self._thread.join()
            raise
        finally:
            sys.setswitchinterval(self._interval)
        if kind is None and self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        while job := self.jobs.get():
            if self._goes_on:
                try:
                    job()
                except BaseException as problem:
                    self._problem, self._goes_on = problem, False
