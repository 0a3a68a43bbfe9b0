"""How kernels run in Numba's simulator, which executes them in Python threads: one at a time, and without its races.

Knows nothing of Programs.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

SWITCHES = 1e-5  # seconds between threads of Python: the simulator's threads wait for one another most of the time


@contextmanager
def simulation() -> Iterator[None]:
    """A context in which kernels are run: one thread of the caller's at a time, without warnings of infinities."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        shared: Any = import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
        interval, array = sys.getswitchinterval(), shared.array
        sys.setswitchinterval(SWITCHES)
        shared.array = _shared_array
        try:
            yield
        finally:
            shared.array = array
            sys.setswitchinterval(interval)


def _shared_array(memory: Any, shape: Any, dtype: Any, alignment: int = 0) -> np.ndarray:
    """`cuda.shared.array`: one for each line. Numba's own may give two arrays to two threads that ask at once."""
    caller = sys._getframe(1)
    line = (caller.f_code.co_filename, caller.f_lineno)
    with _allocation:
        if line not in memory._allocations:
            memory._allocations[line] = np.empty(shape, str(dtype))
        found: np.ndarray = memory._allocations[line]
        return found


_one_at_a_time = threading.RLock()
_allocation = threading.Lock()
