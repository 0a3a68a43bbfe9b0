"""How kernels run in Numba's simulator: one at a time, and of its threads, which are Python's, one at a time, too.

Knows nothing of Programs.
"""

from __future__ import annotations

import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np


@contextmanager
def simulation() -> Iterator[None]:
    """A context in which kernels are run: one thread of the caller's at a time, without warnings of infinities."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        kernels: Any = import_module("numba.cuda.simulator.kernel")
        shared: Any = import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
        usual = kernels.BlockManager, shared.array
        kernels.BlockManager, shared.array = _ThreadsOfBlock, _shared_array
        try:
            yield
        finally:
            kernels.BlockManager, shared.array = usual


def _shared_array(memory: Any, shape: Any, dtype: Any, alignment: int = 0) -> np.ndarray:
    """`cuda.shared.array`: one for each line. Numba's own takes no alignment, and looks for the line in all callers."""
    caller = sys._getframe(1)
    line = (caller.f_code.co_filename, caller.f_lineno)
    if line not in memory._allocations:
        memory._allocations[line] = np.empty(shape, str(dtype))
    found: np.ndarray = memory._allocations[line]
    return found


class _ThreadsOfBlock:
    """A block of threads that take turns: one runs until it waits for the others, or ends, and then another one does.

    The order is another one between any two barriers, but the same in every run: what needs a barrier that is not
    there reads what nobody has written yet. Stands for Numba's `BlockManager`, which asks all threads all the time.
    """

    def __init__(self, function: Callable[..., None], grid: Sequence[int], block: Sequence[int], debug: bool) -> None:
        self.function = function
        self.size = block
        self.votes: dict[int, Any] = {}
        self.error: Exception | None = None
        self._waiting: list[_Thread] = []
        self._going_on: list[_Thread] = []
        self._over = _closed()
        self._choose = random.Random(0)

    def run(self, block: Sequence[int], *args: Any) -> None:
        self.block, self.args = block, args
        self.to_begin = list(np.ndindex(*self.size))
        self._choose.shuffle(self.to_begin)
        self.pass_on()
        self._over.acquire()
        if self.error is not None:
            raise self.error

    def wait(self, thread: _Thread) -> None:
        """What a thread calls at a barrier."""
        self._waiting.append(thread)
        self.pass_on()
        thread.turn.acquire()

    def pass_on(self) -> None:
        """Let another thread run. All those that wait go on when no other is left."""
        if self.to_begin and self.error is None:
            _Thread(self).start()
            return
        if not self._going_on:
            self._going_on, self._waiting = self._waiting, []
            self._choose.shuffle(self._going_on)
        (self._going_on.pop().turn if self._going_on else self._over).release()


def _closed() -> threading.Lock:
    """What one thread waits for by `acquire`, and another opens by `release`: in fewer steps than a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Thread(threading.Thread):
    """One of Python's threads, as which threads of a block run that need not wait for one another, then another one."""

    def __init__(self, block: _ThreadsOfBlock) -> None:
        super().__init__(name="functad-simulated", daemon=True)
        self.block = block
        self.turn = _closed()

    def run(self) -> None:
        block, three = self.block, import_module("numba.cuda.simulator.kernelapi").Dim3
        self.blockIdx = three(*block.block)
        while block.to_begin and block.error is None:
            x, y, z = block.to_begin.pop()
            self.threadIdx = three(x, y, z)
            self.thread_id = x + block.size[0] * (y + block.size[1] * z)
            try:
                block.function(*block.args)
            except Exception as error:
                block.error = block.error or error
        block.pass_on()

    def syncthreads(self) -> None:
        self.block.wait(self)
        if self.block.error is not None:
            raise self.block.error

    def _votes(self, value: Any) -> list[bool]:
        """What all threads say that are still there."""
        self.block.votes[self.thread_id] = value
        self.syncthreads()
        votes = [bool(vote) for vote in self.block.votes.values()]
        self.syncthreads()
        del self.block.votes[self.thread_id]
        return votes

    def syncthreads_count(self, value: Any) -> int:
        return sum(self._votes(value))

    def syncthreads_and(self, value: Any) -> int:
        return int(all(self._votes(value)))

    def syncthreads_or(self, value: Any) -> int:
        return int(any(self._votes(value)))


_one_at_a_time = threading.RLock()
